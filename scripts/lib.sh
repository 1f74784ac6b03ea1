# shellcheck shell=bash
# What the set-up scripts share: progress, finished steps, system packages, one run at a time.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
VENV=$ROOT/.venv
TOOLS=$ROOT/.tools
STAMPS=$VENV/.setup

say() { printf '==> %s\n' "$*"; }
fail() { printf '\nset-up stopped: %s\n' "$*" >&2; exit 1; }

# Two set-ups at once (two terminals, a test beside a demo) would write over each other.
one_at_a_time() {
    command -v flock >/dev/null || return 0
    exec 9>"$ROOT/.setup.lock"
    flock --nonblock 9 || { say "another set-up is running; waiting for it"; flock 9; }
}

# step NAME "what it does, how long" COMMAND... -- INPUT...
# Runs COMMAND unless it has already run to its end with these inputs (files, or plain words).
step() {
    local name=$1 title=$2 inputs digest began
    shift 2
    local command=()
    while [[ $# -gt 0 && $1 != -- ]]; do command+=("$1"); shift; done
    inputs=("${@:2}")
    digest=$(for input in "${inputs[@]}"; do
        if [[ -f $input ]]; then cat "$input"; else echo "$input"; fi
    done | sha256sum)
    if [[ -f $STAMPS/$name && $(<"$STAMPS/$name") == "$digest" ]]; then return 0; fi
    say "$title"
    began=$SECONDS
    "${command[@]}"
    mkdir -p "$STAMPS"
    echo "$digest" >"$STAMPS/$name"
    say "    done in $((SECONDS - began)) s"
}

# install_packages WHAT PACKAGE...: through apt, where that is there and allowed.
# SLUICE_NO_APT=1 forbids it.
install_packages() {
    local what=$1 as_root=()
    shift
    if [[ -n ${SLUICE_NO_APT:-} ]] || ! command -v apt-get >/dev/null; then return 1; fi
    if [[ $(id -u) -ne 0 ]]; then
        command -v sudo >/dev/null || return 1
        # A password is asked for only where somebody can type it.
        if [[ ! -t 0 ]] && ! sudo -n true 2>/dev/null; then return 1; fi
        as_root=(sudo)
    fi
    say "    installing $what: apt-get install $*"
    local quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o=Dpkg::Use-Pty=0)
    "${as_root[@]}" "${quiet[@]}" update >/dev/null || return 1
    "${as_root[@]}" "${quiet[@]}" install --yes --no-install-recommends "$@" >/dev/null
}
