"""A driver that was suspended before it wrote a changelog, while others finished its batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from sluice.errors import LeaseHeldError
from sluice.faults import Point
from sluice.ledger.changelogs import files_of
from sluice.objects.batch_files import batch_of
from sluice.operations import stages
from sluice.operations.undo import undo_batch
from spark_jobs.attempt_lease import AttemptLease
from spark_jobs.decoding import changelog_rows
from tests.all_readable import land
from tests.spark.shop import Shop, event

pytestmark = pytest.mark.spark
PIPELINE = {
    "format": "debezium",
    "tables": {"public.orders": {"key": ["id"], "columns": {"id": "int"}}},
}


class Late:
    """A shop with a landed batch, and what others do with it while its first driver is suspended.

    `left`: the snapshot of the changelog that they leave.
    """

    def __init__(self, shop: Shop, undone: bool) -> None:
        self.shop, self.undone = shop, undone
        # A batch that looks like those before it is decoded from its files, which stay.
        shop.run(event("c", "orders", 1, id=1, status="new"))
        shop.write("late.jsonl", [event("u", "orders", 10, id=1, status="paid")])
        (self.key,) = land(shop.context())
        self.left: int | None = None
        self._begun = False

    def others(self, *_: object) -> None:
        """Load and publish the batch, and undo it where it shall be; once."""
        if self._begun:
            return
        self._begun = True
        context = self.shop.context()
        stages.load(context, self.key)
        stages.publish(context, self.key)
        if self.undone:
            undo_batch(context, batch_of(self.key))
        self.left = self.changelog().metadata.current_snapshot_id

    def load(self) -> None:
        with pytest.raises(LeaseHeldError, match=r"taken over or undone|stops here"):
            stages.load(self.shop.context(), self.key)
        assert self._begun

    def changelog(self) -> Table:
        found: Table = self.shop.table("orders__changes", "shop__cdc")
        return found


@pytest.fixture(params=[False, True], ids=["published", "rolled back"])
def late(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Late:
    shop = Shop(spark, tmp_path, PIPELINE)
    monkeypatch.setattr("sluice.operations.load.submit", shop.submit)
    return Late(shop, request.param)


def test_driver_that_wakes_up_before_its_changelog_write_writes_nothing(
    late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach(point: Point) -> None:
        if point == Point.LOAD_PLANNED:
            late.others()

    monkeypatch.setattr(changelog_rows, "reach", reach)
    late.load()
    assert late.changelog().metadata.current_snapshot_id == late.left


def test_driver_that_wakes_up_in_its_changelog_write_leaves_no_rolled_back_changes(
    late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = AttemptLease.require_current

    def passed_just_before(hold: AttemptLease) -> None:
        asked(hold)
        late.others()

    monkeypatch.setattr(AttemptLease, "require_current", passed_just_before)
    late.load()
    assert bool(files_of(late.changelog(), batch_of(late.key))) != late.undone
