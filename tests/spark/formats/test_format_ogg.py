"""Oracle GoldenGate JSON: every operation, partial rows, order, keys, and what is no record."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_jobs.canonical import ALL_BUT
from spark_jobs.formats.ogg import GoldenGate
from tests.spark.envelopes import assert_rejected, at, decode_named
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.formats]
NOT_JSON = {
    "cut": '{"table":"S.T","op_type":"I","aft',
    "after_is_a_list": '{"table":"S.T","op_type":"I","after":[1]}',
    "deep": '{"op_type":"I","after":{"A":' + "[" * 2000 + "]" * 2000 + "}}",
}


def record(op: str | None, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    """A record on `S.T` at place 143."""
    fields = {"table": "S.T", "op_type": op, "op_ts": "2020-05-13 17:26:27.936000",
              "pos": "00000000000000000000143", "primary_keys": ["ID"],
              "before": before, "after": after}  # fmt: skip
    return {name: value for name, value in (fields | more).items() if value is not ...}


ROW = {"ID": 1, "A": "a", "N": None}
RECORDS: dict[str, Any] = {
    "insert": record("I", None, ROW), "delete": record("D", ROW), "truncate": record("T"),
    "update": record("U", {"ID": 1, "A": "z", "M": "m", "L": None}, {"ID": 1, "A": "a", "N": None}),
    "update_alone": record("U", None, ROW), "moved": record("U", {"ID": 1}, {"ID": 2}),
    "next": record("I", None, ROW, pos="1000"), "far": record("I", None, ROW, pos="9" * 40),
    "unplaced": record("I", None, ROW, pos=...),
    "three_names": record("I", None, ROW, table='DB.S."a.b"'),
    "no_key": record("I", None, ROW, primary_keys=...),
    "empty_key": record("I", None, ROW, primary_keys=[]),
    "half_key": record("I", None, ROW, primary_keys=["ID", "K"]),
    "key_twice": record("I", None, ROW, primary_keys=["ID", "ID"]),
    "exact": json.dumps(record("I", None, {"ID": 0})).replace(
        '"ID": 0', '"ID": 12345678901234567890.123456789, "X": 1.10, "E": 1e999'),
    "unknown": record("K", None, ROW), "wrong_case": record("i", None, ROW),
    "no_op": record(None, None, ROW), "other": {"a": 1},
    "no_table": record("T", table=...), "bad_table": record("T", table="S..T"),
    "no_after": record("I", ROW), "update_without_after": record("U", ROW),
    "no_before": record("D", None, ROW), "empty": record("I", None, {}),
    "twice": json.dumps(record("I", None, {"ID": 0})).replace('"ID": 0', '"ID": 1, "ID": 2'),
    "twice_before": json.dumps(record("U", {"ID": 0}, ROW)).replace('"ID": 0', '"ID": 1, "ID": 2'),
    "twice_after": json.dumps(record("U", ROW, {"ID": 0})).replace('"ID": 0', '"ID": 1, "ID": 2'),
    "bad_pos": record("I", None, ROW, pos="0x8f"),
    "below_one": record("I", None, ROW, pos="00000000-20000001391"),
    "negative_pos": record("I", None, ROW, pos="-1391"),
    "flagged": record("U", {"ID": 1, "ID_isMissing": False, "P": 5, "P_isMissing": False},
                      {"ID": 1, "ID_isMissing": False, "P": None, "P_isMissing": True,
                       "N": None, "N_isMissing": False, "ODD_isMissing": True}),
    "flagged_before": record("D", {"ID": 1, "ID_isMissing": False, "P": None,
                                   "P_isMissing": True, "ODD_isMissing": True}),
    "wrapped": {"schema": {"type": "struct", "name": "S.T"},
                "payload": record("U", {"ID": 1, "A": "z"}, {"ID": 1, "A": "a"})},
    "wrapped_unknown": {"schema": {}, "payload": record("K", None, ROW)},
    "wrapped_nothing": {"schema": {}, "payload": None},
    **NOT_JSON,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every record above, decoded in one read, by its name."""
    folder = tmp_path_factory.mktemp("ogg")
    return decode_named(spark, GoldenGate(), folder, RECORDS)


