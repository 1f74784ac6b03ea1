"""Numbers that Spark's quick functions for JSON do not read, where lines are searched for columns.

A line is read the same, whatever else is in its batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.formats import options_model
from spark_jobs.formats import FORMATS
from tests.spark.envelopes import jsonl
from tests.spark.tuple_records import record

pytestmark = pytest.mark.spark

NUMBERS = ["NaN", "Infinity", "-Infinity", f"{'7' * 800}.{'1' * 800}"]
PLAIN: dict[str, dict[str, Any]] = {
    "rows": {"id": 2, "name": "ink"},
    "datahub_tuple": record("I", "6", id=2, name="ink"),
}


def lines(fmt: str) -> list[str]:
    """One line with each number, which alone have a column of nothing but NULL."""
    rows = [PLAIN[fmt] | {"id": i, "x": "NUMBER", "none": None} for i in range(len(NUMBERS))]
    return [json.dumps(r).replace('"NUMBER"', n) for r, n in zip(rows, NUMBERS, strict=True)]


def decoded(spark: SparkSession, folder: Path, fmt: str, texts: list[str]) -> list[Row]:
    options = options_model(fmt).model_validate({"table": "t"})
    file = jsonl(folder / "t.jsonl", texts)
    return sorted(FORMATS[fmt].read(spark, (file,), options).collect(), key=lambda r: r["ordinal"])


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside"])
@pytest.mark.parametrize("fmt", list(PLAIN))
def test_any_number_is_read(spark: SparkSession, tmp_path: Path, fmt: str, beside: bool) -> None:
    others = [json.dumps(PLAIN[fmt])] if beside else []
    found = decoded(spark, tmp_path, fmt, [*lines(fmt), *others])[: len(NUMBERS)]
    assert {row["reason"] for row in found} == {None}
    images = [row["after"] for row in found]
    assert images == [
        {"id": str(i), "name": "ink", "none": None, "x": n} for i, n in enumerate(NUMBERS)
    ]


@pytest.mark.parametrize("fmt", list(PLAIN))
def test_tables_of_their_own_columns(spark: SparkSession, tmp_path: Path, fmt: str) -> None:
    """Where the table is named in the lines, each table has the columns of its own lines."""
    odd = lines(fmt)[0]
    other = json.dumps(PLAIN[fmt] | {"_source_table_": "other", "more": 1})
    found = decoded(spark, tmp_path, fmt, [odd, other])[0]["after"]
    wanted = {"id": "0", "name": "ink", "none": None, "x": "NaN"}
    assert found == wanted if fmt == "datahub_tuple" else wanted.items() <= found.items()


@pytest.mark.parametrize("fmt", list(PLAIN))
def test_a_column_twice_beside_any_number(spark: SparkSession, tmp_path: Path, fmt: str) -> None:
    twice = [line.replace('"id":', '"name": "pen", "id":') for line in lines(fmt)]
    found = decoded(spark, tmp_path, fmt, twice)
    assert {row["reason"] for row in found} == {"duplicate_column"}


@pytest.mark.parametrize("text", ["NaN", '{"id": NaN', '{"id": nan}'])
def test_a_text_that_is_no_object(spark: SparkSession, tmp_path: Path, text: str) -> None:
    (found,) = decoded(spark, tmp_path, "rows", [text])
    assert (found["reason"], found["raw"]) == ("not_json", text)
