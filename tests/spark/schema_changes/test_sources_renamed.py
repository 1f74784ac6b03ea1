"""A column of several source tables, renamed in one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.renamed import place
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

TABLE = {"key": ["id"], "columns": {"id": "int"}, "sources": ["shop.orders_?"]}


def event(table: str, op: str, position: int, **after: Any) -> dict[str, Any]:
    return {"op": op, "source": place(position, table), "before": None, "after": after}


def rename(table: str, position: int) -> dict[str, Any]:
    statement = f"ALTER TABLE {table} RENAME COLUMN title TO name"
    source = place(position, table)
    return {"source": source, "databaseName": "shop", "ddl": statement, "tableChanges": []}


BEFORE = [event("orders_1", "c", 1, id=1, title="a"), event("orders_2", "c", 2, id=2, title="b")]
FIRST = [rename("orders_1", 10)]
BETWEEN = [
    event("orders_1", "u", 11, id=1, name="a2"),
    event("orders_2", "u", 12, id=2, title="b2"),
    event("orders_1", "c", 13, id=3, name="c"),
]
SECOND = [rename("orders_2", 20)]
AFTER = [event("orders_2", "c", 21, id=4, name="d")]


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(
            [BEFORE, FIRST, BETWEEN, SECOND, AFTER], id="as it happened", marks=pytest.mark.long
        ),
        pytest.param([BEFORE + FIRST + BETWEEN + SECOND + AFTER], id="one batch"),
        pytest.param(
            [BEFORE, BETWEEN, AFTER, FIRST, SECOND], id="statements last", marks=pytest.mark.long
        ),
    ],
)
def test_each_source_keeps_its_values_from_before_the_others_rename(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batches: list[list[dict[str, Any]]],
) -> None:
    pipeline = {"format": "debezium", "tables": {"shop.orders": TABLE}}
    lake = Sandbox(spark, tmp_path, pipeline).driven(monkeypatch)
    for number, batch in enumerate(batches):
        lake.write(f"{number}.jsonl", batch)
        lake.run()
    named = {row["id"]: row["name"] for row in lake.rows("orders")}
    assert named == {1: "a2", 2: "b2", 3: "c", 4: "d"}
    assert lake.agrees()
