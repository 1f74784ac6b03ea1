"""DataHub Tuple: operations by their flags, order, names, exact values, and what is no record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import DatahubTupleOptions
from spark_jobs.formats.datahub_tuple import DatahubTuple
from tests.spark.envelopes import assert_event, assert_rejected, at, decode_named, fold, jsonl
from tests.spark.tuple_records import record, without

DEFAULTS = DatahubTupleOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]
RECORDS: dict[str, Any] = {
    "insert": record("I", n=None),
    "old": record("old"),
    "new": record("new"),
    "delete": record("D"),
    # order
    "full_load": record("I", "-1"),
    "full_load_without_time": record("I", "-1", _execute_time_=-1),
    "as_number": record("I", 1649991610688000001),
    "zeros": record("I", "0005"),
    "long": record("I", "9" * 40),
    "no_sequence": record("I", None),
    # times and names
    "excute": without("_execute_time_") | {"_excute_time_": "1649991726001"},
    "micros": record("I", _execute_time_=1649991726000001),
    "nanos": record("I", _execute_time_=1649991726000001999),
    "beyond": record("I", _execute_time_="9" * 18),
    "too_many_digits": record("I", _execute_time_="9" * 20),
    "year_of_many_digits": record("I", _execute_time_="99999-01-01 00:00:00"),
    **{f"full_load_{n}": record("I", "-1", _execute_time_=time)
       for n, time in enumerate(("2022-04-15 03:02:06.000", "2022-04-15T11:02:06+08:00",
                                 1649991726000000, 1649991726000000000))},
    "full_load_later": record("I", "-1", _execute_time_="2022-04-15 03:02:07"),
    "as_text": record("I", _execute_time_="2022-04-15 03:02:06.5"),
    "no_time": record("I", _execute_time_="soon"),
    "time_of_day": record("I", _execute_time_="03:02:06"),
    "time_of_day_in_the_west": record("I", _execute_time_="03:02:06-05:00"),
    "default_table": without("_source_table_"),
    "empty_table": record("I", _source_table_=""),
    # values
    "exact": json.dumps(record("I", n=0)).replace(
        '"n": 0', '"n": 12345678901234567890.10, "e": 1e999, "o": {"k": [1.10]}, "s": ""'),
    "odd_names": record("I", **{"file": "f", "a.b`c": 1, "row": 2, "meta": 3, "key": 4,
                                "_corrupt_record": 5, "_SEQUENCE_ID_": 6}),
    # what is no record
    "wrong_case": record("i"),
    "unknown": record("REPLACE"),
    "no_op": without("_operation_type_") | {"_before_image_": None},
    "new_by_its_flags": without("_operation_type_", "new"),
    "old_by_its_flags": without("_operation_type_", "old"),
    "no_flags": record("U", _before_image_=None, _after_image_=None),
    "one_flag": without("_before_image_", "new"),
    "both_flags": record("U", _before_image_="Y", _after_image_="Y"),
    "flags_without_an_op": without("_operation_type_") | {"_before_image_": "Y"},
    "inserted_before": record("I", _before_image_="Y", _after_image_="N"),
    "deleted_after": record("D", _before_image_="N", _after_image_="Y"),
    "file_and_offset": record("I", "mysql-bin.000001:4"),
    "rounded": record("I", 1.6499916106880000e18),
    "below_full_load": record("I", "-2"),
    "twice": json.dumps(record("I")).replace('"id": 1', '"id": 1, "id": 2'),
    "cut": '{"_sequence_id_": "5", "_oper',
    "array": "[1]",
    "text": '"x"',
    "empty": "{}",
    "no_flags_but_insert": record("I", _before_image_=None, _after_image_=None),
    "no_flags_but_delete": record("D", _before_image_=None, _after_image_=None),
    "deep": json.dumps(record("I", x=0)).replace('"x": 0', '"x": ' + "[" * 300 + "]" * 300),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every record above, decoded in one read, by its name."""
    folder = tmp_path_factory.mktemp("tuple")
    return decode_named(spark, DatahubTuple(), folder, RECORDS, table="fallback")


def data(row: Row) -> dict[str, str]:
    """The values that an image has, for a row has NULL in every other column of the batch."""
    return {name: text for name, text in (row["after"] or row["before"]).items() if text}


