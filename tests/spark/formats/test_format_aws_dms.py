"""AWS DMS: messages and rows, before images, full loads, order by a column, whole runs."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import AwsDmsOptions
from sluice.ddl.statements import UnreadableDdlError, altered
from sluice.ddl.tables import renamed_tables
from sluice.positions import encode_number
from spark_jobs.formats.aws_dms.decoder import AwsDms
from tests.spark.dms_records import load, message
from tests.spark.envelopes import assert_event, assert_rejected, at, decode_named, jsonl
from tests.spark.sandbox import Sandbox

DEFAULTS = AwsDmsOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]
OPTIONS = {"order_column": "seq"}


MESSAGES: dict[str, Any] = {
    "load": message("load"),
    "insert": message("insert"),
    "update": message("update"),
    "delete": message("delete"),
    "prefixed": message("update", {"id": 2, "n": "b", "BI_id": 1, "BI_n": "a"}),
    "key_only": message("update", {"id": 2, "n": "b", "BI_id": 1}),
    "apart": message("update", {"id": 2, "n": "b"}, top={"before-image": {"id": 1}}),
    "both": message("update", {"id": 2, "n": "b", "BI_n": "a"}, top={"before-image": {"id": 1}}),
    "one_empty": message("update", {"id": 2, "n": "b", "BI_id": 1}, top={"before-image": {}}),
    "deleted_apart": message("delete", top={"data": None, "before-image": {"id": 1, "n": None}}),
    "deleted_empty": message("delete", {}, top={"before-image": {"id": 1, "n": None}}),
    "deleted_key": message("delete", {"id": 1}, top={"before-image": {"n": None}}),
    "update_apart": message("update", top={"data": None, "before-image": {"id": 1}}),
    "update_without_nulls": message("update", {"id": 1}, top={"before-image": {}}),
    "own_prefix": message("insert", {"id": 1, "BI_x": "mine", "MY_id": "too"}),
    "set_to_null": message("update", {"id": 1, "BI_id": 1, "BI_n": 2}),
    "committed": message("insert", **{"commit-timestamp": "2024-10-27T12:39:02Z"}),
    "exact": json.dumps(message("insert", {"n": 0})).replace(
        '"n": 0', '"n": 12345678901234567890.10, "e": 1e999, "o": {"k": 1.10}'),
    "create": {"control": {"table-def": {"columns": {}}}, "metadata": {
        "record-type": "control", "operation": "create-table", "schema-name": "s",
        "table-name": "t"}},
    "drop": {"metadata": {"record-type": "control", "operation": "drop-table",
                          "schema-name": "s", "table-name": "t"}},
    "renamed": {"control": {"table-def": {"columns": {"n": {"type": "STRING"}}}}, "metadata": {
        "record-type": "control", "operation": "rename-column", "schema-name": "s",
        "table-name": "t"}},
    "renamed_table": {"metadata": {"record-type": "control", "operation": "rename-table",
                                   "schema-name": "s", "table-name": "t"}},
    "dropped_column": {"metadata": {"record-type": "control", "operation": "drop-column",
                                    "schema-name": "s", "table-name": "t"}},
    "unknown": message("merge"),
    "unknown_of_no_type": message("merge", **{"record-type": None}),
    "wrong_case": message("INSERT"),
    "no_operation": message("x", operation=None),
    "no_table": message("insert", **{"table-name": None}),
    "no_data": message("insert", top={"data": None}),
    "twice": json.dumps(message("update")).replace('"n": null', '"BI_id": 1, "BI_id": 2'),
    "cut": '{"data": {"id": 1',
    "shape": '{"data": [], "metadata": 1}',
    "other": '{"a": 1}',
}  # fmt: skip
# Decoded with an `order_column`.
ORDERED: dict[str, Any] = {
    "ordered": message("insert", {"id": 1, "seq": "20241027123903000000000000000000123"}),
    "ordered_in_another_case": message("insert", {"id": 1, "Seq": "7"}),
    "ordered_in_two_cases": message("insert", {"seq": "7", "SEQ": "8", "Seq": "9"}),
    "ordered_in_two_other_cases": message("insert", {"SEQ": "8", "Seq": "9"}),
    "load_without_order": message("load", {"id": 1}),
    "bad_order": message("insert", {"id": 1, "seq": "7.5"}),
    "no_order": message("insert", {"id": 1}),
    "null_order": message("delete", {"id": 1, "seq": None}),
}  # fmt: skip


# Each with an option that says where the old values are.
ELSEWHERE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "field": (
        "before_field",
        "old",
        message("update", {"id": 2, "n": "b"}, top={"old": {"id": 1}}),
    ),
    "suffix": ("before_suffix", "_old", message("update", {"id": 2, "n": "b", "id_old": 1})),
}


@pytest.mark.parametrize("name", list(ELSEWHERE))
def test_old_values_are_read_from_another_field_or_columns_with_a_suffix(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    option, value, record = ELSEWHERE[name]
    row = decode_named(spark, AwsDms(), tmp_path, {name: record}, **{option: value})[name]
    assert (row["before"], row["after"]) == ({"id": "1", "n": "b"}, NEW)


def test_a_reject_names_the_field_of_old_values(spark: SparkSession, tmp_path: Path) -> None:
    record = message("merge", top={"old": {"id": 1}})
    row = decode_named(spark, AwsDms(), tmp_path, {"x": record}, before_field="old")["x"]
    assert json.loads(row["raw"])["old"] == {"id": "1"}


def test_a_prefix_and_a_suffix_together(spark: SparkSession, tmp_path: Path) -> None:
    record = message("update", {"id": 2, "n": "b", "<id>": 1, "<n": "c", "n>": "d"})
    options = {"before_prefix": "<", "before_suffix": ">"}
    row = decode_named(spark, AwsDms(), tmp_path, {"x": record}, **options)["x"]
    assert row["before"]["id"] == "1"
    assert row["after"] == NEW | {"<n": "c", "n>": "d"}


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every message above, decoded in two reads, by its name."""
    folder = tmp_path_factory.mktemp("dms")
    ordered = decode_named(spark, AwsDms(), folder, ORDERED, **OPTIONS)
    return decode_named(spark, AwsDms(), folder, MESSAGES) | ordered


