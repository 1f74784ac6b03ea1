"""A long text from a file takes time by its length, not by its square: each would take a minute."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions
from sluice.config.source_tables import regex
from sluice.ddl.statements import MENTIONS_DROPS
from sluice.types.columns import parse_type
from spark_jobs.formats import FORMATS
from spark_jobs.values import decode
from tests.spark.debezium_events import event
from tests.spark.envelopes import jsonl

pytestmark = pytest.mark.spark

LENGTH = 60_000
SECONDS = 10


def as_value(kind: str) -> Callable[[Column], Column]:
    return lambda text: decode(text, parse_type(kind))


def matching(pattern: str) -> Callable[[Column], Column]:
    return lambda text: text.rlike(pattern)


@pytest.mark.parametrize(
    ("text", "read", "wanted"),
    [
        ("1" * LENGTH + "x", as_value("double"), None),
        (f"0.1{'0' * LENGTH}1", as_value("float"), None),
        (f"1.{'0' * LENGTH}1", as_value("decimal(10,2)"), None),
        ("2024-01-01 " + "1 " * LENGTH, as_value("timestamp_ntz"), None),
        ("drop " * LENGTH, matching(MENTIONS_DROPS), False),
        ("ab" * LENGTH, matching(rf"\A{regex(['a*b*c*d'])}\z"), False),
    ],
    ids=["double", "float", "decimal", "timestamp", "drops", "sources"],
)
def test_a_long_text(
    spark: SparkSession, text: str, read: Callable[[Column], Column], wanted: object
) -> None:
    frame = spark.createDataFrame([("",), (text,)], "text string")
    begun = time.monotonic()
    assert frame.select(read(F.col("text"))).collect()[1][0] == wanted
    assert time.monotonic() - begun < SECONDS


def test_texts_of_an_envelope(spark: SparkSession, tmp_path: Path) -> None:
    key = {"a": '"' * LENGTH, "b": 1.5}
    value = event(after={"id": 1})
    value["source"]["file"] = "1" * LENGTH * 2 + "x"
    file = jsonl(tmp_path / "t.jsonl", [json.dumps({"key": key, "value": value})])
    begun = time.monotonic()
    (row,) = FORMATS["debezium"].read(spark, (file,), DebeziumOptions()).collect()
    assert time.monotonic() - begun < 2 * SECONDS
    assert sorted(row["key"]) == ["a", "b"]
