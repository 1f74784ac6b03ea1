"""A target that somebody dropped: no load makes it anew, a rebuild makes it what it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.errors import TransientError
from sluice.operations import refolding, stages
from tests.spark.notes import event, pipeline
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A table of which nothing was ever deleted; its newest event came first."""
    shop = Sandbox(spark, tmp_path, pipeline(["current", "append"])).driven(monkeypatch)
    for number, events in enumerate(([event(20, 1, "paid")], [event(10, 1, "new")])):
        shop.write(f"{number}.jsonl", events)
        shop.run()
    return shop


def notes_of_target_and_events(lake: Sandbox) -> tuple[list[str], list[str]]:
    rows, events = lake.rows("orders"), lake.rows("orders__events")
    return [r["note"] for r in rows], sorted(r["note"] for r in events)


def refuses(lake: Sandbox) -> None:
    _, failure = stages.run(lake.context())
    assert "shop.orders is gone" in str(failure)
    assert "sluice rollback p --rebuild --table orders" in str(failure)


def fails(*_: object) -> None:
    raise TransientError("the catalog is away")


@pytest.mark.long
def test_a_dropped_target_is_made_again_and_not_anew(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a load, not by one after a rebuild that ended too early either."""
    before = notes_of_target_and_events(lake)
    assert before == (["paid"], ["new", "paid"])
    for table in ("orders", "orders__events"):
        lake.spark.sql(f"DROP TABLE lake.shop.{table}")
    lake.write("late.jsonl", [event(15, 1, "late"), event(20, 1, "paid")])
    refuses(lake)
    with monkeypatch.context() as broken:
        broken.setattr(refolding, "publish", fails)
        with pytest.raises(TransientError, match="the catalog is away"):
            refolding.rebuild(lake.context())
    refuses(lake)
    refolding.rebuild(lake.context())
    assert notes_of_target_and_events(lake) == before
    lake.run()
    assert notes_of_target_and_events(lake) == (["paid"], ["late", "new", "paid"])
    assert lake.agrees()