ROW = {"id": "1", "n": None}
NEW = {"id": "2", "n": "b"}


@pytest.mark.parametrize(
    ("name", "op", "before", "after"),
    [
        ("load", "insert", None, ROW), ("insert", "insert", None, ROW),
        ("update", "update", None, ROW), ("delete", "delete", ROW, None),
        ("prefixed", "update", {"id": "1", "n": "a"}, NEW),
        ("key_only", "update", {"id": "1", "n": "b"}, NEW),
        ("apart", "update", {"id": "1", "n": "b"}, NEW),
        ("both", "update", {"id": "1", "n": "b"}, NEW),
        ("one_empty", "update", {"id": "1", "n": "b"}, NEW),
        ("update_without_nulls", "update", None, {"id": "1"}),
        ("deleted_apart", "delete", ROW, None), ("deleted_empty", "delete", ROW, None),
        ("deleted_key", "delete", ROW, None),
        ("own_prefix", "insert", None, {"id": "1", "BI_x": "mine", "MY_id": "too"}),
        ("set_to_null", "update", {"id": "1", "n": "2"}, {"id": "1"}),
        ("ordered", "insert", None, {"id": "1"}),
        ("ordered_in_another_case", "insert", None, {"id": "1"}),
        ("ordered_in_two_cases", "insert", None, {"SEQ": "8", "Seq": "9"}),
        ("create", "ddl", None, None), ("drop", "ddl", None, None),
        ("renamed", "ddl", None, None), ("renamed_table", "ddl", None, None),
        ("dropped_column", "ddl", None, None),
        ("exact", "insert", None,
         {"n": "12345678901234567890.10", "e": "1e999", "o": '{"k": 1.10}'}),
    ],
)  # fmt: skip
def test_operations(
    rows: dict[str, Row], name: str, op: str, before: dict[str, str], after: dict[str, str]
) -> None:
    row = rows[name]
    assert_event(row, op)
    assert (row["before"], row["after"]) == (before, after)
    assert (row["database"], row["schema"], row["table"]) == (None, "s", "t")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "unknown_op:merge"), ("wrong_case", "unknown_op:INSERT"),
        ("unknown_of_no_type", "unknown_op:merge"),
        ("no_operation", "not_an_envelope"), ("other", "not_an_envelope"),
        ("no_table", "table_missing"), ("no_data", "image_missing"), ("bad_order", "bad_order"),
        ("no_order", "bad_order"), ("null_order", "bad_order"),
        ("ordered_in_two_other_cases", "bad_order"),
        ("update_apart", "image_missing"),
        ("twice", "duplicate_column"), ("cut", "not_json"), ("shape", "not_json"),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, (MESSAGES | ORDERED)[name])


