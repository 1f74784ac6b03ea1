"""Records that do not fit: to say which values they hold costs no more than to read them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
HINTS = {
    "id": "int", "no": "decimal(20,0)[unsigned]", "qty": "decimal(12,3)[base64]",
    "price": "decimal(10,2)[base64]", "added": "timestamp_ntz[ms]",
}  # fmt: skip


def line(pos: int, qty: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": pos,
        "no": "5",
        "qty": qty,
        "price": "ZA==",
        "added": 1772442000000,
    }
    source: dict[str, Any] = {
        "connector": "mysql",
        "db": "erp",
        "table": "lines",
        "file": "bin.000003",
    }
    source |= {"pos": pos, "row": 0, "ts_ms": 1772442000000}
    return {"op": "c", "before": None, "after": row, "source": source}


def test_a_value_of_many_steps_is_shown_without_being_computed_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each step of a decimal in base64 refers to the step before it a dozen times."""
    table = {"key": ["id"], "columns": HINTS}
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"erp.lines": table}})
    began = time.monotonic()
    lake.load(lake.write("a.jsonl", [line(100, "A+g="), line(200, "1.5")]))
    assert time.monotonic() - began < 100
    assert [str(row["qty"]) for row in lake.rows("lines")] == ["1.000"]
    (bad,) = lake.quarantined()
    assert bad["detail"] == "qty: '1.5' does not fit decimal(12,3)[base64]"
