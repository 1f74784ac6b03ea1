"""versions: changes of keys → the states that rows were in, without a lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.canonical import ALL_BUT
from spark_jobs.folding.fold import fold
from spark_jobs.folding.versions import ENDED_AT, versions

pytestmark = pytest.mark.spark

CHANGES = (
    "id int, a string, b string, _op string, _absent array<string>, "
    "_position string, _source_ts timestamp, _batch_id string"
)
Told = list[tuple[Any, ...]]


def change(at: str, op: str, *values: str | None, absent: Sequence[str] | None = None) -> Any:
    """A change of the row 1."""
    a, b = (*values, None, None)[:2]
    return (1, a, b, op, absent, at, None, "batch")


def versions_of(spark: SparkSession, changes: list[Any], truncates: Sequence[str] = ()) -> Told:
    """Values, beginning and end of every version of row 1."""
    marks = spark.createDataFrame(
        [(at, None) for at in truncates], "_position string, _source_ts timestamp"
    )
    found = versions(frame(spark, changes), marks, ("id",), ("id", "a", "b"))
    rows = found.select("a", "b", "_position", ENDED_AT).collect()
    return sorted((tuple(row) for row in rows), key=lambda row: row[2])


def frame(spark: SparkSession, changes: list[Any]) -> DataFrame:
    return spark.createDataFrame(changes, CHANGES)


def test_columns_missing_in_an_event_are_as_before_unless_the_row_was_deleted(
    spark: SparkSession,
) -> None:
    changes = [
        change("1.1", "insert", "a", "b"),
        change("2.1", "update", "A", absent=["b"]),
        change("3.1", "update", None, "B", absent=[ALL_BUT, "b"]),
        change("4.0", "delete", "made", "up"),
        change("5.1", "update", "new", absent=["b"]),
        change("6.1", "update", None, None),
    ]
    assert versions_of(spark, changes[::-1]) == [
        ("a", "b", "1.1", "2.1"), ("A", "b", "2.1", "3.1"), ("A", "B", "3.1", "4.0"),
        ("new", None, "5.1", "6.1"), (None, None, "6.1", None),
    ]  # fmt: skip


def test_the_old_half_of_an_update_that_leaves_the_key_deletes_nothing(
    spark: SparkSession,
) -> None:
    changes = [
        change("1.1", "insert", "a", "b"),
        change("2.0", "delete", "a"),
        change("2.1", "update", "A", absent=["b"]),
    ]
    assert versions_of(spark, changes) == [("a", "b", "1.1", "2.1"), ("A", "b", "2.1", None)]


def test_a_truncate_ends_what_is_below_it_and_nothing_lives_on(spark: SparkSession) -> None:
    changes = [
        change("1.1", "insert", "a", "b"),
        change("5.1", "update", "A", absent=["b"]),
        change("6.0", "delete"),
    ]
    assert versions_of(spark, changes, ["7.1", "3.1", "2.1"]) == [
        ("a", "b", "1.1", "2.1"), ("A", None, "5.1", "6.0"),
    ]  # fmt: skip
    assert versions_of(spark, changes[:2], ["7.1"])[1] == ("A", "b", "5.1", "7.1")


def test_of_a_tie_the_version_is_the_one_that_fold_takes(spark: SparkSession) -> None:
    changes = [change("1.1", "insert", f"text {n}", "b") for n in range(20)]
    (version,) = versions_of(spark, changes * 2)
    folded = fold(
        frame(spark, changes).withColumn("_counted", F.lit(True)), "x", ["id"], ["id", "a", "b"]
    )
    assert version[0] == folded.first()["a"]  # type: ignore[index]
    assert version[3] is None
