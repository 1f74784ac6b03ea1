"""A driver that was suspended while another attempt finished its batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.catalog.snapshots import head
from sluice.errors import LeaseHeldError
from sluice.faults import Point
from sluice.operations import stages
from spark_jobs.attempt_lease import AttemptLease
from spark_jobs.merging import load
from tests.all_readable import land
from tests.spark.shop import Shop, event

pytestmark = pytest.mark.spark
PIPELINE = {
    "format": "debezium",
    "max_bad_share": 1,
    "tables": {"public.orders": {"key": ["id"], "columns": {"id": "int"}}},
}


def test_a_batch_that_is_loaded_may_be_loaded_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its publish finds `main` moved, or somebody clears the task of its load."""
    shop = Shop(spark, tmp_path, PIPELINE)
    monkeypatch.setattr("sluice.operations.load.submit", shop.submit)
    shop.write("new.jsonl", [event("c", "orders", 10, id=1, status="new"), "{no event"])
    (key,) = land(shop.context())
    attempts = [stages.load(shop.context(), key).attempt for _ in range(2)]
    assert stages.publish(shop.context(), key).attempt == attempts[1] != attempts[0]
    assert shop.seen() == [(1, "new")]
    quarantine = shop.catalog.load_table(("sluice", "quarantine")).scan().to_arrow()
    assert quarantine["reason"].to_pylist() == ["not_json"]


@pytest.mark.long
def test_the_quarantine_of_the_attempt_that_was_published_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is below the floor is in no changelog any more, so the quarantine alone has it."""
    shop = Shop(spark, tmp_path, PIPELINE)
    shop.run(*(event("c", "orders", 10 + key, id=key, status="new") for key in (1, 2)))
    shop.run(event("d", "orders", 40, id=2, status="new"))
    shop.maintain()
    monkeypatch.setattr("sluice.operations.load.submit", shop.submit)
    shop.write("late.jsonl", [event("u", "orders", 12, id=2, status="late"), "{no event"])
    (key,) = land(shop.context())
    stood_still: list[Point] = []

    def reach(point: Point) -> None:
        if point == Point.LOAD_DECODED and not stood_still:
            stood_still.append(point)
            stages.load(shop.context(), key)
            stages.publish(shop.context(), key)

    monkeypatch.setattr(load, "reach", reach)
    with pytest.raises(LeaseHeldError, match="was taken over or undone"):
        stages.load(shop.context(), key)
    quarantine = shop.catalog.load_table(("sluice", "quarantine")).scan().to_arrow()
    assert sorted(quarantine["reason"].to_pylist()) == ["beyond_floor", "not_json"]


def test_the_changes_of_the_attempt_that_was_published_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that stands still after its last look writes nothing in their place."""
    shop = Shop(spark, tmp_path, PIPELINE)
    shop.run(event("c", "orders", 1, id=1, status="old"))
    monkeypatch.setattr("sluice.operations.load.submit", shop.submit)
    shop.write("new.jsonl", [event("c", "orders", 10, id=2, status="new")])
    (key,) = land(shop.context())
    look, changes = AttemptLease.require_current, ("shop__cdc", "orders__changes")
    written: list[int | None] = []

    def stand_still(hold: AttemptLease) -> None:
        look(hold)
        if not written:
            written.append(None)
            stages.load(shop.context(), key)
            stages.publish(shop.context(), key)
            written.append(head(shop.catalog.load_table(changes)))

    monkeypatch.setattr(AttemptLease, "require_current", stand_still)
    with pytest.raises(LeaseHeldError, match="was taken over or undone"):
        stages.load(shop.context(), key)
    assert [None, head(shop.catalog.load_table(changes))] == written
