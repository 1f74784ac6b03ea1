"""AWS DMS: rows of which the source logged a part, in messages and in files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.dms_records import load, message
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.formats]


def test_a_column_that_was_not_logged_keeps_its_value(spark: SparkSession, tmp_path: Path) -> None:
    """Only where the option says that rows are logged in part; a NULL that is sent counts."""
    options = {"row_image": "partial", "order_column": "seq"}
    tables = {"s.t": {"key": ["id"]}}
    sandbox = Sandbox(
        spark, tmp_path, {"format": "aws_dms", "format_options": options, "tables": tables}
    )
    sandbox.load_records([
        message("insert", {"id": 1, "a": "x", "b": "y", "c": "z", "seq": 1}),
        message("update", {"id": 1, "a": None, "b": "new", "seq": 2}),
    ])  # fmt: skip
    assert sandbox.rows("t") == [{"id": "1", "a": None, "b": "new", "c": "z"}]


@pytest.mark.parametrize(("row_image", "b"), [("full", None), ("partial", "new")])
def test_a_column_that_the_file_marks_as_not_logged_keeps_its_value(
    spark: SparkSession, tmp_path: Path, row_image: str, b: str | None
) -> None:
    """`CsvNoSupValue` is a CSV file's alone: messages are read as `row_image` says."""
    options = {"csv_not_logged": "-", "order_column": "seq", "row_image": row_image}
    tables = {"s.t": {"key": ["id"]}}
    sandbox = Sandbox(
        spark, tmp_path, {"format": "aws_dms", "format_options": options, "tables": tables}
    )
    load(sandbox, "s/t/LOAD00000001.csv", "id,a,b\n1,x,y\n2,x,-y\n")
    load(sandbox, "s/t/20241027-1.csv", "Op,seq,id,a,b\nU,1,1,-,new\nU,2,2,NULL,-\n")
    assert sorted((r["id"], r["a"], r["b"]) for r in sandbox.rows("t")) == [
        ("1", "x", "new"), ("2", None, "-y"),
    ]  # fmt: skip
    row = {"Op": "U", "seq": "4", "id": "2", "a": "-", "b": "z"}
    pq.write_table(pa.Table.from_pylist([row]), sandbox.landing / "s/t/20241027-2.parquet")
    sandbox.load_landed()
    assert {r["id"]: (r["a"], r["b"]) for r in sandbox.rows("t")}["2"] == ("-", "z")
    sandbox.load_records([message("update", {"id": 1, "a": "-", "seq": 3})])
    assert {r["id"]: (r["a"], r["b"]) for r in sandbox.rows("t")}["1"] == ("-", b)


def test_an_old_value_that_the_file_marks_as_not_logged_is_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It is not one that stayed: the update would take a row that is not there."""
    options = {"csv_not_logged": "-", "order_column": "seq", "before_prefix": "BI_"}
    sandbox = Sandbox(spark, tmp_path, {
        "format": "aws_dms", "format_options": options, "tables": {"s.t": {"key": []}},
    })  # fmt: skip
    load(sandbox, "s/t/LOAD00000001.csv", "id,v\n1,old\n2,x\n")
    header = "Op,seq,id,v,BI_id,BI_v\n"
    path = sandbox.landing / "s" / "t" / "20241027-1.csv"
    path.write_text(f"{header}U,1,1,new,1,-\nU,2,2,y,2,x\nD,3,1,-,1,\nD,4,2,-,2,y\n")
    sandbox.load_landed()
    assert [(r["id"], r["v"]) for r in sandbox.rows("t")] == [("1", "old")]
    assert not {name for name in sandbox.types("t") if name.startswith("BI_")}
    assert sorted((q["record"], q["reason"], q["detail"]) for q in sandbox.quarantined()) == [
        (1, "does_not_fit", "not_sent:v"), (3, "does_not_fit", "not_sent:v"),
    ]  # fmt: skip


def test_a_deleted_row_that_was_logged_in_part_identifies_none_without_a_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {"row_image": "partial", "order_column": "seq"}
    sandbox = Sandbox(spark, tmp_path, {
        "format": "aws_dms", "format_options": options, "tables": {"s.t": {"key": []}},
    })  # fmt: skip
    sandbox.load_records([
        message("insert", {"id": 1, "a": "x", "seq": 1}), message("delete", {"id": 1, "seq": 2}),
    ])  # fmt: skip
    assert sandbox.rows("t") == [{"id": "1", "a": "x"}]
    assert [(q["reason"], q["detail"]) for q in sandbox.quarantined()] == [
        ("does_not_fit", "not_sent:a")
    ]
