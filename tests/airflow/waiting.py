"""Wait for what the processes of an Airflow do, and show their logs if it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest


def wait_for(what: str, true: Callable[[], bool], folder: Path, patience: float) -> None:
    """Return once it is true; fail after `patience` seconds, with the logs in the folder."""
    deadline = time.monotonic() + patience
    while not true():
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {patience:.0f} s; {last_words(folder)}")
        time.sleep(2)


def last_words(folder: Path) -> str:
    """Return the ends of the logs that were written last."""
    files = sorted(folder.rglob("*.log"), key=lambda path: path.stat().st_mtime)
    return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in files[-8:])