@pytest.mark.parametrize(
    ("name", "op", "image"),
    [
        ("insert", "insert", "after"), ("old", "delete", "before"),
        ("new", "update_after", "after"),
        ("delete", "delete", "before"), ("no_flags_but_insert", "insert", "after"),
        ("no_flags_but_delete", "delete", "before"),
        ("new_by_its_flags", "update_after", "after"), ("old_by_its_flags", "delete", "before"),
    ],
)  # fmt: skip
def test_operations(rows: dict[str, Row], name: str, op: str, image: str) -> None:
    row = rows[name]
    assert_event(row, op)
    assert data(row) == {"id": "1"}
    assert row["before" if image == "after" else "after"] is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wrong_case", "unknown_op:i"), ("unknown", "unknown_op:REPLACE"),
        ("no_op", "not_an_envelope"), ("empty", "not_an_envelope"),
        ("no_flags", "image_flags_missing"), ("one_flag", "image_flags_missing"),
        ("both_flags", "bad_image_flags"), ("flags_without_an_op", "bad_image_flags"),
        ("inserted_before", "bad_image_flags"),
        ("deleted_after", "bad_image_flags"), ("file_and_offset", "bad_sequence_id"),
        ("rounded", "bad_sequence_id"), ("below_full_load", "bad_sequence_id"),
        ("twice", "duplicate_column"), ("cut", "not_json"), ("array", "not_json"),
        ("text", "not_json"),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, RECORDS[name])


def test_a_record_of_no_table_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "e.jsonl", [without("_source_table_")])
    row = DatahubTuple().read(spark, (file,), DEFAULTS).first()
    assert row is not None
    assert (row["outcome"], row["reason"]) == ("reject", "table_missing")
    assert json.loads(row["raw"])["row"] == {"id": "1"}


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("insert", at(5)), ("old", at(5)), ("new", at(5)), ("delete", at(5)), ("zeros", at(5)),
        ("as_number", at(1649991610688000001)), ("long", at("9" * 40)),
        *((name, at(1649991726000000, kind=0)) for name in (
            "full_load", *(f"full_load_{n}" for n in range(4)))),
        ("full_load_later", at(1649991727000000, kind=0)), ("full_load_without_time", "0.010"),
        ("no_sequence", None),
    ],
)  # fmt: skip
def test_positions_are_sequence_ids(rows: dict[str, Row], name: str, position: str) -> None:
    assert rows[name]["position"] == position
    assert rows[name]["event_id"] == (
        None if name.startswith("full") else RECORDS[name]["_sequence_id_"] and
        str(RECORDS[name]["_sequence_id_"])
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("insert", 1649991726), ("excute", 1649991726.001), ("micros", 1649991726.000001),
        ("as_text", 1649991726.5), ("no_time", None), ("time_of_day", None),
        ("time_of_day_in_the_west", None),
        ("full_load_without_time", None),
        ("nanos", 1649991726.000001), ("beyond", None), ("too_many_digits", None),
        ("year_of_many_digits", None),
    ],
)  # fmt: skip
def test_times(rows: dict[str, Row], name: str, seconds: float | None) -> None:
    found = rows[name]["source_ts"]
    assert (found and found.timestamp()) == seconds


@pytest.mark.parametrize(
    ("name", "table"),
    [("insert", "t"), ("default_table", "fallback"), ("empty_table", "fallback")],
)
def test_tables(rows: dict[str, Row], name: str, table: str) -> None:
    assert (rows[name]["database"], rows[name]["schema"]) == (None, None)
    assert (rows[name]["table"], rows[name]["key"], rows[name]["types"]) == (table, None, None)


def test_images_keep_null_and_exact_text(rows: dict[str, Row]) -> None:
    assert rows["exact"]["after"]["s"] == ""
    assert data(rows["exact"]) == {
        "id": "1", "n": "12345678901234567890.10", "e": "1e999", "o": '{"k": [1.10]}',
    }  # fmt: skip
    assert rows["insert"]["after"]["n"] is None
    assert data(rows["deep"])["x"] == "[" * 300 + "]" * 300


def test_data_columns_may_have_any_name(rows: dict[str, Row]) -> None:
    assert_event(rows["odd_names"], "insert")
    assert data(rows["odd_names"]) == {
        "id": "1", "file": "f", "a.b`c": "1", "row": "2", "meta": "3", "key": "4",
        "_corrupt_record": "5", "_SEQUENCE_ID_": "6",
    }  # fmt: skip


