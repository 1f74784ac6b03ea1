"""A quarantined record's number is its place in the file as it landed, whoever refused it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
NO_UTF8 = b'{"op": "\xff"}'  # landing refuses it, and Spark reads a copy without it
NO_JSON = b'{"op":'
NOTHING = b'{"op": "x"}'


def event(lsn: int, number: object) -> bytes:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": lsn}
    row = {"id": lsn, "n": number}
    return json.dumps({"op": "c", "before": None, "after": row, "source": source}).encode()


def test_records_refused_by_landing_count_too(spark: SparkSession, tmp_path: Path) -> None:
    table = {"key": ["id"], "columns": {"id": "int", "n": "int"}}
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"s.t": table}})
    lines = [
        NO_UTF8,
        event(2, 1),
        NO_JSON,
        NO_UTF8,
        NO_UTF8,
        event(6, "many"),
        event(7, 1),
        NOTHING,
    ]
    (lake.landing / "a.jsonl").write_bytes(b"\n".join(lines))
    (lake.landing / "b.jsonl").write_bytes(b"\n".join([event(1, 1), NO_JSON]))
    lake.load_landed()
    found = {(row["file"], row["record"]): row["raw"] for row in lake.quarantined()}
    assert found == {("a.jsonl", number): lines[number - 1] for number in (1, 3, 4, 5, 6, 8)} | {
        ("b.jsonl", 2): NO_JSON
    }
