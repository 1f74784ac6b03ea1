"""Events below the floor that an operator accepts, if a delete is still known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.manifest import Reprocess
from sluice.operations.reprocess import reprocess
from tests.spark.shop import Shop, event

pytestmark = [pytest.mark.spark, pytest.mark.long]

ACCEPTED = Reprocess(accept_late=True)
UNSENT = "__debezium_unavailable_value"


def opened(spark: SparkSession, root: Path, modes: Sequence[str]) -> Shop:
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": list(modes)}
    return Shop(spark, root, {"format": "debezium", "tables": {"public.orders": table}})


def accept(shop: Shop, record: str) -> None:
    """Load an event that is then beyond the floor, and accept it."""
    (before,) = (table.counts.quarantined for table in shop.run(record).tables)
    (result,), failure = reprocess(shop.context(), request=ACCEPTED)
    assert (before, result.tables[0].counts.quarantined, failure) == (1, 0, None)


def versions(shop: Shop) -> list[tuple[Any, ...]]:
    rows = shop.rows("orders__history", metadata=True)
    return sorted((r["id"], r["status"], r["_is_current"]) for r in rows)


@pytest.mark.parametrize("modes", [["current"], ["current", "history"]])
def test_a_row_put_together_stays_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modes: list[str]
) -> None:
    """Its tombstone stands below the floor, in a batch that is not forgotten."""
    shop = opened(spark, tmp_path, modes)
    shop.driven(monkeypatch)
    shop.run(
        event("c", "orders", 10, id=1, status="new", note="long"),
        event("c", "orders", 12, id=2, status="new", note="long"),
        event("u", "orders", 100, id=1, status="paid", note=UNSENT),
    )
    shop.maintain()
    accept(shop, event("d", "orders", 90, id=2, status="", note=""))
    accept(shop, event("u", "orders", 85, id=2, status="late", note=UNSENT))
    assert shop.seen() == [(1, "long", "paid")]
    assert shop.agrees()
    accept(shop, event("u", "orders", 95, id=2, status="again", note=UNSENT))
    assert shop.seen() == [(1, "long", "paid"), (2, None, "again")]
    assert shop.agrees()


def test_a_row_whose_end_its_history_has_stays_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tombstone is forgotten, the version that the delete ended is not."""
    shop = opened(spark, tmp_path, ["current", "history"])
    shop.driven(monkeypatch)
    shop.run(
        event("c", "orders", 10, id=1, status="new"),
        event("d", "orders", 20, id=1, status="new"),
        event("c", "orders", 40, id=2, status="new"),
    )
    shop.maintain()
    accept(shop, event("u", "orders", 15, id=1, status="late"))
    assert shop.seen() == [(2, "new")]
    assert versions(shop) == [(1, "late", False), (1, "new", False), (2, "new", True)]
    accept(shop, event("c", "orders", 30, id=1, status="again"))
    assert shop.seen() == [(1, "again"), (2, "new")]
    assert (1, "again", True) in versions(shop)
    assert shop.agrees()
