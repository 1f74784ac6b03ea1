"""Defaults that a statement tells of columns which have another type since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import described
from tests.spark.connect import TEXT
from tests.spark.described import BEFORE
from tests.spark.renamed import Row, ddl, place
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

FLOAT, DOUBLE, FLAG = ({"type": t, "optional": True} for t in ("float", "double", "boolean"))
TIME = {"type": "int64", "optional": True, "name": "io.debezium.time.Timestamp"}
PRICE = {name: part for name, part in described.PRICE.items() if name != "default"}
FIRST = BEFORE | {"c": FLOAT, "price": PRICE, "since": TIME, "flag": FLAG}
THEN = BEFORE | {"c": DOUBLE, "price": TEXT, "since": TEXT, "flag": TEXT}


def event(pos: int, columns: Row, **row: Any) -> Row:
    """One with its schema, in MySQL's log."""
    told = described.event("c", 0, columns, **row)
    return {**told, "payload": {**told["payload"], "source": place(pos)}}


ADD = ddl(
    10,
    "ALTER TABLE orders ADD c FLOAT DEFAULT 0.1, ADD price DECIMAL(9,2) DEFAULT 1.5, ADD since "
    "DATETIME DEFAULT '2026-01-01 00:00:00', ADD flag BOOLEAN DEFAULT TRUE",
)
AGAIN = [
    ddl(20, "ALTER TABLE orders DROP COLUMN price"),
    ddl(21, "ALTER TABLE orders ADD COLUMN price VARCHAR(9)"),
]
BATCHES = {
    "before": [event(5, BEFORE, id=1, v="untouched")],
    "added": [ADD, event(12, FIRST, id=2, v="x", c=0.5, price="AMg=", since=0, flag=False)],
    "since": [event(22, THEN, id=3, v="x", c=0.25, price="p", since="s", flag="f")],
}
IN_ORDER, LAST, BETWEEN = "before added since", "since added before", "added since before"


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "again"),
    [(IN_ORDER, False), (LAST, False), (IN_ORDER, True), (BETWEEN, True)],
)
def test_rows_hold_what_the_column_has_now_whatever_it_was_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, again: bool
) -> None:
    """Of what text does not hold as the source spells it rows from before have nothing; `again`: a
    column was dropped, and another one added under its name."""
    table = {"key": ["id"], "modes": ["current", "history"]}
    pipeline = {"format": "debezium", "on_type_change": "string", "tables": {"orders": table}}
    shop = Sandbox(spark, tmp_path, pipeline).driven(monkeypatch)
    batches = BATCHES | {"since": [*(AGAIN if again else ()), *BATCHES["since"]]}
    shop.run_each(*(batches[name] for name in order.split()))
    (row,) = (r for r in shop.rows("orders") if r["id"] == 1)
    names = ("price", "since", "flag", *(["price__dropped"] if again else []))
    assert row == {"id": 1, "v": "untouched", "c": 0.1, **dict.fromkeys(names)}
    assert shop.agrees()
