"""AWS DMS: what looks like an old value, an operation or an order and is none; control records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import AwsDmsOptions
from spark_jobs.formats.aws_dms.decoder import AwsDms
from tests.spark.dms_records import message
from tests.spark.envelopes import assert_event, assert_rejected, at, decode_named, jsonl

pytestmark = [pytest.mark.spark, pytest.mark.formats]
CONTROL = {"record-type": "control"}
MESSAGES: dict[str, Any] = {
    "insert": message("insert", {"id": 1, "BI_id": 1, "BI_x": "mine", "seq": 1}),
    "delete": message("delete", {"id": 1, "BI_id": 1, "BI_x": "mine", "seq": 2}),
    "schemaless": message("insert", {"id": 1, "seq": 3}, **{"schema-name": ""}),
    "nameless": message("insert", {"id": 1, "seq": 5}, **{"table-name": ""}),
    "twice": json.dumps(message("update", {"id": 1, "seq": 4},
                                top={"before-image": {"id": 0}})).replace(
        '"id": 0', '"id": 1, "id": 2'),
    "loaded_at_noon": message("load", timestamp="12:00:00"),
    "loaded_at_noon_in_the_west": message("load", timestamp="12:00:00-05:00"),
    "created": message("create-table", **CONTROL, top={"data": None}),
    "dropped": message("drop-table", **CONTROL, **{"schema-name": "", "table-name": 'a"b'},
                       top={"data": None}),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every message above, decoded in one read with an `order_column`, by its name."""
    folder = tmp_path_factory.mktemp("dms")
    return decode_named(spark, AwsDms(), folder, MESSAGES, order_column="seq")


def test_only_an_update_tells_by_one_old_value_that_the_others_are_old(
    rows: dict[str, Row],
) -> None:
    """Elsewhere `BI_x` is a column of the table if there is no `x`."""
    mine = {"id": "1", "BI_x": "mine"}
    assert_event(rows["insert"], "insert")
    assert_event(rows["delete"], "delete")
    assert (rows["insert"]["after"], rows["delete"]["before"]) == (mine, mine)


def test_a_table_without_a_schema(rows: dict[str, Row]) -> None:
    assert_event(rows["schemaless"], "insert")
    assert (rows["schemaless"]["schema"], rows["schemaless"]["table"]) == (None, "t")


def test_an_empty_name_names_no_table(rows: dict[str, Row]) -> None:
    assert_rejected(rows["nameless"], "table_missing", MESSAGES["nameless"])
    assert (rows["nameless"]["schema"], rows["nameless"]["table"]) == ("s", None)


def test_a_name_that_comes_twice_among_the_old_values(rows: dict[str, Row]) -> None:
    assert_rejected(rows["twice"], "duplicate_column", MESSAGES["twice"])


@pytest.mark.parametrize("name", ["loaded_at_noon", "loaded_at_noon_in_the_west"])
def test_a_time_of_day_is_no_time_of_reading(rows: dict[str, Row], name: str) -> None:
    """As a time it would be one of the day on which Sluice reads it."""
    assert_event(rows[name], "insert")
    assert rows[name]["position"] == at(0, kind=0)


def test_a_control_record_needs_no_order_and_no_text(rows: dict[str, Row]) -> None:
    assert_event(rows["created"], "ddl")
    assert rows["created"]["ddl"] == "create-table"
    assert_event(rows["dropped"], "ddl")
    assert rows["dropped"]["ddl"] == 'DROP TABLE "a""b"'


def of_file(
    spark: SparkSession, folder: Path, name: str, row: dict[str, Any], **options: str
) -> Row:
    """One row of a file of the S3 target, which landing made of CSV."""
    file = replace(jsonl(folder / name, [row]), key=f"s/t/{name}")
    given = AwsDmsOptions.model_validate({"order_column": "seq", **options})
    (found,) = AwsDms().read(spark, (file,), given).collect()
    return found


def test_an_operation_is_named_in_one_spelling(spark: SparkSession, tmp_path: Path) -> None:
    """`op` is a column of the table; a row without `Op` is an insert."""
    row = of_file(spark, tmp_path, "20241027-1.csv", {"op": "D", "seq": "1", "id": "1"})
    assert_event(row, "insert")
    assert row["after"] == {"op": "D", "id": "1"}


def test_a_file_of_changes_that_is_called_like_a_load(spark: SparkSession, tmp_path: Path) -> None:
    row = of_file(spark, tmp_path, "LOADING.csv", {"Op": "I", "seq": "7", "id": "1"})
    assert (row["outcome"], row["position"]) == ("event", at(7))


def test_of_several_columns_of_order_the_one_in_the_same_case(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And none of several that all differ from it by case."""
    row = {"Op": "I", "id": "1", "SEQ": "8"}
    found = of_file(spark, tmp_path, "20241027-1.csv", {**row, "seq": "7"})
    assert_event(found, "insert")
    assert (found["position"], found["after"]) == (at(7), {"id": "1", "SEQ": "8"})
    found = of_file(spark, tmp_path, "20241027-2.csv", {**row, "Seq": "9"})
    assert (found["outcome"], found["reason"]) == ("reject", "bad_order")


def test_an_old_null_is_known_where_the_new_value_was_not_logged(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Only a deleted row may have its values in either column."""
    row = {"Op": "U", "seq": "1", "id": "3", "v": "-", "BI_id": "3", "BI_v": None}
    found = of_file(spark, tmp_path, "20241027-1.csv", row, csv_not_logged="-")
    assert_event(found, "update")
    assert (found["before"], found["after"]) == ({"id": "3", "v": None}, {"id": "3"})


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["id", "BI_x"]), ({"before_prefix": ""}, ["id", "BI_id", "BI_x"]),
        ({"before_prefix": "", "before_suffix": "d"}, ["id", "BI_id", "BI_x"]),
    ],
)  # fmt: skip
def test_columns_of_old_values_have_a_column_beside_them(
    options: dict[str, str], names: list[str]
) -> None:
    fields = [{"name": name, "type": {"type": "int"}} for name in ("id", "BI_id", "BI_x")]
    types = json.dumps({"type": "record", "name": "row", "fields": fields})
    found = AwsDms().columns(types, AwsDmsOptions.model_validate(options))
    assert [column.name for column in found] == names
