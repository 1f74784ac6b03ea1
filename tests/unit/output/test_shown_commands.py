"""Commands that messages show: with the project for which they were shown."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.padding import Padding
from typer.testing import CliRunner

from sluice import cli_options
from sluice.cli import app
from sluice.cli_console import ShownCommands, with_project
from sluice.environment import ENV_PROJECT
from sluice.ledger.states import FAILED
from tests.unit.projects import open_shop

MY = " --project my"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("look: sluice status", f"look: sluice status{MY}"),
        ("2 failed: sluice run shop", f"2 failed: sluice run{MY} shop"),
        (
            "held (sluice release shop --batch 20260301T05-6fbcb278d1fa), and",
            f"held (sluice release{MY} shop --batch 20260301T05-6fbcb278d1fa), and",
        ),
        (
            "sluice run shop (or sluice rollback shop --batch b1)",
            f"sluice run{MY} shop (or sluice rollback{MY} shop --batch b1)",
        ),
        (
            "(sluice run shop --changed; where landing.url is another place)",
            f"(sluice run{MY} shop --changed; where landing.url is another place)",
        ),
        (
            "sluice run shop --table HR.EMP$1, then load",
            f"sluice run{MY} shop --table HR.EMP$1, then load",
        ),
        (
            "to load them: sluice run shop --table public.order items",
            f"to load them: sluice run{MY} shop --table public.order items",
        ),
        (
            "`sluice rollback shop --batch b1` goes on",
            f"`sluice rollback{MY} shop --batch b1` goes on",
        ),
        (
            "look: sluice sql \"SELECT * FROM a WHERE b = 'c'\"",
            f"look: sluice sql{MY} \"SELECT * FROM a WHERE b = 'c'\"",
        ),
        ("as `sluice status` lists it", "as `sluice status` lists it"),
        ("sluice release of batch b1", "sluice release of batch b1"),
        ("sluice run shop: changed files are", "sluice run shop: changed files are"),
        ("sluice run shop --project my", "sluice run shop --project my"),
        ("the sluice ran", "the sluice ran"),
    ],
)
def test_the_project_goes_behind_the_commands_name(text: str, expected: str) -> None:
    assert with_project(text, Path("my")) == expected


def test_a_folder_of_an_odd_name_is_quoted() -> None:
    shown = with_project("sluice status", Path("my [b]lake"))
    assert shown == r"sluice status --project 'my \[b]lake'"


def test_padded_text_has_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShownCommands, "project", Path("my"))
    to = io.StringIO()
    console = ShownCommands(file=to, width=200)
    console.print(Padding("[red]sluice run shop[/red]", (0, 0, 0, 2), expand=False))
    assert to.getvalue().rstrip() == f"  sluice run{MY} shop"


@pytest.mark.catalog
@pytest.mark.parametrize("by", ["option", "environment", "default"])
def test_a_command_that_is_shown_is_for_the_same_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    open_shop(tmp_path).ledger.batches.record("b1", FAILED, attempt="a1")
    arguments = ["--project", str(tmp_path)] if by == "option" else []
    if by == "environment":
        monkeypatch.setenv("SLUICE_PROJECT", str(tmp_path))
    if by == "default":
        monkeypatch.setattr(cli_options, "DEFAULT_PROJECT", tmp_path)
        arguments = ["--project", str(tmp_path)]
    shown = CliRunner().invoke(app, ["status", *arguments]).stdout.rstrip()
    option = "" if by == "default" else f" --project {tmp_path}"
    assert shown.endswith(f"sluice run{option} shop")


def test_the_current_folder_is_the_project_if_it_is_one(tmp_path: Path) -> None:
    open_shop(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != ENV_PROJECT}
    command = [sys.executable, "-c", "from sluice.cli import main; main()", "validate", "--json"]
    validated = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(validated.stdout)["project"] == str(tmp_path)
