"""The floor: what a table no longer knows, and what happens to events from below it.

One history of three tables expires as a whole; then one batch has events from below and above.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.manifest import Reprocess
from sluice.names import PROP_FLOOR
from sluice.operations import preview, refolding
from sluice.operations.reprocess import reprocess
from sluice.operations.undo import undo_batch
from sluice.result import BatchResult, Counts
from spark_jobs.maintaining import retention
from tests.spark.shop import Shop, event, truncate

pytestmark = pytest.mark.spark

ACCEPTED = Reprocess(accept_late=True)
UNSENT = "__debezium_unavailable_value"
PIPELINE = {
    "format": "debezium",
    "tables": {
        "public.orders": {"key": ["id"], "columns": {"id": "int"}},
        "public.papers": {"key": ["id"], "columns": {"id": "int"}},
        "public.notes": {"key": [], "columns": {"x": "int"}},
    },
}


@dataclass(frozen=True)
class LoadedShop:
    """The shop after the last batch, and its state before it."""

    shop: Shop
    history: tuple[BatchResult, ...]
    killed_at: tuple[str | None, int]
    floors: dict[str, str | None]
    remembered: dict[str, int]
    last: BatchResult

    def counts(self, table: str) -> Counts:
        return next(t.counts for t in self.last.tables if t.target == f"shop.{table}")


@pytest.fixture(scope="module")
def expired(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LoadedShop:
    shop = Shop(spark, tmp_path_factory.mktemp("floor"), PIPELINE)
    history = (
        shop.run(
            event("c", "orders", 10, id=1, status="new"),
            event("c", "orders", 11, id=2, status="new"),
            event("c", "papers", 12, id=1, title="a", body="long"),
            event("c", "notes", 13, x=1),
        ),
        shop.run(
            event("d", "orders", 20, id=2, status="new"),
            event("c", "orders", 30, id=3, status="new"),
        ),
    )
    killed_at = maintain_killed_before_it_deletes(shop)
    shop.maintain()
    floors = {
        name: shop.table(name).properties.get(PROP_FLOOR) for name in ("orders", "papers", "notes")
    }
    kinds = ("orders__tombstones", "orders__changes", "papers__changes", "notes__changes")
    remembered = {kind: rows_of(shop, kind) for kind in kinds}
    last = shop.run(
        event("u", "orders", 12, id=2, status="late"),  # its tombstone is forgotten
        event("u", "orders", 5, id=1, status="late"),  # older than the live row
        event("u", "orders", 25, id=1, status="paid"),  # newer than the live row
        event("c", "orders", 40, id=4, status="new"),
        event("u", "papers", 11, id=1, title="late", body="late"),
        event("u", "papers", 41, id=1, title="b", body=UNSENT),
        event("d", "notes", 42, x=1),
    )
    return LoadedShop(shop, history, killed_at, floors, remembered, last)


def maintain_killed_before_it_deletes(shop: Shop) -> tuple[str | None, int]:
    """The floor of orders then, and how many tombstones there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "_delete", killed)
        with pytest.raises(KeyboardInterrupt):
            shop.maintain()
    return shop.table("orders").properties.get(PROP_FLOOR), rows_of(shop, "orders__tombstones")


def killed(*_: Any) -> None:
    raise KeyboardInterrupt


def rows_of(shop: Shop, name: str) -> int:
    return int(shop.table(name, "shop__cdc").scan().to_arrow().num_rows)


def quarantined(shop: Shop, table: str) -> list[dict[str, Any]]:
    return [row for row in shop.quarantined() if row["source_table"].endswith(f".{table}")]


@pytest.mark.long
def test_retention_forgets_and_the_floor_says_up_to_where(expired: LoadedShop) -> None:
    """The floor is the highest position of what went: of the insert at 30, of the one at 12."""
    assert (expired.floors["orders"] or "").count("0230") == 2
    assert (expired.floors["papers"] or "").count("0212") == 2
    assert expired.remembered["orders__tombstones"] == 0
    assert expired.remembered["orders__changes"] == 0
    assert expired.remembered["papers__changes"] == 0


@pytest.mark.long
def test_the_floor_is_there_before_anything_is_forgotten(expired: LoadedShop) -> None:
    assert expired.killed_at == (expired.floors["orders"], 1)


@pytest.mark.long
def test_a_table_without_a_key_forgets_nothing(expired: LoadedShop) -> None:
    """Its rows are counted from its changelog: the delete has to find its insert there."""
    assert expired.floors["notes"] is None
    assert expired.remembered["notes__changes"] == 1
    assert expired.shop.seen("notes") == []


@pytest.mark.long
def test_a_forgotten_row_does_not_come_back(expired: LoadedShop) -> None:
    assert expired.shop.seen() == [(1, "paid"), (3, "new"), (4, "new")]
    assert expired.counts("orders") == Counts(read=4, applied=2, superseded=1, quarantined=1)