def test_positions_and_times(rows: dict[str, Row]) -> None:
    assert rows["load"]["position"] == f"0.{encode_number(1730032743210671)}"
    assert rows["load_without_order"]["position"] == rows["load"]["position"]
    assert rows["insert"]["position"] is None
    assert rows["ordered"]["position"] == at("20241027123903000000000000000000123")
    cases = [rows[f"ordered_in_{which}"] for which in ("another_case", "two_cases")]
    assert [row["position"] for row in cases] == [at(7)] * 2
    assert rows["insert"]["source_ts"].timestamp() == 1730032743.210671
    assert rows["committed"]["source_ts"].timestamp() == 1730032742
    assert rows["load"]["source_ts"] is None
    assert rows["insert"]["tx_id"] == "670014899490"
    assert rows["create"]["ddl"] == '{"table-def": {"columns": {}}}'
    assert rows["drop"]["ddl"] == 'DROP TABLE "s"."t"'


@pytest.mark.parametrize("record", ["renamed", "dropped_column"])
def test_a_change_of_a_column_is_a_statement_that_cannot_be_followed(
    rows: dict[str, Row], record: str
) -> None:
    """The record does not say which column it was, or what it was called before."""
    with pytest.raises(UnreadableDdlError):
        altered(rows[record]["ddl"])


def test_a_rename_of_a_table_is_a_statement_that_cannot_be_followed(rows: dict[str, Row]) -> None:
    """The record does not say what the table was called before."""
    with pytest.raises(UnreadableDdlError):
        renamed_tables(rows["renamed_table"]["ddl"])


@pytest.mark.parametrize(
    ("name", "operation", "loaded"),
    [
        ("LOAD0000000A", {}, True),
        ("LOAD0000000A", {"Op": "I"}, True),
        ("SEGMENT1_LOAD00000001", {"Op": "I"}, True),
        ("segmentZ_load0000000a", {"Op": "I"}, True),
        ("20241027-123904210", {"Op": "I"}, False),
        ("20241027-123904210", {}, False),
        ("renamed", {}, True),
        ("renamed", {"Op": "I"}, False),
    ],
)
def test_rows_of_a_full_load_are_recognised_by_file_name_or_missing_op(
    spark: SparkSession, tmp_path: Path, name: str, operation: dict[str, str], loaded: bool
) -> None:
    """The file's name says so; of a file with a name of its own, its rows' lack of an `Op`."""
    landed = jsonl(tmp_path / f"{name}.csv", [{**operation, "id": "1"}])
    file = replace(landed, key=f"s/t/{name}.csv")
    (row,) = AwsDms().read(spark, (file,), DEFAULTS).collect()
    assert (row["outcome"], row["schema"], row["table"]) == ("event", "s", "t")
    assert (row["position"] or "").startswith("0.") == loaded


# Whole runs over the layout of the S3 target

PIPELINE = {
    "format": "aws_dms",
    "format_options": {"order_column": "seq", "timestamp_column": "at"},
    "tables": {"hr.emp": {"key": ["id"], "columns": {"id": "bigint", "pay": "decimal(9,2)"}}},
}
LOADED = 'id,pay,note\n1,1.10,a\n2,2.20,\n3,3.30,""\n'
CHANGED = (
    "Op,Seq,AT,id,pay,note\n"
    "U,12,2024-10-27 12:39:03.210671,1,1.15,b\nD,9,2024-10-27 12:39:03.000000,2,2.20,\n"
    "U,11,2024-10-27 12:39:02.000000,1,1.12,c\nI,13,2024-10-27 12:39:03.210671,4,4.40,d\n"
)
EXPECTED = [
    {"id": 1, "pay": Decimal("1.15"), "note": "b"},
    {"id": 3, "pay": Decimal("3.30"), "note": ""},
    {"id": 4, "pay": Decimal("4.40"), "note": "d"},
]


