"""The option `table`: records that name no table, as Flink's sinks write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.formats import options_model
from spark_jobs.formats import FORMATS
from tests.spark.debezium_events import event, source
from tests.spark.envelopes import jsonl, table_name
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.formats]
OLD, NEW = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}
# An update is a delete and an insert, as `debezium-json`, `maxwell-json` and `ogg-json` write it;
# the last record of each names its own table, and one that is no change names none.
FLINK: dict[str, list[dict[str, Any]]] = {
    "debezium": [
        {"before": None, "after": OLD, "op": "c"}, {"before": OLD, "after": None, "op": "d"},
        {"before": None, "after": NEW, "op": "c"},
        event(src=source(table="")), event(),
        {"source": source(table=None), "ts_ms": 5, "ddl": "CREATE DATABASE d"},
    ],
    "maxwell": [
        {"data": OLD, "type": "insert"}, {"data": OLD, "type": "delete"},
        {"data": NEW, "type": "insert"},
        {"database": "shop", "table": "t", "data": OLD, "type": "insert"},
        {"database": "d", "sql": "CREATE DATABASE d", "type": "database-create"},
        {"database": "d", "data": OLD, "type": "insert"},
    ],
    "ogg": [
        {"before": None, "after": OLD, "op_type": "I"},
        {"before": OLD, "after": None, "op_type": "D"},
        {"before": None, "after": NEW, "op_type": "I"},
        {"table": "shop.t", "before": None, "after": OLD, "op_type": "I"},
    ],
}  # fmt: skip
NAMES = {
    "debezium": ["d.s.o", "d.s.o", "d.s.o", "d.s.o", "shop.t", "shop"],
    "maxwell": ["s.o", "s.o", "s.o", "shop.t", "d", "s.o"],
    "ogg": ["d.s.o", "d.s.o", "d.s.o", "shop.t"],
}
"""By the options `d.s.o` and, of Maxwell, `s.o`."""
OPTIONS = {"debezium": "d.s.o", "maxwell": "s.o", "ogg": 'd."s".o'}


def read(spark: SparkSession, folder: Path, name: str, options: Mapping[str, Any]) -> list[Any]:
    file = jsonl(folder / "a.jsonl", FLINK[name])
    return FORMATS[name].read(spark, (file,), options_model(name).model_validate(options)).collect()


@pytest.mark.parametrize("name", FLINK)
def test_option_table_names_the_table_of_records_without_one(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    rows = read(spark, tmp_path, name, {"table": OPTIONS[name]})
    assert {row["outcome"] for row in rows} == {"event"}
    assert [table_name(row) for row in rows] == NAMES[name]
    assert [row["position"] for row in rows[:3]] == [None] * 3


@pytest.mark.parametrize("name", FLINK)
def test_records_without_a_table_are_rejected_without_the_option(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    rows = read(spark, tmp_path, name, {})
    assert [row["reason"] for row in rows[:3]] == ["table_missing"] * 3


def test_records_of_flink_are_loaded_in_the_order_of_arrival(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(spark, tmp_path, {
        "format": "debezium", "format_options": {"table": "s.o"},
        "tables": {"s.o": {"key": ["id"]}},
    }).driven(monkeypatch)  # fmt: skip
    first, second, third = FLINK["debezium"][:3]
    sandbox.run_each([first, {"before": None, "after": {"id": 2, "v": "x"}, "op": "c"}])
    sandbox.run_each([second, third])
    assert sandbox.rows("o") == [{"id": "1", "v": "b"}, {"id": "2", "v": "x"}]
    assert sandbox.agrees()