@pytest.mark.parametrize(
    ("name", "op"),
    [("insert", "insert"), ("update", "update"), ("update_alone", "update"),
     ("delete", "delete"), ("truncate", "truncate")],
)  # fmt: skip
def test_operations(rows: dict[str, Row], name: str, op: str) -> None:
    row = rows[name]
    assert (row["outcome"], row["op"], row["raw"]) == ("event", op, None)
    assert (row["database"], row["schema"], row["table"]) == (None, "S", "T")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "unknown_op:K"), ("wrong_case", "unknown_op:i"),
        ("no_op", "not_an_envelope"), ("other", "not_an_envelope"),
        ("no_table", "table_missing"), ("bad_table", "bad_table"), ("no_after", "image_missing"),
        ("update_without_after", "image_missing"), ("no_before", "image_missing"),
        ("empty", "image_missing"), ("twice", "duplicate_column"),
        ("twice_before", "duplicate_column"), ("twice_after", "duplicate_column"),
        ("bad_pos", "bad_pos"), ("below_one", "bad_pos"), ("negative_pos", "bad_pos"),
        ("wrapped_unknown", "unknown_op:K"), ("wrapped_nothing", "not_an_envelope"),
        *((name, "not_json") for name in NOT_JSON),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, RECORDS[name])


def test_images(rows: dict[str, Row]) -> None:
    """NULL in `after` is NULL; NULL in `before` says nothing of the new row."""
    row = {"ID": "1", "A": "a", "N": None}
    insert, update, delete = (rows[name] for name in ("insert", "update", "delete"))
    assert (insert["before"], insert["after"], insert["absent"]) == (None, row, None)
    assert (delete["before"], delete["after"], delete["absent"]) == (row, None, None)
    assert update["before"] == {"ID": "1", "A": "z", "M": "m", "L": None}
    assert update["after"] == row | {"M": "m", "L": None}
    assert update["absent"][0] == ALL_BUT
    assert set(update["absent"][1:]) == {"ID", "A", "N", "M"}
    assert (rows["update_alone"]["before"], rows["update_alone"]["after"]) == (None, row)
    assert rows["update_alone"]["absent"] == [ALL_BUT, "ID", "A", "N"]
    assert (rows["moved"]["before"], rows["moved"]["after"]) == ({"ID": "1"}, {"ID": "2"})


def test_a_column_that_is_flagged_as_missing_is_absent(rows: dict[str, Row]) -> None:
    row = rows["flagged"]
    assert row["before"] == {"ID": "1", "P": "5"}
    assert row["after"] == {"ID": "1", "P": "5", "N": None, "ODD_isMissing": "true"}
    assert set(row["absent"]) == {ALL_BUT, "ID", "P", "N", "ODD_isMissing"}
    assert row["old_absent"] is None
    gone = rows["flagged_before"]
    assert (gone["before"], gone["old_absent"]) == ({"ID": "1", "ODD_isMissing": "true"}, ["P"])


def test_kafka_connect_wraps_the_same(rows: dict[str, Row]) -> None:
    row = rows["wrapped"]
    assert (row["outcome"], row["op"], row["position"]) == ("event", "update", at(143))
    assert (row["schema"], row["table"], row["key"]) == ("S", "T", ["ID"])
    assert (row["before"], row["after"]) == ({"ID": "1", "A": "z"}, {"ID": "1", "A": "a"})


def test_values_keep_their_text(rows: dict[str, Row]) -> None:
    assert rows["exact"]["after"] == {
        "ID": "12345678901234567890.123456789",
        "X": "1.10",
        "E": "1e999",
    }


def test_positions_are_numbers_of_any_length(rows: dict[str, Row]) -> None:
    assert rows["insert"]["position"] == at(143)
    found = [rows[name]["position"] for name in ("insert", "next", "far")]
    assert found == sorted(set(found))
    assert (rows["unplaced"]["outcome"], rows["unplaced"]["position"]) == ("event", None)


@pytest.mark.parametrize(
    ("name", "key"),
    [("insert", ["ID"]), ("delete", ["ID"]), ("update", ["ID"]), ("no_key", None),
     ("empty_key", None), ("half_key", None), ("key_twice", ["ID"]), ("truncate", None)],
)  # fmt: skip
def test_keys_are_given_or_left_open(rows: dict[str, Row], name: str, key: list[str]) -> None:
    assert rows[name]["key"] == key


