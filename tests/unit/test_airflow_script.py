"""scripts/airflow.sh: what `make down` stops, with a web server in Airflow's place."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import postgres

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = """\
#!/usr/bin/env python
import http.server, os
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
port = int(os.environ["AIRFLOW__API__PORT"])
http.server.HTTPServer(("127.0.0.1", port), Healthy).serve_forever()
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """One whose Airflow is up."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "airflow.sh", tmp_path / "scripts")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "airflow").write_text(STAND_IN)
    (programs / "airflow").chmod(0o755)
    call(tmp_path, "up", str(postgres.free_port()))
    group = int(pid_file(tmp_path).read_text().split()[0])
    yield tmp_path
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's process group."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def call(checkout: Path, *arguments: str) -> str:
    command = [str(checkout / "scripts" / "airflow.sh"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def pid_file(checkout: Path) -> Path:
    return checkout / ".airflow" / "standalone.pid"


def test_down_stops_what_up_started(checkout: Path) -> None:
    assert "running already" in call(checkout, "up")
    assert call(checkout, "down") == "Airflow stopped.\n"
    assert call(checkout, "down") == "Airflow is not running.\n"


def test_down_stops_what_an_earlier_release_started(checkout: Path) -> None:
    """It did not write down when."""
    group, *_ = pid_file(checkout).read_text().splitlines()
    pid_file(checkout).write_text(f"{group}\n")
    assert call(checkout, "down") == "Airflow stopped.\n"


def test_down_leaves_another_process_with_the_same_pid(
    checkout: Path, other: subprocess.Popen[bytes]
) -> None:
    """As after a restart of the machine."""
    _, *rest = pid_file(checkout).read_text().splitlines()
    pid_file(checkout).write_text("\n".join([str(other.pid), *rest, ""]))
    assert call(checkout, "down") == "Airflow is not running.\n"
    assert other.poll() is None