@pytest.mark.long
def test_quarantine_keeps_the_whole_record_from_below_the_floor(expired: LoadedShop) -> None:
    (row,) = quarantined(expired.shop, "orders")
    assert row["reason"] == "beyond_floor"
    assert row["raw"].decode() == event("u", "orders", 12, id=2, status="late")
    assert row["record"] == 1
    assert row["file"].endswith(".jsonl")


@pytest.mark.long
def test_a_partial_row_keeps_what_only_forgotten_events_brought(expired: LoadedShop) -> None:
    assert expired.shop.seen("papers") == [(1, "long", "b")]
    assert expired.counts("papers") == Counts(read=2, applied=1, quarantined=1)


@pytest.mark.long
def test_the_changelog_has_no_event_that_was_set_aside(expired: LoadedShop) -> None:
    assert rows_of(expired.shop, "orders__changes") == 3
    assert rows_of(expired.shop, "papers__changes") == 1


@pytest.mark.long
def test_batches_from_before_retention_can_still_be_undone(expired: LoadedShop) -> None:
    """Retention's own delete of tombstones is nobody else's write. Last, for it moves the shop."""
    for batch in (expired.last, expired.history[1]):
        undo_batch(expired.shop.context(), batch.batch_id)
    assert expired.shop.seen() == [(1, "new"), (2, "new")]
    assert expired.shop.table("orders").properties[PROP_FLOOR] == expired.floors["orders"]


