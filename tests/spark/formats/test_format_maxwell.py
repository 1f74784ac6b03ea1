"""Maxwell JSON: every type, order, keys, full load, and what is no record at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import MaxwellOptions
from spark_jobs.canonical import ALL_BUT
from spark_jobs.formats.maxwell import Maxwell
from tests.spark.envelopes import assert_rejected, at, decode_named, jsonl
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.formats]
# Spelled out, as the vendor's pages have them: the decoder's own list would lose what it loses.
DDL = (
    "database-create", "database-alter", "database-drop",
    "table-create", "table-alter", "table-drop",
)  # fmt: skip
# SeaTunnel, which writes no updates, had the types in upper case.
SEATUNNEL = ("INSERT", "DELETE")
IGNORED = ("bootstrap-start", "bootstrap-complete")
NOT_JSON = {
    "cut": '{"database":"d","table":"t","type":"ins',
    "cut_mark": '{"database":"d","table":"t","type":"bootstrap-start","data":{',
    "mark_of_another_shape": '{"type":"bootstrap-start","table":"t","data":[1]}',
    "encrypted": '{"database":"d","table":"t","type":"insert","xid":1,"data":"bm8="}',
    "deep": '{"type":"insert","data":{"a":' + "[" * 2000 + "]" * 2000 + "}}",
}


def record(kind: str | None, data: Any = None, **more: Any) -> dict[str, Any]:
    """A record on `d.t`: the second row of transaction 90."""
    fields = {"database": "d", "table": "t", "type": kind, "ts": 1477053217, "xid": 90,
              "xoffset": 1, "data": data, "primary_key_columns": ["id"]}  # fmt: skip
    return {name: value for name, value in (fields | more).items() if value is not ...}


ROW = {"id": 1, "v": "a", "n": None}
PLACE = "master.000006:800911"
RECORDS: dict[str, Any] = {
    **{kind: record(kind, ROW) for kind in ("insert", "delete")},
    "update": record("update", ROW, old={"v": "z", "n": 7}),
    "moved": record("update", {"id": 2, "v": "a"}, old={"id": 1}),
    "update_without_old": record("update", ROW),
    "update_without_nulls": record("update", {"id": 1, "v": "a"}, old={}),
    "bootstrap": record("bootstrap-insert", ROW, xid=..., xoffset=...),
    "old_bootstrap": record("insert", ROW, xid=..., xoffset=...),
    "bootstrap_with_xid": record("bootstrap-insert", ROW),
    "row_with_sql": record("insert", ROW, sql="x"),
    **{kind: record(kind, {}, xid=..., xoffset=...) for kind in IGNORED},
    **{kind: {"type": kind, "database": "d", "table": "t", "ts": 1477053217123,
              "sql": f"{kind} x", "def": {"columns": []}, "position": PLACE} for kind in DDL},
    "last": record("insert", ROW, xoffset=..., commit=True),
    "next": record("insert", ROW, xoffset=10),
    "next_transaction": record("insert", ROW, xid=100, xoffset=0),
    "placed": record("insert", ROW, position=PLACE),
    "placed_without_offset": record("insert", ROW, position=PLACE, xoffset=...),
    "next_file": record("insert", ROW, position="master.1000000:4"),
    "numbered_host": record("insert", ROW, position="db2-bin.000006:4"),
    "unplaced": record("insert", ROW, xoffset=...),
    "unplaced_next": record("insert", ROW, xoffset=...),
    "no_key": record("insert", ROW, primary_key_columns=...),
    "empty_key": record("insert", ROW, primary_key_columns=[]),
    "half_key": record("insert", ROW, primary_key_columns=["id", "k"]),
    "exact": json.dumps(record("insert", {"id": 0})).replace(
        '"id": 0', '"id": 18446744073709551615, "x": 1.10, "e": 1e999, "s": ["b", "c"], '
        '"j": {"k": 1.10}, "z": "0000-00-00 00:00:00"'),
    "far_future": record("insert", ROW, ts=9 * 10**18),
    "far_past": record("insert", ROW, ts=-9 * 10**18),
    "far_statement": {"type": "table-drop", "table": "t", "ts": 9 * 10**18, "sql": "x"},
    "unknown": record("merge", ROW), "wrong_case": record("Insert", ROW),
    **{kind: record(kind, ROW) for kind in SEATUNNEL},
    "no_type": record(None, ROW), "other": {"a": 1},
    "no_table": record("insert", ROW, table=...),
    "no_data": record("insert", ...), "empty_data": record("delete", {}),
    "twice": json.dumps(record("insert", {"id": 0})).replace('"id": 0', '"id": 1, "id": 2'),
    "twice_in_old": json.dumps(record("update", ROW, old={"v": 0})).replace(
        '"v": 0', '"v": 1, "v": 2'),
    "bad_xid": record("insert", ROW, xid=-1),
    "bad_xoffset": record("insert", ROW, xoffset=1.5),
    "bad_position": record("insert", ROW, position="master.6"),
    **NOT_JSON,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every record above, decoded in one read, by its name."""
    folder = tmp_path_factory.mktemp("maxwell")
    return decode_named(spark, Maxwell(), folder, RECORDS)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("insert", "insert"), ("bootstrap", "insert"), ("row_with_sql", "insert"),
        ("update", "update"),
        ("delete", "delete"), *((kind, "ddl") for kind in DDL),
        *((kind, kind.lower()) for kind in SEATUNNEL),
    ],
)  # fmt: skip
def test_operations(rows: dict[str, Row], name: str, op: str) -> None:
    row = rows[name]
    assert (row["outcome"], row["op"], row["raw"]) == ("event", op, None)
    assert (row["database"], row["schema"], row["table"]) == ("d", None, "t")
    assert row["ddl"] == (f"{name} x" if op == "ddl" else None)


