"""scripts/airflow.sh: what `make down` stops, with a web server in Airflow's place."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.errors import ConfigError
from tests import postgres

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = """\
#!/usr/bin/env python
import http.server, json, os, subprocess, sys
with open(os.path.join(os.environ["AIRFLOW_HOME"], "started"), "a") as started:
    print(*sys.argv[1:], file=started)
if sys.argv[1:2] != ["standalone"]:
    sys.exit()
with open(os.path.join(os.environ["AIRFLOW_HOME"], "environment"), "w") as environment:
    json.dump(dict(os.environ), environment)
for process in ("scheduler", "dag-processor", "api-server", "triggerer"):
    subprocess.run(["airflow", process], check=True)  # as the real one does
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
port = int(os.environ["AIRFLOW__API__PORT"])
http.server.HTTPServer(("127.0.0.1", port), Healthy).serve_forever()
"""
VALIDATE = """\
#!/bin/sh
test "$1 $2" = "validate --project" || exit 3
test -e "$3/sluice.yaml" && echo "ok $3" && exit
echo "ConfigError: $3/sluice.yaml: expected a project folder" >&2
exit 2
"""


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose Airflow is not up, on a machine behind a proxy."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", ".example.org")
    for folder in ("scripts", "include", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "include" / "sluice.yaml").touch()
    shutil.copy(ROOT / "scripts" / "airflow.sh", tmp_path / "scripts")
    programs = tmp_path / ".venv" / "bin"
    (programs / "python").symlink_to(sys.executable)
    for name, text in (("airflow", STAND_IN), ("sluice", VALIDATE)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def checkout(stopped: Path) -> Iterator[Path]:
    """One whose Airflow is up."""
    call(stopped, "up", str(postgres.free_port()))
    group = int(pid_file(stopped).read_text().split()[0])
    yield stopped
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


def test_no_process_serves_its_logs_to_the_network(checkout: Path) -> None:
    """They would listen on all interfaces, at ports that the Airflow of another checkout has."""
    started = (checkout / ".airflow" / "started").read_text().splitlines()
    assert started == [
        "standalone",
        "scheduler --skip-serve-logs",
        "dag-processor",
        "api-server",
        "triggerer --skip-serve-logs",
    ]


def test_no_request_to_this_machine_goes_to_a_proxy(checkout: Path) -> None:
    """Airflow's tasks ask its api-server for all that they need. Where both names are set, most
    programs read only the lower one."""
    environment = json.loads((checkout / ".airflow" / "environment").read_text())
    for name in ("NO_PROXY", "no_proxy"):
        assert environment[name] == "127.0.0.1,localhost,.example.org"


def test_nobody_else_reads_the_password_and_the_logs(checkout: Path) -> None:
    assert (checkout / ".airflow").stat().st_mode & 0o777 == 0o700


def test_a_port_that_is_taken_is_refused(stopped: Path) -> None:
    """Its program would be shown as what was started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [str(stopped / "scripts" / "airflow.sh"), "up", port],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"Port {port} is taken by another program; make up PORT=… names one.\n"
    assert not pid_file(stopped).exists()


def test_a_project_that_is_none_is_refused(stopped: Path) -> None:
    done = subprocess.run(
        [str(stopped / "scripts" / "airflow.sh"), "up", str(postgres.free_port())],
        env={**os.environ, "SLUICE_PROJECT": "/nonexistent"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == ConfigError.exit_code
    assert "ConfigError: /nonexistent/sluice.yaml: expected" in done.stderr
    assert "Airflow:" not in done.stdout
    assert not pid_file(stopped).exists()


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
