"""A batch that changed nothing in a table is published only while that table is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.ledger import states
from sluice.operations import stages
from sluice.result import BatchResult
from tests import all_readable
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """One table; drivers run in here."""
    orders = {"key": ["id"], "columns": {"id": "int"}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"s.orders": orders}})
    return shop.driven(monkeypatch)


def event(lsn: int, note: str) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "orders", "lsn": lsn}
    return {"op": "u", "after": {"id": 1, "note": note}, "source": source}


def land(lake: Sandbox, name: str, *events: dict[str, Any]) -> str:
    """Land one file; the key of its batch's manifest."""
    lake.write(name, events)
    (key,) = all_readable.land(lake.context())
    return key


def load(lake: Sandbox, key: str) -> BatchResult:
    """Load a batch and let go of the lease, as if it had lapsed."""
    ctx = lake.context()
    result = stages.load(ctx, key)
    ctx.ledger.lease.release(result.batch_id, result.attempt)
    return result


def test_late_batch_is_merged_again_if_the_newer_batch_was_rolled_back(lake: Sandbox) -> None:
    newer = land(lake, "a.jsonl", event(30, "newer"))
    first = load(lake, newer)
    stages.publish(lake.context(), newer)
    late = land(lake, "b.jsonl", event(10, "late"))
    (table,) = load(lake, late).tables
    assert table.staged == ()
    assert [c.name for c in table.compared] == ["orders", "orders__tombstones"]

    # A rollback looks for such batches and refuses; here it does not.
    lake.published.append(first.batch_id)
    lake.rollback(first)
    lake.context().ledger.batches.record(first.batch_id, states.ROLLED_BACK)
    stages.publish(lake.context(), late)
    assert lake.rows("orders") == [{"id": 1, "note": "late"}]