@pytest.mark.parametrize("kind", IGNORED)
def test_marks_of_a_bootstrap_are_ignored(rows: dict[str, Row], kind: str) -> None:
    row = rows[kind]
    assert (row["outcome"], row["reason"], row["raw"]) == ("ignore", kind, None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "unknown_op:merge"), ("wrong_case", "unknown_op:Insert"),
        ("no_type", "not_an_envelope"), ("other", "not_an_envelope"),
        ("no_table", "table_missing"), ("no_data", "image_missing"),
        ("empty_data", "image_missing"), ("twice", "duplicate_column"),
        ("twice_in_old", "duplicate_column"), ("bad_xid", "bad_xid"),
        ("bad_xoffset", "bad_xoffset"), ("bad_position", "bad_position"),
        *((name, "not_json") for name in NOT_JSON),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, RECORDS[name])


def test_images(rows: dict[str, Row]) -> None:
    """An update has its whole new row in `data`; `old` over it is the old row."""
    row = {"id": "1", "v": "a", "n": None}
    assert (rows["insert"]["before"], rows["insert"]["after"]) == (None, row)
    assert (rows["delete"]["before"], rows["delete"]["after"]) == (row, None)
    assert (rows["update"]["before"], rows["update"]["after"]) == (row | {"v": "z", "n": "7"}, row)
    assert rows["moved"]["before"] == {"id": "1", "v": "a"}
    assert rows["moved"]["after"] == {"id": "2", "v": "a"}
    assert rows["update_without_old"]["before"] is None
    assert rows["update_without_old"]["after"] == row
    assert rows["update_without_nulls"]["before"] is None
    assert rows["update_without_nulls"]["after"] == {"id": "1", "v": "a"}


def test_values_keep_their_text(rows: dict[str, Row]) -> None:
    assert rows["exact"]["after"] == {
        "id": "18446744073709551615", "x": "1.10", "e": "1e999", "s": '["b", "c"]',
        "j": '{"k": 1.10}', "z": "0000-00-00 00:00:00",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("insert", at(90, 0, 1, 0)), ("update", at(90, 0, 1, 1)),
        ("delete", at(90, 0, 1, 2)), ("last", at(90, 1, 0, 0)),
        ("placed", at(6, 800911, 0, 1, 0)),
        ("placed_without_offset", at(6, 800911, 0, 0, 0)),
        ("next_file", at(1000000, 4, 0, 1, 0)), ("numbered_host", at(6, 4, 0, 1, 0)),
        ("bootstrap", at(1477053217, kind=0)), ("old_bootstrap", None),
    ],
)  # fmt: skip
def test_positions(rows: dict[str, Row], name: str, expected: str | None) -> None:
    """The numbers of the log, whether the row commits, the offset, and the kind of change."""
    assert (rows[name]["outcome"], rows[name]["position"]) == ("event", expected)