@pytest.mark.parametrize("turned", [False, True])
def test_files_of_the_s3_target(spark: SparkSession, tmp_path: Path, turned: bool) -> None:
    """A full load and its changes, in any order, a part of them twice."""
    sandbox = Sandbox(spark, tmp_path / "p", PIPELINE)
    files = [
        ("dms/hr/emp/LOAD0000000A.csv", LOADED),
        ("dms/hr/emp/2024/10/27/20241027-123904210.csv", CHANGED),
    ]
    for key, content in reversed(files) if turned else files:
        load(sandbox, key, content)
    load(sandbox, "dms/hr/emp/20241027-123905000.csv", "".join(CHANGED.splitlines(True)[:3]))
    assert sorted(sandbox.rows("emp"), key=lambda row: row["id"]) == EXPECTED


def test_types_come_from_parquet(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of a full load with an `Op` rank below changes too: the file's name says so."""
    sandbox = Sandbox(spark, tmp_path / "p", PIPELINE | {"tables": {"hr.emp": {"key": ["id"]}}})
    folder = sandbox.landing / "hr" / "emp"
    folder.mkdir(parents=True)
    kinds = {"Op": pa.string(), "SEQ": pa.string(), "id": pa.int64(), "BI_id": pa.int64(),
             "pay": pa.decimal128(9, 2), "hired": pa.date32()}  # fmt: skip
    schema = pa.schema(list(kinds.items()))
    pay = Decimal("1.10")
    changes = [
        {"Op": "U", "SEQ": "5", "id": 2, "BI_id": 1, "pay": pay},
        {"Op": "I", "SEQ": "4", "id": 1, "pay": pay},
    ]
    pq.write_table(pa.Table.from_pylist(changes, schema), folder / "20241027-1.parquet")
    # The expression for a change's place gives an empty text while a table is loaded in full.
    loaded = [{"Op": "I", "SEQ": "", "id": n, "pay": pay} for n in (1, 2, 3)]
    pq.write_table(pa.Table.from_pylist(loaded, schema), folder / "LOAD00000001.parquet")
    sandbox.load_landed()
    assert sorted(r["id"] for r in sandbox.rows("emp")) == [2, 3]
    assert sandbox.types("emp") == {"id": "long", "pay": "decimal(9, 2)", "hired": "date"}


@pytest.mark.parametrize(
    ("change", "left"),
    [("D,1,a,,2", [2]), ("D,1,a,1,2", [2]), ("D,,,1,2", [2]), ("U,3,a,1,2", [2, 3])],
)
def test_a_delete_in_a_file_with_columns_of_old_values_has_its_row_in_either(
    spark: SparkSession, tmp_path: Path, change: str, left: list[int]
) -> None:
    """The rule `add-before-image-columns` fills them in updates alone, but every row has them."""
    sandbox = Sandbox(spark, tmp_path / "p", PIPELINE)
    load(sandbox, "hr/emp/LOAD00000001.csv", "id,note\n1,a\n2,b\n")
    load(sandbox, "hr/emp/20241027-1.csv", f"Op,id,note,BI_id,seq\n{change}\n")
    assert sorted(row["id"] for row in sandbox.rows("emp")) == left


def test_a_csv_file_has_the_columns_of_its_own_table(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = {"format": "aws_dms", "tables": {"hr.emp": {"key": ["id"]}, "hr.dept": {"key": []}}}
    sandbox = Sandbox(spark, tmp_path / "p", pipeline)
    for table, content in (("emp", "id,pay\n1,2\n"), ("dept", "name\nsales\n")):
        (sandbox.landing / "hr" / table).mkdir(parents=True)
        (sandbox.landing / "hr" / table / "LOAD00000001.csv").write_text(content)
    sandbox.load_landed()
    assert sandbox.rows("emp") == [{"id": "1", "pay": "2"}]
    assert sandbox.rows("dept") == [{"name": "sales"}]


@pytest.mark.parametrize("turned", [False, True])
def test_later_full_load_of_a_row_wins(spark: SparkSession, tmp_path: Path, turned: bool) -> None:
    options = {"timestamp_column": "at"}
    pipeline = {
        "format": "aws_dms",
        "format_options": options,
        "tables": {"hr.emp": {"key": ["id"]}},
    }
    sandbox = Sandbox(spark, tmp_path / "p", pipeline)
    loads = [("2024-10-27 12:00:00", "old"), ("2024-10-28 12:00:00", "new")]
    for number, (at_time, note) in enumerate(reversed(loads) if turned else loads):
        load(sandbox, f"hr/emp/LOAD0000000{number}.csv", f"at,id,note\n{at_time},1,{note}\n")
    assert [row["note"] for row in sandbox.rows("emp")] == ["new"]


def test_files_as_the_s3_target_writes_them_by_default(spark: SparkSession, tmp_path: Path) -> None:
    """No line of names, and an `Op` in changes only."""
    pipeline = {
        "format": "aws_dms",
        "format_options": {"csv_columns": ["Op", "id", "v"]},
        "tables": {"hr.emp": {"key": ["id"]}},
    }
    sandbox = Sandbox(spark, tmp_path / "p", pipeline)
    load(sandbox, "hr/emp/LOAD00000001.csv", "1,a\n2,b\n")
    load(sandbox, "hr/emp/20141029-1134010000.csv", "I,3,c\nU,1,z\nD,2,b\n")
    rows = sandbox.rows("emp")
    assert sorted((row["id"], row["v"]) for row in rows) == [("1", "z"), ("3", "c")]


def test_inserts_alone_come_in_order_of_arrival(spark: SparkSession, tmp_path: Path) -> None:
    """`CdcInsertsOnly` leaves `Op` out of changes too; their files are called as ever."""
    sandbox = Sandbox(spark, tmp_path / "p", {**PIPELINE, "format_options": {}})
    files = {
        "LOAD00000001.csv": "loaded", "20141029-1134010000.csv": "first",
        "20141029-1134020000.csv": "second",
    }  # fmt: skip
    for name in sorted(files):
        load(sandbox, f"hr/emp/{name}", f"id,note\n1,{files[name]}\n")
    assert [row["note"] for row in sandbox.rows("emp")] == ["second"]


def test_the_time_in_the_name_orders_whatever_the_folders_of_dates_begin_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    sandbox = Sandbox(spark, tmp_path / "p", {**PIPELINE, "format_options": {}})
    for name, note in (
        ("01/11/2024/20241101-090000000.csv", "new"), ("27/10/2024/20241027-120000000.csv", "old"),
    ):  # fmt: skip
        load(sandbox, f"hr/emp/{name}", f"Op,id,note\nU,1,{note}\n")
    assert [row["note"] for row in sandbox.rows("emp")] == ["new"]


@pytest.mark.parametrize("named", [True, False])
def test_a_parallel_full_load_has_folders_of_partitions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], named: bool
) -> None:
    """They are sources of the table, or tables that are not listed, which is said."""
    table = {"key": ["id"], **({"sources": ["emp.*"]} if named else {})}
    sandbox = Sandbox(spark, tmp_path / "p", {"format": "aws_dms", "tables": {"hr.emp": table}})
    for number, partition in enumerate(("north", "p2024"), 1):
        load(sandbox, f"dms/hr/emp/{partition}/LOAD00000001.csv", f"id,note\n{number},a\n")
    load(sandbox, "dms/hr/emp/20241027-1.csv", "Op,id,note\nU,2,b\nI,3,c\n")
    loaded = ["1", "2", "3"] if named else ["2", "3"]
    assert sorted(row["id"] for row in sandbox.rows("emp")) == loaded
    expected = "1 record is of emp.north, which `tables:` does not list"
    assert (expected in capsys.readouterr().err) != named
