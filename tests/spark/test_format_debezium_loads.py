"""Debezium JSON from landed files to tables: keys that are no objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.debezium_events import event, source
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark


def test_rows_behind_a_scalar_key_have_the_key_of_the_pipeline(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`KEY^VALUE` as it lands, with tombstones, and the same as records."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    made, changed, gone = (
        event("c", src=source(pos=1)),
        event("u", src=source(pos=2), after={"id": 1, "name": "b"}),
        event("d", src=source(pos=3), before={"id": 2, "name": "x"}),
    )
    sandbox.write("1.txt", [f"1001^{json.dumps(made)}", f"1001^{json.dumps(changed)}"])
    sandbox.write("2.jsonl", [
        {"key": "a", "value": event("c", src=source(pos=2), after={"id": 2, "name": "x"})},
        {"key": "a", "value": gone}, {"key": "a", "value": None}, {"key": 7, "value": None},
    ])  # fmt: skip
    counts = total(sandbox.load_landed())
    assert sandbox.rows("t") == [{"id": "1", "name": "b"}]
    assert (counts.read, counts.ignored, counts.quarantined) == (6, 2, 0)
