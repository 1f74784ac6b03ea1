"""ADD COLUMN … DEFAULT: rows that no event touched since hold the default, in every order."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

INT = {"type": "int32", "optional": False}
TEXT = {"type": "string", "optional": True}
PRICE = {
    "type": "bytes", "optional": False, "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "9"}, "default": "ANI=",
}  # fmt: skip
STATUS = TEXT | {"default": "new"}
BEFORE = {"id": INT, "v": TEXT}
AFTER = BEFORE | {"status": STATUS, "price": PRICE}
LATER = BEFORE | {"status": TEXT | {"default": "open"}, "price": PRICE}


def event(
    op: str, lsn: int, columns: dict[str, Any], before: Any = None, **row: Any
) -> dict[str, Any]:
    """A PostgreSQL event with its schema."""
    fields = [{"field": name, **kind} for name, kind in columns.items()]
    schema = {"type": "struct", "fields": [
        {"field": image, "type": "struct", "optional": True, "fields": fields}
        for image in ("before", "after")
    ]}  # fmt: skip
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders",
              "lsn": lsn, "snapshot": "false"}  # fmt: skip
    payload = {"op": op, "before": before, "after": row or None, "source": source, "ts_ms": 0}
    return {"schema": schema, "payload": payload}


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
QUICK = ("added", "first", "changed")
WANTED = [
    (1, "untouched", "new", Decimal("2.10")),
    (2, "touched", "done", Decimal("2.00")),
    (4, "null", None, Decimal("2.00")),
    (5, "later", "open", Decimal("2.00")),
]


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=[] if order == QUICK else [pytest.mark.long])
        for order in itertools.permutations(BATCHES)
    ],
    ids="-".join,
)
def test_untouched_rows_have_the_default(
    spark: SparkSession, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """`null` was written, not left out; the default that the column was added with counts."""
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"orders": {"key": ["id"]}}})
    for name in order:
        shop.load_records(BATCHES[name], f"{name}.jsonl")
    rows = [(r["id"], r["v"], r["status"], r["price"]) for r in shop.rows("orders")]
    assert sorted(rows) == WANTED


@pytest.mark.long
def test_a_row_without_a_key_is_found_by_its_default_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"orders": {"key": []}}})
    shop.load_records(BATCHES["first"], "first.jsonl")
    gone = {"id": 1, "v": "untouched", "status": "new", "price": "ANI="}
    shop.load_records([event("d", 10, AFTER, before=gone)], "deleted.jsonl")
    rows = [(r["id"], r["v"], r["status"], r["price"]) for r in shop.rows("orders")]
    price = Decimal("2.10")
    assert sorted(rows) == [(2, "touched", "new", price), (3, "given up", "new", price)]


@pytest.mark.long
def test_a_batch_that_is_rolled_back_takes_its_defaults_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"orders": {"key": ["id"]}}})
    shop.load_records(BATCHES["first"], "first.jsonl")
    shop.rollback(shop.load_records(BATCHES["added"], "added.jsonl"))
    assert {"status", "price"}.isdisjoint(shop.rows("orders")[0])
    shop.load_records(BATCHES["added"], "added.jsonl")
    rows = {r["id"]: r["status"] for r in shop.rows("orders")}
    assert rows == {1: "new", 2: "done", 3: "new", 4: None}
