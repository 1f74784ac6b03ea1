"""A MariaDB server for a test, on a free port, removed afterwards."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import free_port

USER = "reader"
# Who may install no packages can run all other tests; in CI `make setup-tests` fails without them.
MISSING = "MariaDB's programs are not here: make setup-tests"
_START_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """A running server: its port, and the socket of its owner."""

    port: int
    socket: Path

    def execute(self, sql: str) -> None:
        """Run statements, as a session in UTC that takes zero dates."""
        session = "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES';"
        subprocess.run(
            ["mariadb", "--no-defaults", "--default-character-set=utf8mb4", "--socket",
             str(self.socket), "--user", "root"],
            input=(session + sql).encode(), check=True, capture_output=True,
        )  # fmt: skip


def program() -> str | None:
    """The server's program, if its client is installed too; distributions keep it off
    a user's path."""
    if shutil.which("mariadb") is None:
        return None
    return shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")


@contextmanager
def server() -> Iterator[Server]:
    """Run a server with a user that needs no password."""
    found = program()
    assert found
    with tempfile.TemporaryDirectory(prefix="sluice-my-", ignore_cleanup_errors=True) as folder:
        place = Server(free_port(), Path(folder) / "s")
        data = f"--datadir={folder}/data"
        _install(data)
        process = subprocess.Popen(
            [found, "--no-defaults", "--user=root", data, f"--socket={place.socket}",
             f"--port={place.port}", "--bind-address=127.0.0.1",
             "--innodb-flush-log-at-trx-commit=0"],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait(place)
            who = f"{USER}@'127.0.0.1'"
            place.execute(f"CREATE USER {who}; GRANT SELECT ON *.* TO {who}")
            yield place
        finally:
            process.kill()
            process.wait()


def _install(data: str) -> None:
    subprocess.run(
        ["mariadb-install-db", "--no-defaults", "--user=root", data,
         "--auth-root-authentication-method=normal", "--skip-test-db"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _wait(place: Server) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            place.execute("SELECT 1")
            return
        except subprocess.CalledProcessError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
