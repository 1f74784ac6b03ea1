#!/usr/bin/env bash
# airflow.sh up [PORT] | down: Airflow on this machine for a person to click through. Called by make.
#
# Airflow keeps its own state in SQLite here, so that nothing has to be installed or left running.
# SQLite lets one process write at a time: with two tasks at once the scheduler, the api-server and
# the tasks meet in "database is locked" and tasks fail for no reason of their own. So parallelism
# is 1. Whoever wants pipelines side by side uses PostgreSQL: docker-compose.yaml.
set -euo pipefail
ROOT=$(cd "$(dirname "$0")/.." && pwd)
cd "$ROOT"
export AIRFLOW_HOME=$ROOT/.airflow
PID_FILE=$AIRFLOW_HOME/standalone.pid
STARTED=$AIRFLOW_HOME/standalone.started # its port and its project
PASSWORDS=$AIRFLOW_HOME/simple_auth_manager_passwords.json.generated
SECONDS_TO_START=180

# Airflow's log servers listen on all interfaces, at ports that two checkouts would share, and no
# setting changes the address. On one machine the api-server reads the files of logs itself.
write_airflow() {
    mkdir -p "$AIRFLOW_HOME/bin"
    cat >"$AIRFLOW_HOME/bin/airflow" <<EOF
#!/bin/sh
case \${1:-} in scheduler | triggerer) set -- "\$@" --skip-serve-logs ;; esac
exec "$ROOT/.venv/bin/airflow" "\$@"
EOF
    chmod +x "$AIRFLOW_HOME/bin/airflow"
}

configure() {
    mkdir -p "$AIRFLOW_HOME"
    chmod 700 "$AIRFLOW_HOME" # the admin's password and the logs; a umask would reach the lake
    export PATH=$AIRFLOW_HOME/bin:$ROOT/.venv/bin:$PATH
    write_airflow
    export AIRFLOW__CORE__DAGS_FOLDER=$ROOT/dags
    export AIRFLOW__CORE__PLUGINS_FOLDER=$ROOT/plugins
    export AIRFLOW__CORE__LOAD_EXAMPLES=False
    export AIRFLOW__CORE__PARALLELISM=1
    export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=admin:admin
    export AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=sqlite:///$AIRFLOW_HOME/airflow.db
    export AIRFLOW__API__HOST=127.0.0.1
    export AIRFLOW__API__PORT=$1
    export AIRFLOW__API__BASE_URL=http://127.0.0.1:$1
    export AIRFLOW__CORE__EXECUTION_API_SERVER_URL=http://127.0.0.1:$1/execution/
    export AIRFLOW__API__WORKERS=1
    # The tasks ask the api-server for all that they need, and would ask it through a proxy. Where
    # both names are set, the lower one counts.
    local direct=127.0.0.1,localhost others=${no_proxy:-${NO_PROXY:-}}
    export NO_PROXY=$direct${others:+,$others}
    export no_proxy=$NO_PROXY
    # Apart from the expansion, which would end at the first closing brace.
    local local_spark='{"conn_type": "spark", "host": "local[*]"}'
    export AIRFLOW_CONN_SPARK_DEFAULT=${AIRFLOW_CONN_SPARK_DEFAULT:-$local_spark}
    export SLUICE_PROJECT=${SLUICE_PROJECT:-$ROOT/include}
}

# When a process started; nothing where there is none.
birth() {
    if [[ -r /proc/self/stat ]]; then
        sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20
    else
        ps -o lstart= -p "$1" | xargs
    fi
}

# Whether the process group that `up` started is there. After a restart of the machine its number may
# be somebody else's, whose leader started at another time. Sets `group`.
running() {
    local born='' now
    [[ -f $PID_FILE ]] || return 1
    # Files of earlier releases have no second line.
    { read -r group && { read -r born || true; }; } <"$PID_FILE" || return 1
    kill -0 -- "-$group" 2>/dev/null || return 1
    now=$(birth "$group")
    [[ -z $now || -z $born || $now == "$born" ]]
}

taken() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

healthy() {
    python - "$1" <<'EOF'
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    opener.open(f"http://127.0.0.1:{sys.argv[1]}/api/v2/version", timeout=2)
except OSError:
    sys.exit(1)
EOF
}

up() {
    local port=$1 log=$AIRFLOW_HOME/standalone.log
    configure "$port"
    if running; then
        { read -r port; read -r SLUICE_PROJECT; } <"$STARTED"
        echo "Airflow is running already, as it was started; make down stops it."
    else
        if taken "$port"; then
            echo "Port $port is taken by another program; make up PORT=… names one." >&2
            exit 1
        fi
        sluice validate --project "$SLUICE_PROJECT"
        echo "Starting Airflow (about a minute; its log: ${log#"$ROOT"/})"
        # A session of its own, so that `make down` ends it with everything it started.
        setsid airflow standalone >"$log" 2>&1 </dev/null &
        printf '%s\n' $! "$(birth $!)" >"$PID_FILE"
        printf '%s\n' "$port" "$SLUICE_PROJECT" >"$STARTED"
    fi
    for ((second = 0; second < SECONDS_TO_START; second++)); do
        if healthy "$port"; then
            printf '\nAirflow:   http://127.0.0.1:%s\nUser:      admin\n' "$port"
            printf 'Password:  in %s\n' "${PASSWORDS#"$ROOT"/}"
            printf 'Project:   %s\nStop:      make down\n' "$SLUICE_PROJECT"
            return
        fi
        running || break
        sleep 1
    done
    tail -30 "$log" >&2
    echo "Airflow did not start; the end of its log is above." >&2
    down >/dev/null
    exit 1
}

down() {
    local group
    if ! running; then
        echo "Airflow is not running."
        rm -f "$PID_FILE"
        return
    fi
    kill -TERM -- "-$group"
    for ((second = 0; second < 20; second++)); do
        running || break
        sleep 1
    done
    if running; then kill -KILL -- "-$group"; fi
    rm -f "$PID_FILE"
    echo "Airflow stopped."
}

case ${1:-} in
    up) up "${2:-8080}" ;;
    down) down ;;
    *) sed -n '2p' "$0" >&2; exit 2 ;;
esac
