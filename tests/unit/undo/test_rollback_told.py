"""What a rollback says: each batch that goes, and how its files come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.errors import TerminalError
from sluice.ledger.rows import FAILED, FILE_RELEASED
from sluice.operations import refolding
from sluice.operations.context import Context
from sluice.operations.rollback import RollbackRequest, roll_back
from tests.unit.projects import open_shop
from tests.unit.undone import changelog

pytestmark = pytest.mark.catalog

RELEASE = "1 files of batch {0} are held until: sluice release shop --batch {0}"


def told(context: Context, **asked: object) -> list[str]:
    return roll_back(context, RollbackRequest(**asked))  # type: ignore[arg-type]


def test_each_batch_that_was_undone_is_named_with_its_release(context: Context) -> None:
    lines = told(context, to="b1")
    assert lines[-2:] == [RELEASE.format("b3"), RELEASE.format("b2")]
    assert told(context, batch="b3")[-1] == RELEASE.format("b3")


def test_of_batches_without_held_files_nothing_is_to_be_released(context: Context) -> None:
    told(context, batch="b3")
    context.ledger.files.mark("b3", FILE_RELEASED)
    assert [line for line in told(context, batch="b3") if "release" in line] == []
    assert [line for line in told(context, batch="b2", release=True) if "--batch" in line] == []


def test_a_dry_run_names_every_batch_that_goes(context: Context) -> None:
    context.ledger.batches.record("b4", "published", attempt="a1")  # wrote nothing
    assert told(context, to="b1", dry_run=True)[0] == "would undo: batch b4, b3, b2"
    assert told(context, to="b4", dry_run=True) == ["nothing was published after batch b4"]


def test_a_dry_run_names_the_changes_of_a_batch_that_failed(context: Context) -> None:
    context.ledger.batches.record("b5", FAILED, attempt="a1")
    changelog(context, "users", "b5")
    assert told(context, batch="b5", dry_run=True) == [
        "batch b5 had nothing staged; every table is as it was",
        "would undo: shop__cdc.users__changes: changes of batch b5",
    ]
    assert "shop__cdc.users__changes: changes of the batch removed" in told(context, batch="b5")


def test_a_rebuild_says_which_targets_are_right(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = ["shop__cdc.users__tombstones: main 1 → 2"]
    monkeypatch.setattr(refolding, "rebuild", lambda *_: list(moved))
    changelog(context, "orders", "b1")
    changelog(context, "users", "b1")
    right = "shop.orders: nothing differs from its changelog"
    assert told(context, rebuild=True) == [*moved, right]
    assert told(context, rebuild=True, dry_run=True) == moved


def test_a_rebuild_of_nothing_says_that_no_table_is_there_yet(tmp_path: Path) -> None:
    empty = open_shop(tmp_path)
    with pytest.raises(TerminalError, match="pipeline shop has no table yet"):
        told(empty, rebuild=True)
    with pytest.raises(TerminalError, match="has no table nosuch; it has: none"):
        told(empty, rebuild=True, table="nosuch")
