"""Texts above 20 million characters, where Spark's JSON readers stop by themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions
from sluice.config.formats import options_model
from spark_jobs.formats import FORMATS
from tests.spark.avroevents import KEY, ROW, b64, wire, write_schemas
from tests.spark.avroevents import event as avro_event
from tests.spark.debezium_events import event
from tests.spark.envelopes import jsonl

pytestmark = [pytest.mark.spark, pytest.mark.formats]

LENGTH = 21_000_000
LONG = "x" * LENGTH
IMAGE = {"id": 1, "name": LONG}


def document() -> dict[str, Any]:
    source = {"connector": "mongodb", "db": "shop", "collection": "t", "ts_ms": 1, "ord": 1}
    return event("c", src=source, after=json.dumps({"_id": 1, "name": LONG}))


def dts_record() -> dict[str, Any]:
    return {
        "id": 5, "sourceTimestamp": 1696984408, "source": {"sourceType": "MySQL"},
        "operation": "INSERT", "objectName": "db.t", "tags": {},
        "fields": [{"name": "name", "dataTypeNumber": 253}], "beforeImages": None,
        "afterImages": [{"Character": {"charset": "utf8", "value": LONG}}],
    }  # fmt: skip


RECORDS: dict[str, tuple[str, Callable[[], Any]]] = {
    "maxwell": ("maxwell", lambda: {
        "database": "shop", "table": "t", "type": "insert", "data": IMAGE}),
    "rows": ("rows", lambda: IMAGE),
    "debezium": ("debezium", lambda: {"key": {"id": 1}, "value": event(after=IMAGE)}),
    "mongodb": ("debezium", document),
    "dts_avro": ("dts_avro", dts_record),
    "base64": ("debezium", lambda: {"value": b64(wire(1, ROW, avro_event(row=IMAGE)))}),
}  # fmt: skip


@pytest.mark.parametrize("name", list(RECORDS))
def test_texts_of_every_reader(spark: SparkSession, tmp_path: Path, name: str) -> None:
    fmt, record = RECORDS[name]
    wire_options = {"layout": "base64", "schemas": str(write_schemas(tmp_path))}
    options = {"rows": {"table": "t"}, "base64": wire_options}.get(name, {})
    file = jsonl(tmp_path / "t.jsonl", [record()])
    decoded = FORMATS[fmt].read(spark, (file,), options_model(fmt).model_validate(options))
    found = decoded.select("reason", F.length(F.col("after")["name"])).collect()
    assert found == [(None, LENGTH)]


def test_the_json_encoding_of_avro(spark: SparkSession, tmp_path: Path) -> None:
    """Behind a line of schemas, as landing splits it."""
    image = {"srv.shop.t.Value": {"id": 1, "name": {"string": LONG}}}
    source = {
        "connector": "mysql", "ts_ms": 1, "ts_us": None, "snapshot": None, "db": "shop",
        "table": {"string": "t"},
    }  # fmt: skip
    value = {"before": None, "after": image, "op": "c", "source": source, "ts_ms": None}
    records = [{"key": KEY, "value": ROW}, {"key": {"id": 1}, "value": value}]
    file = jsonl(tmp_path / "t.jsonl", records)
    decoded = FORMATS["debezium"].read(spark, (file,), DebeziumOptions(layout="avro_json"))
    found = decoded.select("reason", F.length(F.col("after")["name"])).collect()
    assert found == [(None, LENGTH)]
