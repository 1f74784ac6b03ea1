"""Debezium JSON from landed files to tables: keys that are no objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def test_a_delete_without_a_schema_finds_a_row_of_either_width(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The key was widened; the connector wrote this one without its schema."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    records = [described("int32", 1), described("int64", 2**40), gone(1, 3), gone(2**40, 4)]
    counts = total(sandbox.load_records(records))
    assert (sandbox.rows("t"), counts.applied, counts.quarantined) == ([], 2, 0)


def described(kind: str, ident: int) -> dict[str, Any]:
    """An insert whose schema tells the type of its key."""
    fields = [{"field": "id", "type": kind, "optional": False}]
    images = [{"field": i, "type": "struct", "fields": fields} for i in ("before", "after")]
    row = event("c", src=source(pos=1 + (ident > 1)), after={"id": ident})
    return {"schema": {"type": "struct", "fields": images}, "payload": row}


def gone(ident: int, pos: int) -> dict[str, Any]:
    row = event("d", src=source(pos=pos), before={"id": ident}, after=None)
    return {"schema": None, "payload": row}
