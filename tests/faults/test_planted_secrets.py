"""Secrets in the environment of real drivers, searched for in everything that these
leave behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.faults.lake import PATIENCE_SECONDS, SLUICE, Lake
from tests.planted import PLANTED, SECRET_VARIABLES

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.long]

PLACES: Final = (
    *SECRET_VARIABLES, "SLUICE_SOURCE_PASSWORD", "SCHEMA_REGISTRY_TOKEN",
    "SCHEMA_REGISTRY_USER_INFO",
)  # fmt: skip


def outcome_of(lake: Lake, *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and its output on both streams."""
    planted = dict.fromkeys(PLACES, PLANTED)
    done = subprocess.run(
        [SLUICE, *arguments, "--project", str(lake.root)],
        env=os.environ | planted, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_no_driver_leaves_a_secret_behind(tmp_path: Path) -> None:
    """A load, one whose audit fails, a report: in what they say, write and leave of metadata."""
    lake = Lake.make(tmp_path / "lake")
    page = lake.root / "report.html"
    outcomes = [outcome_of(lake, "run", "shop")]
    lake.land_second_hour()
    pipeline = lake.root / "pipelines" / "shop.yaml"
    pipeline.write_text(pipeline.read_text() + "on_bad_record: fail\n")
    outcomes.append(outcome_of(lake, "run", "shop"))
    outcomes.append(outcome_of(lake, "verify", "shop", "--html", str(page)))
    outcomes.append(outcome_of(lake, "status", "shop", "--json"))
    assert [code == 0 for code, _ in outcomes] == [True, False, True, True], outcomes
    assert not any(PLANTED in text for _, text in outcomes)
    files = [path for path in lake.root.rglob("*") if path.is_file()]
    named = {path.name.partition("-")[0] for path in files}
    assert {"result", "manifest.json", "report.html"} <= named
    assert [path for path in files if PLANTED.encode() in path.read_bytes()] == []
