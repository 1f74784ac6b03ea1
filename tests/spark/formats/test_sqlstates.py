"""What Spark says of data that it cannot compute with is no reason to try again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluice.errors import TerminalError, TransientError
from spark_jobs.failures import typed
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


def written(frame: DataFrame) -> Exception:
    """What stops a write of the rows: a task's error in that of its job."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        frame.write.format("noop").mode("overwrite").save()
    return caught.value


@pytest.mark.parametrize(
    ("expression", "state"),
    [
        ("1 / (id - 1)", "22012"),
        ("CAST(concat('x', id) AS int)", "22018"),
        ("CAST(9223372036854775806 AS bigint) + id * 2", "22003"),
        ("to_timestamp(concat('2026-99-', id))", "22"),
        ("map_from_arrays(array(id, id), array(1, 2))", "23505"),
    ],
)
def test_sqlstates_of_bad_data_are_terminal(
    spark: SparkSession, expression: str, state: str
) -> None:
    strict = spark.newSession()
    strict.conf.set("spark.sql.mapKeyDedupPolicy", "EXCEPTION")
    found = typed(written(strict.range(0, 4, numPartitions=2).selectExpr(f"{expression} AS x")))
    assert type(found) is TerminalError
    assert f"SQLSTATE {state}" in str(found)


def test_a_file_that_cannot_be_read_may_be_there_again(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(4).write.parquet(f"{tmp_path}/rows")
    rows = spark.read.parquet(f"{tmp_path}/rows")
    for file in (tmp_path / "rows").glob("*.parquet"):
        file.unlink()
    assert type(typed(written(rows))) is TransientError


def test_validation_errors_of_iceberg_are_terminal_and_keep_their_message(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "debezium"})
    lake.catalog.create_namespace("shop")
    with pytest.raises(Exception, match="Invalid source type") as caught:
        lake.spark.sql("CREATE TABLE lake.shop.t (d string) USING iceberg PARTITIONED BY (days(d))")
    found = typed(caught.value)
    assert type(found) is TerminalError
    assert str(found) == (
        "Py4JJavaError: org.apache.iceberg.exceptions.ValidationException: Invalid source type "
        "string for transform: day. No other try mends this: nothing is published"
    )