def test_positions_sort_as_the_log(rows: dict[str, Row]) -> None:
    """Offset 10 after offset 1, the committing row after both, full load below all."""
    ordered = ["bootstrap", "insert", "next", "last", "next_transaction"]
    found = [rows[name]["position"] for name in ordered]
    assert found == sorted(set(found))
    assert rows["placed"]["position"] < rows["next_file"]["position"]


def test_rows_without_a_position_are_ordered_by_arrival_in_their_transaction(
    rows: dict[str, Row],
) -> None:
    """As Maxwell writes by default: the row that commits says so, the others say nothing."""
    row = rows["unplaced"]
    assert (row["outcome"], row["reason"]) == ("event", None)
    assert row["position"].startswith(at(90, 0) + ".")
    assert rows["unplaced"]["position"] < rows["unplaced_next"]["position"]
    assert rows["unplaced_next"]["position"] < rows["last"]["position"]


def test_order_of_arrival_where_it_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    names = ("insert", "unplaced", "placed", "bootstrap")
    file = jsonl(tmp_path / "a.jsonl", [RECORDS[name] for name in names])
    rows = Maxwell().read(spark, (file,), MaxwellOptions(order="arrival")).collect()
    assert {r["outcome"] for r in rows} == {"event"}
    assert [r["position"] for r in rows] == [None, None, None, rows[3]["position"]]
    assert rows[3]["position"].startswith("0.")


@pytest.mark.parametrize(
    ("name", "key"),
    [("insert", ["id"]), ("delete", ["id"]), ("no_key", None), ("empty_key", None),
     ("half_key", None)],
)  # fmt: skip
def test_keys_are_given_or_left_open(rows: dict[str, Row], name: str, key: list[str]) -> None:
    assert rows[name]["key"] == key


def test_times_and_transactions(rows: dict[str, Row]) -> None:
    assert rows["insert"]["source_ts"].timestamp() == 1477053217
    assert rows["table-alter"]["source_ts"].timestamp() == 1477053217.123
    assert rows["bootstrap"]["source_ts"] is None
    for far in ("far_future", "far_past", "far_statement"):
        assert (rows[far]["outcome"], rows[far]["source_ts"]) == ("event", None)
    assert (rows["insert"]["tx_id"], rows["insert"]["transaction"]) == ("90", "90")
    assert rows["bootstrap_with_xid"]["transaction"] is None
    assert (rows["last"]["ends"], rows["insert"]["ends"]) == (True, None)


def change(xid: int, kind: str, data: Any, **more: Any) -> dict[str, Any]:
    """A change of a transaction of its own."""
    return record(kind, data, xid=xid, xoffset=..., commit=True, **more)


