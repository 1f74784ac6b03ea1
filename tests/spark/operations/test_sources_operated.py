"""Several source tables that make one target, under the commands of an operator."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.operations import preview, refolding, reprocess
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def event(lsn: int, table: str, ident: int, amount: str, op: str = "c") -> Row:
    source = {"connector": "postgresql", "db": "d", "schema": "public", "table": table, "lsn": lsn}
    return {"op": op, "after": {"id": ident, "amount": amount}, "source": source, "ts_ms": lsn}


def configured(amount: str) -> Row:
    columns = {"id": "bigint", "amount": amount}
    orders = {"key": ["id"], "columns": columns, "sources": ["public.orders_p*"]}
    return {"format": "debezium", "tables": {"public.orders": orders}}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Drivers run in here."""
    sandbox = Sandbox(spark, tmp_path, configured("decimal(4,2)")).driven(monkeypatch)
    monkeypatch.setattr(preview, "submit", sandbox.look)
    return sandbox


def amounts(lake: Sandbox) -> dict[int, Decimal]:
    return {row["id"]: row["amount"] for row in lake.rows("orders")}


@pytest.mark.long
def test_partitions_are_looked_at_reprocessed_rebuilt_and_undone_as_one_table(
    lake: Sandbox,
) -> None:
    first = [event(1, "orders_p1", 1, "1.00"), event(2, "orders_p2", 2, "22.00"),
             event(3, "orders_p2", 3, "333.00")]  # fmt: skip
    lake.write("first.jsonl", first)
    lake.run()
    (bad,) = lake.quarantined()
    assert (bad["source_table"], bad["record"]) == ("public.orders", 3)

    lake.write("second.jsonl", [event(4, "orders_p2", 1, "4.00", "u"), event(5, "orders", 5, "5")])
    (looked,) = preview.preview(lake.context()).forecast.tables
    assert looked.target == "shop.orders"
    second = lake.run()
    (table,) = second.tables
    assert (looked.counts, table.counts.applied) == (table.counts, 2)

    lake.configure(**configured("decimal(10,2)"))
    results, failure = reprocess.reprocess(lake.context())
    assert (len(results), failure) == (1, None)
    whole = {1: Decimal(4), 2: Decimal(22), 3: Decimal(333), 5: Decimal(5)}
    assert amounts(lake) == whole
    assert lake.agrees()
    refolding.rebuild(lake.context())
    assert amounts(lake) == whole
    refolding.undo_or_refold(lake.context(), second.batch_id)
    assert amounts(lake) == {1: Decimal(1), 2: Decimal(22), 3: Decimal(333)}
    assert lake.agrees()
