"""Fixtures for undoing batches: the shop of three batches, its changelogs, and a simulated fold."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.operations import refolding
from sluice.operations.context import Context
from tests.unit.undo_lake import TABLES, changelog, fold, three_batches


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Two tables with a row from before, and batches b1, b2, b3 that add a row to each."""
    return three_batches(tmp_path)


@pytest.fixture
def with_changelogs(context: Context) -> None:
    """Give the tables of `context` changelogs, with a change of each batch."""
    for name in TABLES:
        changelog(context, name, "b1", "b2", "b3")


@pytest.fixture
def folded(context: Context, with_changelogs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one more row in each table of `context` replace what a driver would fold again."""
    monkeypatch.setattr(refolding, "load", fold(context))
