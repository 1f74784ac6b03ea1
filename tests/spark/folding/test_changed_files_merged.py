"""A changed file under a loaded key: what is new in it counts, the rest is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.operations import preview as preview_module
from sluice.operations import refolding, stages
from sluice.operations.preview import preview
from sluice.operations.selection import Selection
from sluice.result import BatchResult, Counts
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

ORDERS = {"s.orders": {"key": ["id"], "columns": {"id": "bigint"}}}
Row = dict[str, Any]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": ORDERS}).driven(monkeypatch)
    monkeypatch.setattr(preview_module, "submit", sandbox.look)
    return sandbox


def event(lsn: int, ident: int, text: str) -> Row:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "orders", "lsn": lsn}
    return {"op": "u", "after": {"id": ident, "text": text}, "source": source, "ts_ms": 1}


def by_arrival(ident: int, text: str) -> Row:
    """Maxwell's row without a place in the log."""
    data = {"id": ident, "text": text}
    return {"database": "s", "table": "orders", "type": "insert", "ts": 1, "data": data}


def run(sandbox: Sandbox, changed: bool = False) -> list[BatchResult]:
    results, failure = stages.run(sandbox.context(), Selection(changed=changed))
    if failure is not None:
        raise failure
    return results


def texts(sandbox: Sandbox) -> list[tuple[int, str]]:
    return sorted((row["id"], row["text"]) for row in sandbox.rows("orders"))


def changed_after_loads(lake: Sandbox) -> str:
    """Load two files, then change the first one; return its batch."""
    lake.write("a.jsonl", [event(10, 1, "a"), event(11, 2, "b")])
    (first,) = run(lake)
    lake.write("b.jsonl", [event(20, 2, "newer")])
    run(lake)
    lake.write("a.jsonl", [event(10, 1, "a"), event(12, 2, "late"), event(13, 3, "c")])
    return first.batch_id


def test_changed_file_is_loaded_once_by_a_run_with_changed(lake: Sandbox) -> None:
    changed_after_loads(lake)
    assert run(lake) == []

    planned = preview(lake.context(), Selection(changed=True))
    assert (planned.files, planned.changed) == (("a.jsonl",), ("a.jsonl",))
    (changed,) = run(lake, changed=True)
    assert total(changed) == Counts(read=3, applied=1, duplicate=1, late=1)
    assert [table.counts for table in planned.forecast.tables] == [total(changed)]
    assert texts(lake) == [(1, "a"), (2, "newer"), (3, "c")]
    assert run(lake, changed=True) == []
    assert lake.agrees()


@pytest.mark.long
def test_a_changed_file_and_the_one_before_it_are_undone(lake: Sandbox) -> None:
    first = changed_after_loads(lake)
    (changed,) = run(lake, changed=True)
    refolding.undo_or_refold(lake.context(), first)
    assert texts(lake) == [(1, "a"), (2, "newer"), (3, "c")]
    refolding.undo_or_refold(lake.context(), changed.batch_id)
    assert texts(lake) == [(2, "newer")]
    assert lake.agrees()


def test_by_arrival_a_changed_file_comes_after_the_one_before_it_and_before_the_next(
    lake: Sandbox,
) -> None:
    lake.configure(format="maxwell", format_options={"order": "arrival"}, tables=ORDERS)
    lake.write("a.jsonl", [by_arrival(1, "a"), by_arrival(2, "b")])
    lake.write("b.jsonl", [by_arrival(2, "next")])
    run(lake)
    lake.write("a.jsonl", [by_arrival(2, "b"), by_arrival(1, "mended")])
    (changed,) = run(lake, changed=True)
    assert total(changed) == Counts(read=2, applied=1, late=1)
    assert texts(lake) == [(1, "mended"), (2, "next")]


def test_rows_known_by_their_place_alone_are_refused_until_the_batch_before_is_undone(
    lake: Sandbox,
) -> None:
    keyless = {"s.orders": {"key": [], "columns": {"id": "bigint"}}}
    lake.configure(format="maxwell", format_options={"order": "arrival"}, tables=keyless)
    lake.write("a.jsonl", [by_arrival(1, "a")])
    (first,) = run(lake)
    lake.write("a.jsonl", [by_arrival(1, "a"), by_arrival(2, "b")])
    with pytest.raises(PlanError, match="neither a key nor an order"):
        preview(lake.context(), Selection(changed=True))
    with pytest.raises(PlanError, match=f"release, of batch {first.batch_id} and of") as caught:
        run(lake, changed=True)
    assert "neither a key nor an order" in str(caught.value)
    assert texts(lake) == [(1, "a")]

    (refused,) = stages.reconcile(lake.context())
    for batch in (refused.split("/")[1], first.batch_id):
        refolding.undo_or_refold(lake.context(), batch)
        stages.release(lake.context(), batch)
    run(lake)
    assert texts(lake) == [(1, "a"), (2, "b")]
