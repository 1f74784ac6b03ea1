"""A table whose column gets another name, and its events before, with and since the statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox

Row = dict[str, Any]
PLACEHOLDER = "__debezium_unavailable_value"
RENAME = "ALTER TABLE orders CHANGE COLUMN title name varchar(40)"


def place(pos: int, table: str = "orders") -> Row:
    """Where MySQL's log has an event."""
    return {"connector": "mysql", "db": "shop", "table": table, "ts_ms": pos * 1000,
            "file": "mysql-bin.000007", "pos": pos, "row": 0, "snapshot": "false"}  # fmt: skip


def event(op: str, pos: int, before: Row | None = None, **after: Any) -> Row:
    return {"op": op, "source": place(pos), "before": before, "after": after or None}


def ddl(pos: int, text: str = RENAME) -> Row:
    """An event of the schema-change topic."""
    return {"source": place(pos), "databaseName": "shop", "ddl": text, "tableChanges": []}


def shop_of(spark: SparkSession, root: Path, **table: Any) -> Sandbox:
    config = {"key": ["id"], "columns": {"id": "int"}, **table}
    return Sandbox(spark, root, {"format": "debezium", "tables": {"orders": config}})


def names_of(shop: Sandbox, table: str = "orders") -> dict[int, tuple[Any, Any]]:
    return {row["id"]: (row["name"], row.get("title")) for row in shop.rows(table)}


BATCHES = {
    "before": [
        event("c", 1, id=1, title="untouched"),
        event("c", 2, id=2, title="touched"),
        event("c", 3, id=3, title="given up"),
        event("c", 4, id=5, title=None),
    ],
    "renamed": [ddl(10)],
    "since": [
        event("u", 11, {"id": 2, "name": "touched"}, id=2, name="touched since"),
        event("d", 12, {"id": 3, "name": "given up"}),
        event("c", 13, id=4, name="new"),
    ],
}
WANTED = {
    1: ("untouched", None),
    2: ("touched since", None),
    4: ("new", None),
    5: (None, None),
}
