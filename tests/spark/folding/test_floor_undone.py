"""Undo by folding in a table with a floor: the batch's events at or below the floor are undone too.

Tombstones expire after days, which raises the floor; the changelog may be kept for longer.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import RollbackRefusedError
from sluice.ledger.ledger import Ledger
from sluice.ledger.states import PUBLISHED
from sluice.names import PROP_FLOOR
from sluice.operations import refolding
from tests.spark import described, renamed
from tests.spark.shop import LONG_AFTER, Shop, event, truncate

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def changelog_days() -> int:
    """For how long changes are remembered, where a test says nothing else."""
    return 90


@pytest.fixture
def mode() -> str:
    """What the target is, beside the history."""
    return "current"


@pytest.fixture
def shop(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changelog_days: int,
    mode: str,
) -> Shop:
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": [mode, "history"]}
    pipeline: dict[str, Any] = {
        "format": "debezium",
        "tables": {"public.orders": table},
        "maintenance": {"tombstone_days": 30, "changelog_days": changelog_days},
    }
    made = Shop(spark, tmp_path, pipeline)
    made.driven(monkeypatch)
    return made


def order(op: str, lsn: int, id_: int, status: str) -> str:
    return event(op, "orders", lsn, id=id_, status=status)


def versions(shop: Shop) -> list[tuple[Any, ...]]:
    """Key, status, position and end of every version, the positions without what precedes them."""
    rows = shop.rows("orders__history", metadata=True)
    return sorted((r["id"], r["status"], r["_position"], r["_position_to"]) for r in rows)


def test_a_version_ends_with_the_next_event_that_stays(shop: Shop) -> None:
    """Between 10 and 40 stood the undone change at 20, whose place is below the floor."""
    kept = order("c", 10, 1, "new"), order("d", 30, 2, "gone")
    undone, newest = order("u", 20, 1, "paid"), order("u", 40, 1, "sent")
    shop.run(*kept)
    batch = shop.run(undone)
    shop.maintain()
    assert shop.table("orders").properties[PROP_FLOOR]
    shop.run(newest)
    found = versions(shop)
    refolding.undo_or_refold(shop.context(), batch.batch_id)
    left = [v for v in found if v[1] != "paid"]
    (first, last) = left
    assert versions(shop) == [(*first[:3], last[2]), last]
    assert shop.agrees()


def test_no_row_stands_for_forgotten_ones_that_was_undone_since(shop: Shop) -> None:
    """The snapshot from before the second update has the first one, which is undone already."""
    shop.run(order("c", 10, 1, "new"))
    first = shop.run(order("u", 20, 1, "paid"))
    second = shop.run(order("u", 30, 1, "sent"), order("d", 35, 2, "gone"))
    refolding.undo_or_refold(shop.context(), first.batch_id)
    shop.maintain()
    assert shop.table("orders").properties[PROP_FLOOR]
    with pytest.raises(RollbackRefusedError, match="undone since"):
        refolding.undo_or_refold(shop.context(), second.batch_id)
    assert shop.seen() == [(1, "sent")]
    assert shop.agrees()


def age(shop: Shop, batch_id: str) -> None:
    """Let the ledger say that the batch was published forty days ago."""
    then = Ledger(shop.catalog, clock=lambda: datetime.now(UTC) - LONG_AFTER).of("p")
    then.batches.record(batch_id, PUBLISHED)


@pytest.mark.parametrize("changelog_days", [30])
def test_a_row_lives_again_that_an_undone_truncate_took(shop: Shop) -> None:
    """A late one, of a place that older batches raised the floor above since."""
    old = shop.run(order("c", 10, 1, "new"), order("d", 30, 2, "gone"))
    before = shop.seen(), versions(shop)
    batch = shop.run(truncate(20))
    assert shop.seen() == []
    age(shop, old.batch_id)
    shop.maintain(after=timedelta(0))
    assert shop.table("orders").properties[PROP_FLOOR]
    shop.run(order("c", 40, 3, "new"))
    refolding.undo_or_refold(shop.context(), batch.batch_id)
    assert shop.seen() == [*before[0], (3, "new")]
    assert versions(shop)[: len(before[1])] == before[1]
    shop.run(order("u", 15, 1, "late"))
    assert (1, "late") in shop.seen()
    assert shop.agrees()


@pytest.mark.parametrize("changelog_days", [30])
def test_older_row_has_a_default_that_was_added_since(shop: Shop) -> None:
    told, before = described.event, described.BEFORE
    shop.run(told("c", 1, before, id=1, v="a"), told("c", 2, before, id=2, v="b"))
    shop.maintain()
    assert shop.table("orders").properties[PROP_FLOOR]
    batch = shop.run(told("u", 20, before, id=1, v="undone"))
    shop.run(told("c", 30, described.NEW, id=3, v="c", status="x"))
    refolding.undo_or_refold(shop.context(), batch.batch_id)
    assert shop.seen() == [(1, "a", "new"), (2, "b", "new"), (3, "c", "x")]
    assert shop.agrees()


def test_a_default_goes_from_rows_that_surely_had_none_of_their_own(shop: Shop) -> None:
    """The changes of the rows below it have expired; one of them may have had its value."""
    tables = {"orders": {"key": ["id"], "columns": {"id": "int"}, "modes": ["current", "history"]}}
    keep = {"tombstone_days": 30, "changelog_days": 30}
    shop.configure(format="debezium", tables=tables, maintenance=keep)
    shop.run(renamed.event("c", 1, id=1, d="7"), renamed.event("c", 2, id=2, d="8"))
    shop.maintain()
    default, undone = "ALTER TABLE orders ADD {} text DEFAULT '7'", []
    for at, column in ((20, "d"), (30, "e")):
        added = renamed.ddl(at, default.format(column))
        row = renamed.event("c", at + 1, None, id=at, **{column: "1"})
        undone.append(shop.run(added, row).batch_id)
    shop.run(renamed.event("c", 40, id=40, d="2", e="2"))
    refolding.undo_or_refold(shop.context(), undone[1])
    assert shop.seen() == [(1, "7", None), (2, "8", None), (20, "1", None), (40, "2", "2")]
    with pytest.raises(RollbackRefusedError, match="as a value of their own"):
        refolding.undo_or_refold(shop.context(), undone[0])
    assert shop.agrees()


def test_undo_in_a_target_switched_to_soft_delete_afterwards(shop: Shop) -> None:
    """The rows from before the undone batch have no columns of that mode yet."""

    def asked(*modes: str) -> dict[str, Any]:
        table = {"key": ["id"], "columns": {"id": "int"}, "modes": list(modes)}
        keep = {"tombstone_days": 30, "changelog_days": 90}
        return {"format": "debezium", "tables": {"orders": table}, "maintenance": keep}

    shop.configure(**asked("current"))
    shop.run(order("c", 1, 1, "new"), order("d", 2, 7, "gone"))
    shop.maintain()
    assert shop.table("orders").properties[PROP_FLOOR]
    batch = shop.run(order("u", 10, 1, "undone"))
    shop.configure(**asked("soft_delete"))
    shop.run(order("c", 20, 3, "paid"))
    refolding.undo_or_refold(shop.context(), batch.batch_id)
    found = sorted((r["id"], r["status"], r["_is_deleted"]) for r in shop.rows("orders"))
    assert found == [(1, "new", False), (3, "paid", False)]
    assert shop.agrees()


@pytest.mark.parametrize(("changelog_days", "mode"), [(30, "soft_delete")])
def test_undo_keeps_events_that_a_forgotten_batch_brought_too(shop: Shop) -> None:
    """The undone batch repeats what ended a version and began another."""
    kept = order("c", 10, 1, "a"), order("u", 11, 1, "b"), order("c", 12, 4, "x")
    shop.run(*kept)
    shop.maintain()
    assert shop.table("orders").properties[PROP_FLOOR]
    before = versions(shop)
    batch = shop.run(kept[1], order("c", 30, 2, "undone"))
    shop.run(order("c", 40, 3, "c"))
    refolding.undo_or_refold(shop.context(), batch.batch_id)
    assert [row[:2] for row in shop.seen()] == [(1, "b"), (3, "c"), (4, "x")]
    assert [v for v in versions(shop) if v[0] != 3] == before
    assert shop.agrees()


def test_a_truncate_that_an_undo_brings_back_is_forgotten_with_its_own_batch(shop: Shop) -> None:
    """Its mark outlived its event by the undo's age, so that a late row passed for a living one."""
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": ["soft_delete"]}
    keep = {"tombstone_days": 30, "changelog_days": 30}
    shop.configure(format="debezium", tables={"public.orders": table}, maintenance=keep)
    old = shop.run(order("c", 10, 1, "new"), truncate(100))
    batch = shop.run(truncate(200))
    shop.run(order("c", 300, 9, "new"))
    refolding.undo_or_refold(shop.context(), batch.batch_id)
    age(shop, old.batch_id)
    shop.maintain(after=timedelta(0))
    late = shop.run(order("c", 50, 5, "late"))
    assert late.total.quarantined == 1
    found = sorted((r["id"], r["status"], r["_is_deleted"]) for r in shop.rows("orders"))
    assert found == [(1, "new", True), (9, "new", False)]
    assert shop.agrees()
