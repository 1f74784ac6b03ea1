"""A reprocess decodes files whole: of what it finds there below the floor, only quarantined records
are an operator's to accept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.manifest import Reprocess
from sluice.operations.reprocess import reprocess
from sluice.result import BatchResult, Counts
from tests.spark.shop import Shop, event

pytestmark = pytest.mark.spark

TABLES = {"public.orders": {"key": ["id"], "columns": {"id": "int"}}}
PIPELINE: dict[str, Any] = {"format": "debezium", "tables": TABLES, "max_bad_share": 1}
UNSENT = "__debezium_unavailable_value"


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(spark, tmp_path, PIPELINE)
    shop.driven(monkeypatch)
    return shop


def order(op: str, position: int, ident: int | str, note: str = "n") -> str:
    return event(op, "orders", position, id=ident, note=note)


def again(shop: Shop, accept_late: bool) -> BatchResult:
    (result,), failure = reprocess(shop.context(), request=Reprocess(accept_late=accept_late))
    assert failure is None
    return result


def waiting(shop: Shop, batch: BatchResult) -> list[tuple[str, int]]:
    rows = [row for row in shop.quarantined() if row["batch_id"] == batch.batch_id]
    return sorted((row["reason"].partition(":")[0], row["record"]) for row in rows)


def test_a_deleted_row_does_not_come_back_with_what_is_accepted(shop: Shop) -> None:
    shop.run(order("c", 60, 6), order("c", 61, 7), order("c", 62, "bad"))
    shop.run(order("d", 70, 6))
    shop.maintain()
    late = shop.run(order("c", 80, 8), order("c", 50, 9))
    assert waiting(shop, late) == [("beyond_floor", 2)]
    result = again(shop, accept_late=True)
    assert shop.seen() == [(7, "n"), (8, "n"), (9, "n")]
    assert waiting(shop, result) == [("does_not_fit", 3)]
    (table,) = result.tables
    assert table.counts.late == 1
    assert shop.agrees()


@pytest.mark.long
def test_reprocess_does_not_quarantine_changes_that_were_applied_before(shop: Shop) -> None:
    """Not where rows are put together either, of which everything is beyond the floor."""
    shop.run(order("c", 60, 6), order("u", 61, 6, UNSENT), order("c", 62, "bad"))
    shop.run(order("c", 70, 7))
    shop.maintain()
    late = shop.run(order("u", 65, 7))
    assert waiting(shop, late) == [("beyond_floor", 1)]
    result = again(shop, accept_late=False)
    assert waiting(shop, result) == [("beyond_floor", 1), ("does_not_fit", 3)]
    counts = sum((table.counts for table in result.tables), Counts())
    assert (counts.late, counts.quarantined, counts.balanced) == (2, 2, True)
    result = again(shop, accept_late=True)
    assert waiting(shop, result) == [("does_not_fit", 3)]
    assert shop.seen() == [(6, "n"), (7, "n")]


@pytest.mark.long
def test_a_record_that_landing_refused_is_not_taken_for_one_that_was_applied(shop: Shop) -> None:
    """With a higher limit it gets a number of its own, as those behind it do."""
    shop.configure(**PIPELINE, max_document_bytes=1024)
    shop.run(order("c", 60, 6), order("c", 61, 7, "long" * 400), order("c", 62, 8))
    shop.run(order("c", 70, 9))
    shop.maintain()
    shop.configure(**PIPELINE)
    result = again(shop, accept_late=False)
    assert ("beyond_floor", 2) in waiting(shop, result)
    again(shop, accept_late=True)
    assert [ident for ident, _ in shop.seen()] == [6, 7, 8, 9]


@pytest.mark.long
def test_a_key_change_in_one_record_is_accepted_in_both_halves(shop: Shop) -> None:
    """The new row can be judged, the old one cannot: that half is no record of its own."""
    shop.run(order("c", 60, 7))
    shop.run(order("c", 70, 8))
    shop.maintain()
    moved = json.loads(order("u", 50, 7)) | {"before": {"id": 5, "note": "n"}}
    late = shop.run(json.dumps(moved))
    assert waiting(shop, late) == [("beyond_floor", 1)]
    assert waiting(shop, again(shop, accept_late=True)) == []
    assert [ident for ident, _ in shop.seen()] == [7, 8]
