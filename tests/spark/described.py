"""PostgreSQL's events with their schema: a table that gets columns with a DEFAULT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.connect import ID, TEXT, schema_of
from tests.spark.sandbox import Sandbox

PRICE = {
    "type": "bytes", "optional": False, "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "9"}, "default": "ANI=",
}  # fmt: skip
STATUS = TEXT | {"default": "new"}
BEFORE = {"id": ID, "v": TEXT}
AFTER = BEFORE | {"status": STATUS, "price": PRICE}
LATER = BEFORE | {"status": TEXT | {"default": "open"}, "price": PRICE}
PLAIN = BEFORE | {"status": TEXT}
NEW = BEFORE | {"status": STATUS}
OPEN = BEFORE | {"status": TEXT | {"default": "open"}}


def event(
    op: str, lsn: int, columns: dict[str, Any], before: Any = None, **row: Any
) -> dict[str, Any]:
    """A PostgreSQL event with its schema."""
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders",
              "lsn": lsn, "snapshot": "false"}  # fmt: skip
    payload = {"op": op, "before": before, "after": row or None, "source": source, "ts_ms": 0}
    return {"schema": schema_of(columns, "before", "after"), "payload": payload}


def shop_of(spark: SparkSession, root: Path, **table: Any) -> Sandbox:
    """One table with the key `id`, unless `table` says otherwise."""
    pipeline = {"format": "debezium", "tables": {"orders": {"key": ["id"], **table}}}
    return Sandbox(spark, root, pipeline)


BATCHES = {
    "first": [
        event("c", 1, BEFORE, id=1, v="untouched"),
        event("c", 2, BEFORE, id=2, v="touched"),
        event("c", 3, BEFORE, id=3, v="given up"),
    ],
    "added": [
        event("u", 10, AFTER, id=2, v="touched", status="done", price="AMg="),
        event("c", 11, AFTER, id=4, v="null", status=None, price="AMg="),
    ],
    "changed": [
        event("c", 20, LATER, id=5, v="later", status="open", price="AMg="),
        event("d", 21, LATER, before={"id": 3, "v": None, "status": None, "price": "ANI="}),
    ],
}
