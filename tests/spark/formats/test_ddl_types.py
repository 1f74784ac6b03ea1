"""Tables typed by a script of DDL, where JSON says no types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.datastream_events import event
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

ORDERS = """
CREATE TABLE `orders` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `amount` decimal(10,2) DEFAULT NULL,
  `paid` tinyint(1) NOT NULL DEFAULT '0' COMMENT 'true; or false',
  `placed_at` datetime(6) DEFAULT NULL,
  `day` date DEFAULT NULL,
  `share` double DEFAULT NULL,
  `note` varchar(20) DEFAULT NULL,
  `picture` blob,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
"""
HINTS = {
    "id": "decimal(20,0)", "amount": "decimal(10,2)", "paid": "int", "placed_at": "timestamp_ntz",
    "day": "date", "share": "double", "note": "string", "picture": "string",
}  # fmt: skip
MISFIT = {"id": 2, "amount": "1.005"}
ROWS: list[dict[str, Any]] = [
    {
        "id": 18446744073709551615, "amount": 19.90, "paid": 1, "share": 0.5,
        "placed_at": "2024-01-02T03:04:05.678901Z", "day": "2024-01-02T00:00:00Z",
        "note": "007", "picture": "ff00",
    },
    MISFIT,
    {"id": 3, "amount": None, "paid": 0},
]  # fmt: skip


def events(rows: list[dict[str, Any]], at: int) -> list[dict[str, Any]]:
    meta = {"table": "orders", "log_file": "mysql-bin.000001"}
    return [event(row, **meta, log_position=at + n) for n, row in enumerate(rows)]


def pipeline_with(script: str, root: Path, **table: Any) -> dict[str, Any]:
    """A pipeline with a script in its project."""
    (root / "schema").mkdir(parents=True, exist_ok=True)
    (root / "schema" / "shop.sql").write_text(script)
    ddl = {"dialect": "mysql", "files": ["schema"]}
    return {"format": "datastream", "ddl": ddl, "tables": {"orders": table}}


def test_a_script_types_a_table_as_hints_do(spark: SparkSession, tmp_path: Path) -> None:
    table = {"key": ["id"], "columns": HINTS}
    hints = {"format": "datastream", "tables": {"orders": table}}
    hinted = Sandbox(spark, tmp_path / "hinted", hints)
    scripted = Sandbox(spark, tmp_path / "told", pipeline_with(ORDERS, tmp_path / "told"))
    counts = [total(one.load_records(events(ROWS, 1))) for one in (hinted, scripted)]
    assert counts[0] == counts[1]
    assert scripted.types("orders") == hinted.types("orders")
    assert scripted.rows("orders") == hinted.rows("orders")
    (bad,) = scripted.quarantined()
    assert bad["detail"] == "amount: '1.005' does not fit decimal(10,2)"


def test_hints_win_and_another_script_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    hints = {"columns": {"amount": "decimal(12,3)", "day": "string"}}
    orders = Sandbox(spark, tmp_path, pipeline_with(ORDERS, tmp_path, **hints))
    orders.load_records(events(ROWS, 1))
    types = orders.types("orders")
    assert (types["amount"], types["day"]) == ("decimal(12, 3)", "string")
    assert not orders.quarantined()
    later = ORDERS.replace("tinyint(1)", "bigint(20)").replace("datetime(6)", "int(11)")
    orders.configure(
        **pipeline_with(later.replace("PRIMARY KEY (`id`)", "KEY (`id`)"), tmp_path, **hints)
    )
    orders.load_records(events([{**ROWS[0], "paid": 3000000000}], 9))
    assert orders.types("orders") == types | {"paid": "long"}
    assert sorted(row["paid"] for row in orders.rows("orders") if row["paid"]) == [3000000000]
