"""Connectors that write as Debezium does, but name no connector: oracdc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import DebeziumOptions
from spark_jobs.formats.debezium.decoder import Debezium
from tests.spark.envelopes import jsonl, table_name

pytestmark = pytest.mark.spark


def of_oracdc(owner: str, op: str, **images: Any) -> dict[str, Any]:
    """A change as in oracdc's samples of messages in Debezium's style."""
    source = {
        "instance_number": 1, "version": "12.1.0.2.0", "database_name": "EBSDB", "query": None,
        "owner": owner, "table": "DEPT", "scn": 12204753723754, "ts_ms": 1580464499942,
    }  # fmt: skip
    return {"op": op, "ts_ms": 1580465954805, "before": {"DEPTNO": 50}, "source": source} | images


def test_tables_of_two_owners_are_two(spark: SparkSession, tmp_path: Path) -> None:
    records = [of_oracdc(owner, "c", after={"DEPTNO": 50}) for owner in ("SCOTT", "HR")]
    file = jsonl(tmp_path / "a.jsonl", records)
    rows = Debezium().read(spark, (file,), DebeziumOptions()).orderBy("ordinal").collect()
    assert [table_name(row) for row in rows] == ["SCOTT.DEPT", "HR.DEPT"]