HISTORY: list[Any] = [
    record("bootstrap-start", {}, xid=..., xoffset=...),
    *(record("bootstrap-insert", {"id": n, "v": "loaded"}, xid=..., xoffset=...)
      for n in range(1, 5)),
    record("bootstrap-complete", {}, xid=..., xoffset=...),
    change(9, "update", {"id": 1, "v": "b"}, old={"v": "loaded"}),
    change(10, "update", {"id": 1, "v": None}, old={"v": "b"}),
    change(11, "delete", {"id": 2, "v": "loaded"}),
    change(12, "update", {"id": 30, "v": "loaded"}, old={"id": 3}),
    record("insert", {"id": 5, "v": "first"}, xid=13, xoffset=0),
    record("update", {"id": 5, "v": "second"}, old={"v": "first"}, xid=13, xoffset=1),
    record("update", {"id": 5, "v": "last"}, old={"v": "second"}, xid=13, xoffset=..., commit=True),
    '{"database":"d"',
]  # fmt: skip
DEFAULT = [
    record("insert", {"id": 6, "v": "first"}, xid=14, xoffset=...),
    record("update", {"id": 6, "v": "second"}, old={"v": "first"}, xid=14, xoffset=...),
    record("insert", {"id": 7, "v": "gone"}, xid=14, xoffset=...),
    record("delete", {"id": 7, "v": "gone"}, xid=14, xoffset=...),
    record("insert", {"id": 8, "v": "8"}, xid=14, xoffset=..., commit=True),
    record("update", {"id": 8, "v": "newer"}, old={"v": "8"}, xid=15, xoffset=...),
    record("update", {"id": 6, "v": "third"}, old={"v": "x"}, xid=15, xoffset=..., commit=True),
]


def test_every_row_of_a_transaction_as_written_by_default(
    spark: SparkSession, tmp_path: Path
) -> None:
    sandbox = Sandbox(spark, tmp_path, {"format": "maxwell", "table_name": "{table}"})
    sandbox.load_records([*DEFAULT[5:], *DEFAULT[:5]])
    assert sorted((r["id"], r["v"]) for r in sandbox.rows("t")) == [("6", "third"), ("8", "newer")]


def test_rows_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """The same rows from two orders, cut into batches, with a repetition."""
    pipeline = {"format": "maxwell", "table_name": "{database}_{table}"}
    expected = [(1, None), (4, "loaded"), (5, "last"), (30, "loaded")]
    for name, history, cut in (("forth", HISTORY, 8), ("back", HISTORY[::-1], 6)):
        sandbox = Sandbox(spark, tmp_path / name, pipeline)
        sandbox.load_halves(history, cut, again=2)
        assert sorted((int(r["id"]), r["v"]) for r in sandbox.rows("d_t")) == expected
        assert {r["reason"] for r in sandbox.quarantined()} == {"not_json"}


def test_an_old_value_that_is_left_out_for_being_null_is_not_the_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`output_nulls=false`: which row of a table without a key was updated nobody tells."""
    sandbox = Sandbox(spark, tmp_path, {"format": "maxwell", "tables": {"d.t": {"key": []}}})
    told = record("insert", {"a": 5, "b": 1}), record("insert", {"b": 1}, xoffset=2)
    sandbox.load_records([*told, change(91, "update", {"a": 5, "b": 1}, old={})])
    assert sorted(row["a"] or "" for row in sandbox.rows("t")) == ["", "5"]
    assert [bad["detail"] for bad in sandbox.quarantined()] == ["old_row_missing"]


def test_of_rows_that_are_logged_in_part_an_insert_lacks_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It has no earlier value to keep; a delete has no new row."""
    records = {name: RECORDS[name] for name in ("insert", "update", "delete")}
    rows = decode_named(spark, Maxwell(), tmp_path, records, row_image="partial")
    named = [ALL_BUT, "id", "v", "n"]
    lacking = [(rows[name]["absent"], rows[name]["old_absent"]) for name in records]
    assert lacking == [(None, None), (named, named), (None, named)]


def test_values_of_a_json_column(spark: SparkSession, tmp_path: Path) -> None:
    """Of MySQL's, written as they are, strings lose their quotes and null is NULL; of MariaDB's,
    which is a text, both are whole."""
    raw = (
        '"abc"', '"5"', "5", "null", "true", '{"a": [1.10, null]}', '[1, "b"]', '"\\"x\\""',
        '"null"',
    )  # fmt: skip
    lines = [json.dumps(record("insert", {"id": 0})).replace('"id": 0', f'"j": {v}') for v in raw]
    named = dict(zip(raw, lines, strict=True))
    found = decode_named(spark, Maxwell(), tmp_path, named)
    assert [found[value]["after"]["j"] for value in raw] == [
        "abc", "5", "5", None, "true", '{"a": [1.10, null]}', '[1, "b"]', '"x"', "null",
    ]  # fmt: skip
