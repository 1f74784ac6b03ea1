"""A batch that had nothing for a table is published only while that table is what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice import stages
from sluice.result import BatchResult
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A table without a key; drivers run in here."""
    visits = {"key": [], "columns": {"x": "int"}}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"s.visits": visits}})
    monkeypatch.setattr(stages, "submit", sandbox.drive)
    return sandbox


def event(op: str, lsn: int, x: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "visits", "lsn": lsn}
    return {"op": op, "before" if op == "d" else "after": {"x": x}, "source": source}


def land(lake: Sandbox, name: str, *events: dict[str, Any]) -> str:
    """Land one file; the key of its batch's manifest."""
    lake.write(name, events)
    (key,) = stages.land(lake.context())
    return key


def load(lake: Sandbox, key: str) -> BatchResult:
    """Load a batch and let go of the lease, as if it had lapsed."""
    ctx = lake.context()
    result = stages.load(ctx, key)
    ctx.ledger.release_lease("p", result.batch_id, result.attempt)
    return result


def test_a_delete_that_found_nothing_is_merged_again_where_its_row_came(lake: Sandbox) -> None:
    first = land(lake, "a.jsonl", event("c", 1, 1))
    load(lake, first)
    stages.publish(lake.context(), first)

    early = land(lake, "b.jsonl", event("d", 10, 2))
    (table,) = load(lake, early).tables
    assert table.staged == ()
    assert [c.name for c in table.compared] == ["visits", "visits__tombstones"]

    insert = land(lake, "c.jsonl", event("c", 5, 2))
    load(lake, insert)
    stages.publish(lake.context(), insert)
    assert sorted(row["x"] for row in lake.rows("visits")) == [1, 2]
    stages.publish(lake.context(), early)
    assert [row["x"] for row in lake.rows("visits")] == [1]