def test_names_and_times(rows: dict[str, Row]) -> None:
    row = rows["three_names"]
    assert (row["database"], row["schema"], row["table"]) == ("DB", "S", "a.b")
    expected = datetime(2020, 5, 13, 17, 26, 27, 936000, tzinfo=UTC).timestamp()
    assert row["source_ts"].timestamp() == expected


HISTORY: list[Any] = [
    record("I", None, {"ID": 9, "A": "gone"}, pos="1"),
    record("T", pos="2"),
    *(record("I", None, {"ID": n, "A": "a", "B": "b"}, pos=str(2 + n)) for n in range(1, 5)),
    record("U", {"ID": 1, "A": "a"}, {"ID": 1, "A": "c"}, pos="10"),
    record("U", {"ID": 1}, {"ID": 1, "B": None}, pos="11"),
    record("D", {"ID": 2}, pos="12"),
    record("U", {"ID": 3, "A": "a", "B": "b"}, {"ID": 30, "A": "a"}, pos="13"),
    record("U", {"ID": 4, "A": "a"}, {"ID": 4, "A": "d", "B": None, "B_isMissing": True}, pos="14"),
    '{"table":"S.T"',
]


def test_rows_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """The same rows from two orders, cut into batches, with a repetition."""
    pipeline = {"format": "ogg", "table_name": "{schema}_{table}"}
    expected = [(1, "c", None), (4, "d", "b"), (30, "a", "b")]
    for name, history, cut in (("forth", HISTORY, 7), ("back", HISTORY[::-1], 6)):
        sandbox = Sandbox(spark, tmp_path / name, pipeline)
        sandbox.load_halves(history, cut, again=2)
        assert sorted((int(r["ID"]), r["A"], r["B"]) for r in sandbox.rows("S_T")) == expected
        assert {r["reason"] for r in sandbox.quarantined()} == {"not_json"}


@pytest.mark.parametrize("at_once", [True, pytest.param(False, marks=pytest.mark.long)])
def test_places_that_trails_share_move_no_values(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """At a place of two trails one's delete is no half of the other's update."""
    table = {"modes": ["current", "history"]}
    lake = Sandbox(spark, tmp_path, {"format": "ogg", "tables": {"S.T": table}}).driven(monkeypatch)
    records = [
        *(record("I", None, {"ID": n, "A": f"{n}", "B": "b"}, pos=f"{n}") for n in range(1, 4)),
        record("D", {"ID": 1}, pos="50"),
        record("U", {"ID": 2}, {"ID": 2, "B": "c"}, pos="50"),
        record("U", {"ID": 3}, {"ID": 4, "B": "d"}, pos="50"),
    ]
    for number, batch in enumerate([records] if at_once else [[line] for line in records]):
        lake.write(f"{number}.jsonl", batch)
        lake.run()
    expected = [{"ID": "2", "A": "2", "B": "c"}, {"ID": "4", "A": "3", "B": "d"}]
    assert sorted(lake.rows("T"), key=lambda row: row["ID"]) == expected
    newest = [row for row in lake.rows("T__history") if row["_is_current"]]
    found = [{name: row[name] for name in ("ID", "A", "B")} for row in newest]
    assert sorted(found, key=lambda row: row["ID"]) == expected
    assert lake.agrees()


def test_an_initial_load_ranks_below_every_change(spark: SparkSession, tmp_path: Path) -> None:
    """Its trail has the number -1; of two loads of a row the later one wins, wherever it stands."""
    times = {"op_ts": "2020-05-14 00:00:00.000000"}
    loaded = [
        record("U", {"ID": 1, "A": "a"}, {"ID": 1, "A": "changed"}, pos="00000000000000001742"),
        record("I", None, {"ID": 1, "A": "a"}, pos="00000000-10000001391"),
        record("I", None, {"ID": 2, "A": "again"}, pos="00000000-10000001400", **times),
        record("I", None, {"ID": 2, "A": "first"}, pos="00000000-10000009999"),
        record("I", None, {"ID": 3, "A": "later"}, pos="00000000-11000000000"),
        record("I", None, {"ID": 3, "A": "sooner"}, pos="00000000-10999999999"),
    ]
    sandbox = Sandbox(spark, tmp_path, {"format": "ogg"})
    sandbox.load_records(loaded)
    assert sorted((r["ID"], r["A"]) for r in sandbox.rows("T")) == [
        ("1", "changed"), ("2", "again"), ("3", "later"),
    ]  # fmt: skip
