"""A PostgreSQL server for a test, on a free port, removed afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2

USER = "airflow"
# Who may install no packages can run all other tests; in CI `make setup-tests` fails without them.
MISSING = "PostgreSQL's programs are not here: make setup-tests"


def programs() -> Path | None:
    """The folder of initdb and pg_ctl; distributions keep it off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = str(found[-1]) if found else shutil.which("initdb")
    return Path(path).parent if path else None


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server() -> Iterator[str]:
    """Run a server; yield its address with database and user."""
    found = programs()
    assert found
    with tempfile.TemporaryDirectory(prefix="sluice-pg-", ignore_cleanup_errors=True) as folder:
        data, port = Path(folder) / "data", free_port()
        _own(folder)
        _run(found / "initdb", "-D", data, "-U", USER, "--auth=trust", "--no-sync")
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        _run(found / "pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        finally:
            _run(found / "pg_ctl", "-D", data, "-m", "immediate", "stop")


def restart(address: str, down: float) -> None:
    """Stop the server of an address at once, as a crash does, and start it again after
    `down` seconds."""
    found = programs()
    assert found
    with closing(psycopg2.connect(address)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW data_directory")
        data = cursor.fetchall()[0][0]
    _run(found / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    time.sleep(down)
    # `restart` starts it with the options of before.
    _run(found / "pg_ctl", "-D", data, "-w", "-l", f"{data}/../log", "restart")


def _own(folder: str) -> None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    if os.getuid() == 0:
        words = ["runuser", "-u", "postgres", "--", *words]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/")
