"""plan: what a run would do is what the run then does, and looking leaves no trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.operations import preview as preview_module
from sluice.operations import stages
from sluice.operations.preview import Preview, TableForecast, preview
from sluice.result import Counts
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

TABLES: dict[str, Any] = {
    "s.orders": {"key": ["id"], "columns": {"id": "bigint", "amount": "decimal(4,2)"}},
    "s.log": {"key": [], "columns": {"id": "bigint"}},
}
Row = dict[str, Any]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": TABLES}).driven(monkeypatch)
    monkeypatch.setattr(preview_module, "submit", sandbox.look)
    return sandbox


def event(lsn: int, table: str = "orders", **after: Any) -> Row:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    return {"op": "u" if table == "orders" else "c", "after": after, "source": source, "ts_ms": 1}


def preview_of(sandbox: Sandbox) -> Preview:
    """What `sluice plan` finds."""
    return preview(sandbox.context(read_only=True))


def traces(sandbox: Sandbox) -> set[Path]:
    """Every file below the project, and what the catalog holds."""
    return {path for path in sandbox.root.rglob("*") if path.is_file()}


def one(found: Preview, target: str) -> TableForecast:
    return next(table for table in found.forecast.tables if table.target == target)


def test_plan_forecasts_what_the_run_then_does(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(20, id=1, amount="1.00"), event(21, "log", id=1)])
    before = traces(lake)
    first = preview_of(lake)
    assert traces(lake) == before
    assert one(first, "shop.orders").created
    assert one(first, "shop.orders").added == ("id bigint", "amount decimal(4,2)")
    assert one(first, "shop.orders").counts == Counts(read=1, applied=1)
    stages.run(lake.context())

    lake.write("b.jsonl", [
        event(20, id=1, amount="1.00"),  # there already
        event(10, id=1, amount="0.50"),  # late
        event(30, id=2, amount="2.00"), event(31, id=2, amount="2.50", note="n"),
        event(32, id=1, amount="1.25"),
        event(33, id=3, amount="100.25"),  # does not fit
        event(21, "log", id=1), event(40, "log", id=2),
        "no JSON at all",
    ])  # fmt: skip
    lake.write("c.jsonl", [event(20, id=1, amount="1.00"), event(21, "log", id=1)])
    before = traces(lake)
    found = preview_of(lake)
    assert traces(lake) == before
    assert (found.files, found.repeated, found.batches) == (("b.jsonl",), ("c.jsonl",), 1)
    orders, log = one(found, "shop.orders"), one(found, "shop.log")
    # The newest of key 1 applies, so what it passes over is superseded, whatever is stored.
    assert orders.counts == Counts(read=6, applied=2, superseded=3, quarantined=1)
    assert orders.added == ("note string",)
    assert orders.hit_files == 1
    assert log.counts == Counts(read=2, applied=1, duplicate=1)
    assert log.hit_files is None

    results, failure = stages.run(lake.context())
    assert failure is None
    (result,) = results
    assert {t.target: t.counts for t in result.tables} == {
        t.target: t.counts for t in found.forecast.tables
    }
    planned = sum((t.counts for t in found.forecast.tables), found.forecast.unassigned)
    assert total(result) == planned
    assert preview_of(lake).files == ()


def test_plan_fails_where_the_run_would(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(1, table="other", id=1)])
    lake.configure(format="debezium")
    before = traces(lake)
    with pytest.raises(PlanError, match="no key is known"):
        preview_of(lake)
    assert traces(lake) == before


@pytest.mark.long
def test_a_look_refuses_another_type_of_a_column_that_places_rows_as_the_run_does(
    lake: Sandbox,
) -> None:
    def order_of(amount: str) -> Row:
        orders = {"key": ["id"], "columns": {"amount": amount}, "partition_by": ["amount"]}
        return {"format": "debezium", "tables": {"s.orders": orders}}

    lake.configure(**order_of("decimal(4,2)"))
    lake.write("a.jsonl", [event(1, id="1", amount="1.00")])
    stages.run(lake.context())
    lake.configure(**order_of("decimal(6,3)"))
    lake.write("b.jsonl", [event(2, id="2", amount="1.125")])
    refused = r"'amount' cannot become decimal\(6, ?3\)"
    with pytest.raises(PlanError, match=refused):
        preview_of(lake)
    _, failure = stages.run(lake.context())
    assert re.search(refused, str(failure))
    assert 'seen in b.jsonl, record 1: {"amount":"1.125"}' in str(failure)
