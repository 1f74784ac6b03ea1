#!/usr/bin/env bash
# Everything Sluice needs to run, inside this folder: .venv (Python packages, Java's whereabouts) and
# .jars. Steps that are done are skipped, so it may be run at any time. Called by `make setup`.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

usable_python() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.11 python3.12 python3.13; do
        if command -v "$candidate" >/dev/null && usable_python "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    local python
    python=$(find_python) || fail "no Python 3.11, 3.12 or 3.13 was found.
Install one (Debian 12, Ubuntu 24.04 and later: sudo apt-get install python3 python3-venv), or name
one: make setup PYTHON=/path/to/python3.11"
    rm -rf "$VENV"
    # Debian ships `venv` without pip's wheel, in a package of its own.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        install_packages "Python's venv" "$(basename "$("$python" -c \
            'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")" || fail \
            "$python has no venv module. Install it: sudo apt-get install python3-venv"
    fi
    "$python" -m venv "$VENV"
    mkdir -p "$STAMPS"
}

install_python_packages() {
    if command -v uv >/dev/null && uv --version >/dev/null 2>&1; then
        uv pip install --quiet --python "$VENV/bin/python" --require-hashes -r requirements.txt
    else
        # pip wants pyspark's source build to fetch its own setuptools; every package is checked by
        # hash all the same.
        "$VENV/bin/python" -m pip install --disable-pip-version-check --require-hashes \
            --progress-bar off -r requirements.txt |
            awk '/^Collecting/ && ++n % 25 == 0 { printf "    %d packages\n", n; fflush() }'
    fi
}

install_project() {
    mkdir -p include/sluice
    if command -v uv >/dev/null && uv --version >/dev/null 2>&1; then
        uv pip install --quiet --python "$VENV/bin/python" --no-deps --no-build-isolation -e .
    else
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --no-build-isolation -e .
    fi
}

# Spark 4.1 runs on Java 17 and 21, and its launcher asks for a module that trimmed runtimes lack.
usable_java() {
    [[ -x $1/bin/java ]] &&
        "$1/bin/java" -version 2>&1 | grep -Eq 'version "(17|21)[."]' &&
        "$1/bin/java" --list-modules 2>/dev/null | grep -q '^jdk.incubator.vector'
}

find_java() {
    local home on_path
    on_path=$(readlink -f "$(command -v java || true)" 2>/dev/null || true)
    for home in "${JAVA_HOME:-}" "${on_path%/bin/java}" \
        /usr/lib/jvm/*17* /usr/lib/jvm/*21* /opt/java/openjdk; do
        if [[ -n $home ]] && usable_java "$home"; then
            echo "$home"
            return
        fi
    done
    return 1
}

# Spark reads its own conf/ folder however it is started: sluice, Airflow, pytest or spark-submit.
# So that folder alone says where Java and the jars are, and no code or shell has to.
configure_spark() {
    local java conf
    if ! java=$(find_java); then
        install_packages "Java 17" openjdk-17-jre-headless ||
            install_packages "Java 21" openjdk-21-jre-headless || true
        java=$(find_java) || fail "no Java 17 (or 21) was found, and it could not be installed here.
Install it: sudo apt-get install openjdk-17-jre-headless
or point JAVA_HOME at a full Java 17, and run this again."
    fi
    say "    Java: $java"
    conf=$("$VENV/bin/python" -c 'from importlib.util import find_spec
print(find_spec("pyspark").submodule_search_locations[0])')/conf
    mkdir -p "$conf"
    echo "export JAVA_HOME='$java'" >"$conf/spark-env.sh"
    cat >"$conf/spark-defaults.conf" <<EOF
# Written by make setup.
spark.driver.extraClassPath    $ROOT/.jars/*
spark.executor.extraClassPath  $ROOT/.jars/*
EOF
}

fetch_jars() {
    local java
    java=$(find_java) || fail "Java is gone; run make clean and this again"
    JAVA_HOME=$java "$VENV/bin/python" scripts/fetch_jars.py
}

# A load starts some seconds sooner with it, and as well without.
archive_classes() {
    [[ -d spark_jobs ]] || return 0
    "$VENV/bin/python" scripts/archive_classes.py || say "    no archive: loads start a little slower"
}

one_at_a_time
began=$SECONDS
if [[ ! -d $STAMPS ]]; then
    say "first set-up: about 5 minutes (half a gigabyte of Python packages, 70 MB of jars)"
fi
[[ -x $VENV/bin/python ]] || rm -rf "$STAMPS"
[[ -d .jars ]] || rm -f "$STAMPS/jars"
step venv "1/6 virtual environment in .venv" make_venv -- venv
step packages "2/6 Python packages, pinned by hash: 1 to 3 minutes" \
    install_python_packages -- requirements.txt
step project "3/6 Sluice itself" install_project -- pyproject.toml requirements.in
step java "4/6 Java and Spark's settings" configure_spark -- requirements.txt "$ROOT" scripts/setup.sh
step jars "5/6 jars, pinned by sha256: up to 1 minute" fetch_jars -- jars.lock
step classes "6/6 the JVM's classes for a quick start: about 1 minute" \
    archive_classes -- requirements.txt jars.lock "$ROOT" scripts/setup.sh spark_jobs/load_batch.py
say "ready in $((SECONDS - began)) s; the command line is .venv/bin/sluice"