def foresees(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sluice plan` forecasts what the load will do with an event below the floor."""
    monkeypatch.setattr(preview, "submit", shop.look)
    path = shop.landing / "late.jsonl"
    path.write_text(event("u", "orders", 12, id=2, status="late") + "\n")
    (table,) = preview.preview(shop.context()).forecast.tables
    assert table.counts == Counts(read=1, quarantined=1)
    path.unlink()


@pytest.mark.long
def test_an_operator_accepts_what_is_beyond_the_floor(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event at its own place: one of `papers` stands below its row, the other has none."""
    shop = Shop(spark, tmp_path, PIPELINE)
    shop.driven(monkeypatch)
    shop.run(
        event("c", "orders", 10, id=1, status="new"),
        event("c", "orders", 11, id=2, status="new"),
        event("c", "papers", 12, id=1, title="a", body="long"),
        event("u", "papers", 13, id=1, title="b", body=UNSENT),
    )
    shop.run(event("d", "orders", 20, id=2, status="new"))
    shop.maintain()
    foresees(shop, monkeypatch)
    late = [
        event("u", "orders", 12, id=2, status="late"),
        event("u", "papers", 11, id=1, title="late", body="late"),
        event("u", "papers", 10, id=2, title="late", body="late"),
    ]
    for again in (False, True):
        if again:
            reprocess(shop.context())
        else:
            shop.run(*late)
        assert shop.seen() == [(1, "new")]
        assert shop.seen("papers") == [(1, "long", "b")]
    (result,), failure = reprocess(shop.context(), request=ACCEPTED)
    assert failure is None
    assert sum(table.counts.quarantined for table in result.tables) == 0
    assert shop.seen() == [(1, "new"), (2, "late")]
    assert shop.seen("papers") == [(1, "long", "b"), (2, "late", "late")]
    assert shop.agrees()
    assert reprocess(shop.context(), request=ACCEPTED) == ([], None)
    shop.run(event("u", "papers", 50, id=2, title="since", body=UNSENT))
    assert shop.seen("papers") == [(1, "long", "b"), (2, "late", "since")]


@pytest.mark.long
@pytest.mark.parametrize("records", [1, 2])
def test_a_change_of_key_from_before_waits_as_a_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """The row of the old key could judge its end; nothing can judge the row of the new one."""
    shop = Shop(spark, tmp_path, PIPELINE)
    shop.driven(monkeypatch)
    rows = [event("c", "orders", 10 + key, id=key, status="new") for key in (1, 2)]
    shop.run(*rows, event("d", "orders", 40, id=2, status="new"))
    shop.maintain()

    old, new = {"id": 1, "status": "new"}, {"id": 5, "status": "new"}
    moved = json.loads(event("u", "orders", 20, **new)) | {"before": old}
    ends, begins = event("d", "orders", 20, **old), event("c", "orders", 20, **new)
    expired = [json.dumps(moved)] if records == 1 else [ends, begins]
    late = shop.run(*expired, event("u", "orders", 21, id=1, status="late"))
    (counts,) = (table.counts for table in late.tables)
    assert counts == Counts(read=records + 1, applied=1, quarantined=records)
    assert shop.seen() == [(1, "late")]

    reprocess(shop.context(), request=ACCEPTED)
    assert shop.seen() == [(1, "late"), (5, "new")]


def test_a_deleted_row_that_is_kept_judges_no_younger_event(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It may have been inserted and deleted again, which is forgotten."""
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": ["soft_delete"]}
    shop = Shop(spark, tmp_path, ORDERS | {"tables": {"public.orders": table}})
    shop.run(
        event("c", "orders", 10, id=1, status="new"),
        event("d", "orders", 20, id=1, status="new"),
        event("d", "orders", 40, id=1, status="new"),
    )
    shop.maintain()
    shop.run(
        event("c", "orders", 30, id=1, status="again"), event("u", "orders", 15, id=1, status="x")
    )
    (row,) = shop.rows("orders", metadata=True)
    assert (row["_is_deleted"], row["status"]) == (True, "x")
    (row,) = quarantined(shop, "orders")
    assert (row["reason"], b"again" in row["raw"]) == ("beyond_floor", True)


@pytest.mark.long
def test_no_version_begins_where_its_end_may_be_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The row was deleted at 20: nobody remembers, and a row of its key lives since 30."""
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": ["current", "history"]}
    shop = Shop(spark, tmp_path, ORDERS | {"tables": {"public.orders": table}})
    shop.run(event("d", "orders", 20, id=1, status="?"))
    shop.run(
        event("c", "orders", 30, id=1, status="new"), event("u", "orders", 40, id=1, status="paid")
    )
    shop.maintain()
    shop.run(
        event("u", "orders", 10, id=1, status="gone"),
        event("u", "orders", 35, id=1, status="late"),
        event("c", "orders", 30, id=1, status="new"),
    )
    assert shop.seen() == [(1, "paid")]
    history = shop.rows("orders__history", metadata=True)
    assert sorted(row["status"] for row in history) == ["late", "new", "paid"]
    (row,) = quarantined(shop, "orders")
    assert (row["reason"], b"gone" in row["raw"]) == ("beyond_floor", True)


ORDERS = {
    "format": "debezium",
    "tables": {"public.orders": {"key": ["id"], "columns": {"id": "int"}}},
}


@pytest.mark.long
def test_an_undo_beneath_a_truncate_brings_no_forgotten_row_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the snapshot from before the batch still has the row, and it was truncated since."""
    shop = Shop(spark, tmp_path, ORDERS)
    shop.driven(monkeypatch)
    shop.run(event("c", "orders", 10, id=1, status="new"))
    shop.run(event("d", "orders", 20, id=2, status="new"))
    shop.maintain()
    assert shop.table("orders").properties[PROP_FLOOR]
    undone = shop.run(event("u", "orders", 30, id=1, status="paid"))
    shop.run(truncate(40))
    refolding.undo_or_refold(shop.context(), undone.batch_id)
    assert shop.seen() == []


@pytest.mark.long
def test_a_history_made_later_knows_a_truncate_whose_tombstone_is_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = {"maintenance": {"tombstone_days": 30, "changelog_days": 90}}
    shop = Shop(spark, tmp_path, ORDERS | kept)
    shop.run(event("c", "orders", 10, id=1, status="new"))
    shop.run(truncate(20))
    shop.maintain()
    assert rows_of(shop, "orders__tombstones") == 0
    assert rows_of(shop, "orders__changes") == 2
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": ["current", "history"]}
    shop.configure(**ORDERS | kept | {"tables": {"public.orders": table}})
    shop.run(event("c", "orders", 30, id=2, status="new"))
    history = shop.rows("orders__history", metadata=True)
    assert {row["id"]: row["_is_current"] for row in history} == {1: False, 2: True}


@pytest.mark.long
def test_a_history_that_missed_forgotten_changes_goes_on_from_the_target(
    spark: SparkSession, tmp_path: Path
) -> None:
    """While it was switched off a row was deleted and another changed, and both are forgotten."""

    def modes(*modes: str) -> dict[str, Any]:
        table = {"key": ["id"], "columns": {"id": "int"}, "modes": ["current", *modes]}
        return ORDERS | {"tables": {"public.orders": table}}

    shop = Shop(spark, tmp_path, modes("history"))
    shop.run(*(event("c", "orders", 10 + id_, id=id_, status="new") for id_ in (1, 2, 3)))
    shop.configure(**modes())
    gone = event("d", "orders", 20, id=1, status="new")
    shop.run(gone, event("u", "orders", 21, id=2, status="paid"))
    shop.maintain()
    shop.configure(**modes("history"))
    shop.run(event("c", "orders", 40, id=4, status="new"))
    history = shop.rows("orders__history", metadata=True)
    current = {(row["id"], row["status"]) for row in history if row["_is_current"]}
    assert current == {(2, "paid"), (3, "new"), (4, "new")} == set(shop.seen())
    assert {row["id"] for row in history if not row["_is_current"]} == {1, 2}
    assert shop.agrees()


def test_a_history_of_which_all_is_forgotten_begins_with_the_target(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path, ORDERS)
    shop.run(event("c", "orders", 10, id=1, status="new"))
    shop.maintain()
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": ["current", "history"]}
    shop.configure(**ORDERS | {"tables": {"public.orders": table}})
    shop.run(event("u", "orders", 30, id=1, status="paid"))
    history = shop.rows("orders__history", metadata=True)
    assert sorted((row["status"], row["_is_current"]) for row in history) == [
        ("new", False),
        ("paid", True),
    ]
