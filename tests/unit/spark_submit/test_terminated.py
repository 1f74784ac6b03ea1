"""A command that is terminated, or whose terminal closes, takes its driver along."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

PROGRAM = """
import signal
import subprocess
import sys
from pathlib import Path
from sluice import cli
from sluice.spark_submit.child_process import run_child

class Waited(subprocess.Popen):
    def wait(self, timeout=None):
        Path('waited').touch()
        return super().wait(timeout)

subprocess.Popen = Waited

def driver():
    script = 'echo $$ > new; mv new pid; sleep 600'
    run_child(['/bin/sh', '-c', script], {'PATH': '/usr/bin:/bin'}, 600)

# Tests may run below `nohup`, which has it ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.app = cli._reporting(driver)
try:
    cli.main()
except cli.typer.Exit as ended:
    sys.exit(ended.exit_code)
"""
SOON = 30.0
ROOT = Path(__file__).resolve().parents[3]


class Interrupted:
    """Ctrl-C while the command line is imported, which takes a second."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "sluice.cli":
            raise KeyboardInterrupt


def test_a_command_that_is_stopped_while_it_starts_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["sluice"].partition(":")
    monkeypatch.delitem(sys.modules, "sluice.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        getattr(import_module(module), name)()
    assert ended.value.code == 128 + signal.SIGINT
    assert capsys.readouterr().err == "stopped\n"


def begun(folder: Path) -> int:
    """The driver's process, once it is there and waited for."""
    until = time.monotonic() + SOON
    while not ((folder / "pid").exists() and (folder / "waited").exists()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return int((folder / "pid").read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_terminated_command_ends_its_driver(tmp_path: Path, number: signal.Signals) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path, env=os.environ.copy(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    driver = begun(tmp_path)
    command.send_signal(number)
    _, output = command.communicate(timeout=SOON)
    assert command.returncode == 128 + number, output
    assert "no table is half published, and what is landed stays so" in output
    assert not Path(f"/proc/{driver}").exists()