def test_a_row_has_the_columns_of_its_table_each_once(spark: SparkSession, tmp_path: Path) -> None:
    """A column is one in any case, and another table's is none of this row's."""
    records = {
        "upper": record("I", Name="a"), "lower": record("I", name="b"),
        "both": record("I", Name="a", name="b"), "other": record("I", _source_table_="u", x=1),
    }  # fmt: skip
    rows = decode_named(spark, DatahubTuple(), tmp_path, records)
    assert rows["upper"]["after"] == {"id": "1", "name": "a"}
    assert rows["lower"]["after"] == {"id": "1", "name": "b"}
    assert rows["other"]["after"] == {"id": "1", "x": "1"}
    assert_rejected(rows["both"], "duplicate_column", records["both"])


def test_a_tables_columns_have_its_own_case(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever the case of another table's in the batch; NULL in all rows is a column too."""
    records = {
        "upper": record("I", _source_table_="BIZ.T", ID=1, NOTE=None, _sequence_id_="6"),
        "lower": record("I", _source_table_="shop.t", note="b"),
    }  # fmt: skip
    del records["upper"]["id"]
    rows = decode_named(spark, DatahubTuple(), tmp_path, records)
    assert rows["upper"]["after"] == {"ID": "1", "NOTE": None}
    assert rows["lower"]["after"] == {"id": "1", "note": "b"}


def test_another_table_far_behind_the_first_lines_has_its_own_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first lines alone do not show that a file has rows of several tables."""
    records = {f"{n}": record("I", f"{n}", v="a") for n in range(120)}
    records["other"] = record("I", "200", _source_table_="u", x=1)
    rows = decode_named(spark, DatahubTuple(), tmp_path, records)
    assert rows["0"]["after"] == {"id": "1", "v": "a"}
    assert rows["other"]["after"] == {"id": "1", "x": "1"}


@pytest.mark.parametrize("turned", [False, True])
def test_an_update_is_two_records(spark: SparkSession, tmp_path: Path, turned: bool) -> None:
    """By the flags the old half goes first, whatever comes first in the file."""
    halves = [
        record("I", "1", id=1, v="a"), record("old", "2", id=1, v="a"),
        record("new", "2", id=1, v="b"), record("I", "9", id=2, v="c"),
        record("old", "10", id=2, v="c"), record("new", "10", id=3, v="c"),
    ]  # fmt: skip
    file = jsonl(tmp_path / "e.jsonl", reversed(halves) if turned else halves)
    decoded = DatahubTuple().read(spark, (file,), DEFAULTS).collect()
    assert fold(decoded, ["id"]) == {
        ("1",): {"id": "1", "v": "b"},
        ("3",): {"id": "3", "v": "c"},
    }


def test_the_vendors_example(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    """The table has no `_source_table_` and no data columns."""
    text = (fixtures / "seed-examples/datahub-tuple/01-insert-update-delete-table.txt").read_text()
    cells = text.split()
    names, values = cells[:5], cells[5:]
    records = [dict(zip(names, values[i : i + 5], strict=True)) for i in range(0, len(values), 5)]
    file = jsonl(tmp_path / "example.jsonl", records)
    decoded = DatahubTuple().read(spark, (file,), DatahubTupleOptions(table="t")).collect()
    base = 1649991610688000000
    assert [(r["outcome"], r["op"], r["position"]) for r in decoded] == [
        ("event", "insert", at(base)), ("event", "delete", at(base + 1)),
        ("event", "update_after", at(base + 1)), ("event", "delete", at(base + 2)),
    ]  # fmt: skip
    assert [r["source_ts"].timestamp() for r in decoded] == [
        1649991726, 1649991756, 1649991756, 1649991774,
    ]  # fmt: skip


def test_blank_lines_do_not_move_a_mark(spark: SparkSession, tmp_path: Path) -> None:
    """Of lines that name a column twice only those are rejected, wherever they stand."""
    twice = json.dumps(record("I", "2")).replace('"id": 1', '"id": 1, "id": 2')
    file = jsonl(tmp_path / "e.jsonl", ["", record("I", "1"), " ", "", twice, record("I", "3")])
    decoded = DatahubTuple().read(spark, (file,), DEFAULTS).collect()
    assert {r["position"]: r["outcome"] for r in decoded} == {
        at(1): "event", at(2): "reject", at(3): "event",
    }  # fmt: skip


def test_files_without_a_record(spark: SparkSession, tmp_path: Path) -> None:
    for lines in ([], ["{", "x"]):
        file = jsonl(tmp_path / "e.jsonl", lines)
        decoded = DatahubTuple().read(spark, (file,), DEFAULTS).collect()
        assert [r["reason"] for r in decoded] == ["not_json"] * len(lines)
