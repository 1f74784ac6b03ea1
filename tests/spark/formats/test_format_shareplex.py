"""SharePlex JSON: every operation, partial rows, order, names, and what is no record at all."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import FormatOptions
from sluice.positions import encode_number
from spark_jobs.canonical import ALL_BUT
from spark_jobs.formats.shareplex import SharePlex
from tests.spark.envelopes import assert_rejected, at, decode_named, jsonl
from tests.spark.sandbox import Sandbox
from tests.spark.shareplex_records import change, record

DEFAULTS = FormatOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]
DEEP = '{"meta": {"op": "ins", "table": "O.T"}, "data": {"ID": ' + "[" * 2000 + "]" * 2000 + "}}"
NOT_JSON = {
    "cut": '{"meta": {"op": "ins", "table": "O.',
    "bare_word": '{"meta": {"op": "upd" ….}, "data": {"ID": "1"}}',
    "trailing_comma": '{"meta": {"op": "del",}, "data": {"ID": "1"}}',
    "data_is_a_list": '{"meta": {"op": "ins", "table": "O.T"}, "data": [{"ID": "1"}]}',
    "commit_with_a_list": '{"meta": {"op": "commit"}, "data": [{"ID": "1"}]}',
    "meta_is_text": '{"meta": "ins", "data": {"ID": "1"}}',
    "deep": DEEP,
}
ROW = {"ID": "1", "A": "a", "N": None}
# Oracle's options of a TRUNCATE, which leave it one of the whole table.
MANNERS = (
    "drop storage", "reuse storage", "reuse  all storage", "preserve materialized view log",
    "purge materialized view log", "purge materialized view log reuse storage cascade",
)  # fmt: skip
RECORDS: dict[str, Any] = {
    **{op: record(op, ROW) for op in ("ins", "INSERT", "del", "DELETE", "upd before",
                                      "UPDATE BEFORE", "upd after", "UPDATE AFTER")},
    "upd": record("upd", {"A": "b", "B": None}, {"ID": "1", "A": "a", "N": None, "M": "m"}),
    "UPDATE": record("UPDATE", {"ID": "2"}, {"ID": "1"}),
    "nothing_changed": record("upd", {}, {"ID": "1", "N": None}),
    "del_by_key": record("del", key={"ID": "1"}),
    "truncate": record("TRUNCATE"),
    "ddl": record("ddl") | {"sql": {"ddl": "alter table O.T add (C number(3))"}},
    "ddl_text": record("DDL") | {"ddl": "create table O.T (ID number)"},
    "ddl_truncate": record("ddl") | {"ddl": 'truncate table O."T" drop all storage'},
    **{manner: record("ddl") | {"ddl": f"truncate table O.T {manner}"} for manner in MANNERS},
    "ddl_truncate_cluster": record("ddl") | {"ddl": "truncate cluster T"},
    "ddl_truncate_part": record("ddl") | {"ddl": "alter table O.T truncate partition P"},
    "ddl_without_table": record("ddl", table=...) | {"ddl": "create role R"},
    "drop_column": record("DROP COLUMN", {"C": None}),
    "drop_column_bare": record("drop column"),
    "commit": {"meta": {"op": "commit", "scn": "100", "trans": "7.0.4"}},
    "commit_of_nothing": {"meta": {"op": "commit", "trans": "7.0.4"}, "data": {}, "key": {}},
    "commit_with_row": record("commit", ROW),
    "exact": json.dumps(record("ins", {"ID": 0})).replace(
        '"ID": 0', '"ID": 12345678901234567890.123456789, "X": 1.10, "E": 1e999, "L": {"k": 1.10}'),
    "unknown": record("MERGE", ROW),
    "no_op": record(None, ROW),
    "other": {"a": 1},
    "no_table": record("ins", ROW, table=...),
    "truncate_of_nothing": record("truncate", table=...),
    "one_name": record("ins", ROW, table="T"),
    "three_names": record("ins", ROW, table="DB.O.T"),
    "quoted": record("ins", ROW, table='"my.owner"."a table"'),
    **{f"table_{n}": record("ins", ROW, table=t)
       for n, t in enumerate(("", "O.", ".T", "O..T", 'O."T', "A.B.C.D"))},
    "no_data": record("ins"),
    "key_alone": record("upd", key={"ID": "1"}),
    "empty_data": record("ins", {}),
    "nothing_deleted": record("del"),
    "twice": json.dumps(record("ins", {"ID": 0})).replace('"ID": 0', '"ID": "1", "ID": "2"'),
    "twice_changed": json.dumps(record("upd", {"A": 0}, {"ID": "1"})).replace(
        '"A": 0', '"A": "1", "A": "2"'),
    "twice_in_key": json.dumps(record("upd", {"A": "1"}, {"ID": 0})).replace(
        '"ID": 0', '"ID": "1", "ID": "2"'),
    "twice_in_meta": json.dumps(record("ins", ROW)).replace('"seq": 2', '"seq": 2, "seq": 3'),
    **{f"bad_{name}_{n}": record("ins", ROW, **{name: value})
       for name, values in {
           "scn": ("0x1F", "-1", "9" * 100), "seq": ("1/3", 1.5), "idx": ("2", "2/", "a/b"),
       }.items() for n, value in enumerate(values)},
    "late_scn": record("ins", ROW, scn="9" * 40),
    "early_scn": record("ins", ROW, scn="99"),
    "next_seq": record("ins", ROW, seq=10, idx="10/11"),
    "next_trans": record("ins", ROW, trans="7.0.10"),
    "other_idx": record("ins", ROW, idx="3/3"),
    "blanks": record("ins", ROW, scn=" 100", trans="7.0.4 ", seq="2 ", idx=" 2/3 "),
    "empty_seq": record("ins", ROW, seq=" "),
    "empty_scn": record("ins", ROW, scn=""),
    "empty_trans": record("ins", ROW, trans=""),
    "half_of_many_digits": record("upd after", ROW, seq="9" * 40),
    "first_half": record("upd after", ROW, seq=0),
    **{f"truncate_{n}": record("truncate", seq=..., idx=..., **more)
       for n, more in enumerate(({}, {"trans": ...}, {"scn": ...}))},
    "ddl_unnumbered": record("ddl", seq=..., idx=...) | {"ddl": "alter table O.T add (C date)"},
    **{f"trans_{n}": record("ins", ROW, trans=trans)
       for n, trans in enumerate(("7.0.4.1", "7..4", "0x0007.000.00064"))},
    "del_by_both": record("del", {"A": "a", "N": "n"}, {"ID": "1", "N": None}),
    "del_by_key_beside_nothing": record("del", {}, {"ID": "1"}),
    "no_scn": record("ins", ROW, scn=...),
    "no_trans": record("ins", ROW, trans=...),
    "plain_trans": record("ins", ROW, trans=731),
    "no_seq": record("ins", ROW, seq=...),
    "no_idx": record("ins", ROW, idx=...), "no_seq_nor_idx": record("ins", ROW, seq=..., idx=...),
    "repeated": record("ins", ROW, posttime="2030-01-01T00:00:00", userid=1),
    "zoned": record("ins", ROW, time="2017-06-16T14:24:34Z"),
    "bad_time": record("ins", ROW, time="yesterday"), "no_day": record("ins", ROW, time="10:00"),
    "no_year": record("ins", ROW, time="99999-06-16T15:38:13"),
    **NOT_JSON,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every record above, decoded in one read, by its name."""
    folder = tmp_path_factory.mktemp("shareplex")
    return decode_named(spark, SharePlex(), folder, RECORDS)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("ins", "insert"), ("INSERT", "insert"), ("upd", "update"), ("UPDATE", "update"),
        ("upd after", "update_after"), ("UPDATE AFTER", "update_after"),
        ("nothing_changed", "update"), ("del", "delete"), ("DELETE", "delete"),
        ("del_by_key", "delete"), ("upd before", "delete"), ("UPDATE BEFORE", "delete"),
        ("truncate", "truncate"), ("ddl", "ddl"), ("ddl_text", "ddl"),
        ("ddl_truncate", "truncate"), *((manner, "truncate") for manner in MANNERS),
        ("ddl_truncate_cluster", "ddl"), ("ddl_truncate_part", "ddl"),
        ("ddl_without_table", "ddl"), ("drop_column", "ddl"), ("drop_column_bare", "ddl"),
    ],
)  # fmt: skip
def test_operations(rows: dict[str, Row], name: str, op: str) -> None:
    assert (rows[name]["outcome"], rows[name]["op"], rows[name]["raw"]) == ("event", op, None)


def test_a_commit_is_ignored(rows: dict[str, Row]) -> None:
    for name in ("commit", "commit_of_nothing"):
        assert (rows[name]["outcome"], rows[name]["reason"]) == ("ignore", "transaction_marker")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "unknown_op:MERGE"), ("commit_with_row", "unknown_op:commit"),
        ("no_op", "not_an_envelope"), ("other", "not_an_envelope"),
        ("no_table", "table_missing"), ("truncate_of_nothing", "table_missing"),
        *((f"table_{n}", "bad_table") for n in range(6)),
        ("no_data", "image_missing"), ("key_alone", "image_missing"),
        ("empty_data", "image_missing"), ("nothing_deleted", "image_missing"),
        ("twice", "duplicate_column"), ("twice_changed", "duplicate_column"),
        ("twice_in_key", "duplicate_column"), ("twice_in_meta", "duplicate_field"),
        *((name, name.rpartition("_")[0]) for name in RECORDS
          if re.match("bad_(scn|seq|idx)_", name)),
        *((name, "not_json") for name in NOT_JSON),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, RECORDS[name])
    if reason != "not_json" and "twice" not in name and name != "no_op":
        sent = json.loads(json.dumps(RECORDS[name]), parse_int=str, parse_float=str)
        assert json.loads(rows[name]["raw"]) == {k: v for k, v in sent.items() if k != "a"}


def test_an_insert_is_the_whole_row(rows: dict[str, Row]) -> None:
    """What it does not name is NULL."""
    for op in ("ins", "INSERT"):
        assert (rows[op]["before"], rows[op]["after"], rows[op]["absent"]) == (None, ROW, None)


def test_values_keep_their_text(rows: dict[str, Row]) -> None:
    assert rows["exact"]["after"] == {
        "ID": "12345678901234567890.123456789",
        "X": "1.10",
        "E": "1e999",
        "L": '{"k": 1.10}',
    }


def test_an_update_carries_what_changed_and_what_is_known_of_the_old_row(
    rows: dict[str, Row],
) -> None:
    """NULL in `data` is NULL; NULL in `key` says nothing of the new row."""
    update = rows["upd"]
    assert update["before"] == {"ID": "1", "A": "a", "N": None, "M": "m"}
    assert update["after"] == {"ID": "1", "A": "b", "B": None, "N": None, "M": "m"}
    assert update["absent"][0] == ALL_BUT
    assert set(update["absent"][1:]) == {"ID", "A", "B", "M"}


def test_update_of_the_key_has_the_old_key(rows: dict[str, Row]) -> None:
    assert (rows["UPDATE"]["before"], rows["UPDATE"]["after"]) == ({"ID": "1"}, {"ID": "2"})
    assert rows["UPDATE"]["absent"] == [ALL_BUT, "ID"]


def test_an_update_that_changed_nothing(rows: dict[str, Row]) -> None:
    assert rows["nothing_changed"]["after"] == {"ID": "1", "N": None}
    assert rows["nothing_changed"]["absent"] == [ALL_BUT, "ID"]


@pytest.mark.parametrize("old", ["upd before", "UPDATE BEFORE"])
@pytest.mark.parametrize("new", ["upd after", "UPDATE AFTER"])
def test_an_update_in_two_records(rows: dict[str, Row], old: str, new: str) -> None:
    """The new half may be partial; it tells where its old half is, at its number or before."""
    assert (rows[old]["before"], rows[old]["after"], rows[old]["absent"]) == (ROW, None, None)
    assert (rows[new]["before"], rows[new]["after"]) == (None, ROW)
    assert rows[new]["absent"] == [ALL_BUT, "ID", "A", "N"]
    own, earlier = at(100, 7, 0, 4, 2), encode_number(1)
    assert (rows[old]["position"], rows[new]["position"]) == (f"{own}~", f"{own}~{earlier}")


def test_a_delete_has_its_row_in_data_or_in_key(rows: dict[str, Row]) -> None:
    for op in ("del", "DELETE"):
        assert (rows[op]["before"], rows[op]["after"], rows[op]["absent"]) == (ROW, None, None)
    for name in ("del_by_key", "del_by_key_beside_nothing"):
        assert (rows[name]["before"], rows[name]["after"]) == ({"ID": "1"}, None)


def test_a_delete_has_its_key_over_its_row(rows: dict[str, Row]) -> None:
    """A NULL in `key` may be a value that was not logged."""
    assert rows["del_by_both"]["before"] == {"ID": "1", "A": "a", "N": "n"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ddl", "alter table O.T add (C number(3))"),
        ("ddl_text", "create table O.T (ID number)"), ("ddl_without_table", "create role R"),
        ("drop_column", 'DROP COLUMN {"C":null}'), ("drop_column_bare", "drop column"),
        ("ins", None), ("truncate", None),
    ],
)  # fmt: skip
def test_statements_are_kept(rows: dict[str, Row], name: str, text: str | None) -> None:
    assert rows[name]["ddl"] == text
    if text is not None:
        assert (rows[name]["before"], rows[name]["after"]) == (None, None)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("ins", (None, "O", "T")), ("truncate", (None, "O", "T")),
        ("one_name", (None, None, "T")), ("three_names", ("DB", "O", "T")),
        ("quoted", (None, "my.owner", "a table")), ("ddl_without_table", (None, None, None)),
    ],
)  # fmt: skip
def test_table_names(
    rows: dict[str, Row], name: str, table: tuple[str | None, str | None, str | None]
) -> None:
    row = rows[name]
    assert row["outcome"] == "event"
    assert (row["database"], row["schema"], row["table"]) == table


def test_records_have_neither_keys_nor_types(rows: dict[str, Row]) -> None:
    assert {(r["key"], r["types"]) for r in rows.values()} == {(None, None)}
    assert {r["op"] for r in rows.values() if r["event_id"]} == {"update_after"}
    assert SharePlex().columns("", DEFAULTS) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ins", at(100, 7, 0, 4, 2)), ("truncate", at(100, 7, 0, 4, 2)),
        ("ddl", at(100, 7, 0, 4, 2)), ("no_trans", at(100, 0, 0, 0, 2)),
        ("plain_trans", at(100, 731, 0, 0, 2)), ("empty_trans", at(100, 0, 0, 0, 2)),
        ("no_seq", at(100, 7, 0, 4, 2)), ("empty_seq", at(100, 7, 0, 4, 2)),
        ("no_idx", at(100, 7, 0, 4, 2)), ("other_idx", at(100, 7, 0, 4, 2)),
        ("blanks", at(100, 7, 0, 4, 2)), ("late_scn", at("9" * 40, 7, 0, 4, 2)),
        ("truncate_0", at(100, 7, 0, 4, 0)), ("truncate_1", at(100, 0, 0, 0, 0)),
        ("ddl_unnumbered", at(100, 7, 0, 4, 0)), ("truncate_2", None),
        ("half_of_many_digits", at(100, 7, 0, 4, "9" * 40) + "~"),
        ("first_half", at(100, 7, 0, 4, 0) + "~"),
        ("no_scn", None), ("empty_scn", None), ("no_seq_nor_idx", None),
    ],
)  # fmt: skip
def test_positions(rows: dict[str, Row], name: str, expected: str | None) -> None:
    """By scn, three numbers of the transaction, and operation."""
    assert rows[name]["outcome"] == "event"
    assert rows[name]["position"] == expected


def test_transaction_of_another_form_is_distinguished_by_a_hash(rows: dict[str, Row]) -> None:
    """It orders nothing beyond its `scn`."""
    names = [name for name in RECORDS if re.match(r"trans_\d", name)]
    assert {rows[name]["outcome"] for name in names} == {"event"}
    found = {rows[name]["position"] for name in names}
    assert len(found) == len(names)
    before, after = rows["early_scn"]["position"], rows["late_scn"]["position"]
    assert all(before < position < after for position in found)


def test_positions_sort_as_numbers(rows: dict[str, Row]) -> None:
    """Operation 10 after operation 2, scn 100 after scn 99, a new half after its old one."""
    ordered = ["early_scn", "ins", "upd before", "upd after", "next_seq", "next_trans", "late_scn"]
    found = [rows[name]["position"] for name in ordered]
    assert found == sorted(set(found))
    assert rows["repeated"]["position"] == rows["ins"]["position"]


def test_times_and_transactions(rows: dict[str, Row]) -> None:
    """The time is in UTC, with a `Z` (as the page says) or without (as its examples are)."""
    committed = datetime(2017, 6, 16, 14, 24, 34, tzinfo=UTC).timestamp()
    assert rows["ins"]["source_ts"].timestamp() == committed
    assert rows["zoned"]["source_ts"].timestamp() == committed
    for name in ("bad_time", "no_day", "no_year"):
        assert (rows[name]["outcome"], rows[name]["source_ts"]) == ("event", None)
    assert rows["ins"]["tx_id"] == "7.0.4"


def test_the_vendors_examples(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    """The first as it is; the others with the `….` and the stray comma taken out, and as they are.

    What the examples leave out of `meta` is missing then: the place, and of the delete the table.
    """
    folder = fixtures / "seed-examples" / "shareplex-json"
    insert, update, delete = (
        " ".join(p.read_text().splitlines()) for p in sorted(folder.iterdir())
    )
    mended = [re.sub(r'"\s+….', '"', update), re.sub(r",\s+}", "}", delete)]
    lines = [insert, *mended, update, delete]
    file = jsonl(tmp_path / "examples.jsonl", lines)
    rows = sorted(SharePlex().read(spark, (file,), DEFAULTS).collect(), key=lambda r: r["ordinal"])
    assert [r["outcome"] for r in rows] == ["event", "event", "reject", "reject", "reject"]
    assert [r["reason"] for r in rows[2:]] == ["table_missing", "not_json", "not_json"]
    first, second = rows[:2]
    assert (first["schema"], first["table"], first["op"]) == ("CL_BIZ1", "MIO_LOG", "insert")
    assert first["after"] == {"MIO_LOG_ID": "32539737"}
    assert first["position"] == at(14589063118712, 7, 0, 411499, 1)
    assert second["before"]["CNTR_NO"] == "1171201606syui26"
    assert second["after"] == second["before"] | {"CNTR_NO": "1171201606"}
    assert set(second["absent"]) == {ALL_BUT, "MIO_LOG_ID", "PLNMIO_REC_ID", "CNTR_NO"}
    assert second["position"] is None


PIPELINE = {
    "format": "shareplex", "table_name": "{schema}_{table}",
    "tables": {
        "O.ITEM": {"key": ["ID"], "columns": {"ID": "bigint", "PRICE": "decimal(38,9)"}},
        "O.LOG": {"key": []},
    },
}  # fmt: skip


def line(item: int, name: str | None, **more: Any) -> dict[str, Any]:
    """A row of O.ITEM with the columns that the table begins with."""
    return {"ID": str(item), "NAME": name, "PRICE": "12345678901234567890.123456789", **more}


HISTORY: list[Any] = [
    change(1, "ins", line(9, "gone by truncation")),
    change(2, "truncate"),
    change(3, "ins", line(1, "a")),
    change(4, "upd", {"NAME": "b"}, {"ID": "1"}),  # the price is absent
    change(5, "upd", {"PRICE": None}, {"ID": "1", "NAME": None}),  # the name is not known
    change(6, "ins", line(2, "moves")),
    change(7, "upd", {"ID": "3"}, line(2, "moves")),  # the key changes
    change(8, "ins", line(4, "deleted")),
    change(9, "del", line(4, "deleted")),
    change(10, "ins", line(5, "c")),
    change(12, "ins", line(6, "e", COLOUR="red")),  # a column that no earlier event names
    change(11, "upd before", {"ID": "5", "NAME": "c"}),  # in two records, both partial
    change(11, "upd after", {"ID": "5", "NAME": "d"}),
    change(13, "upd", {"NAME": "f"}, {"ID": "6"}),
    change(14, "ddl") | {"ddl": "alter table O.ITEM modify (NAME varchar2(99))"},
    change(15, "ins", line(7, "deleted and back")),
    change(16, "del", line(7, "deleted and back")),
    change(17, "ins", {"ID": "7", "NAME": "back"}),
    change(18, "upd", {"NAME": "again"}, {"ID": "7"}),
    *(change(20 + n, "ins", {"MESSAGE": "same"}, table="O.LOG") for n in range(2)),
    change(22, "upd", {"MESSAGE": "other"}, {"MESSAGE": "same"}, table="O.LOG"),
    '{"meta": {"op": "ins", "table": "O.IT',
]
PRICE = "12345678901234567890.123456789"
ITEMS = [
    (1, "b", None, None), (3, "moves", PRICE, None), (5, "d", PRICE, None),
    (6, "f", PRICE, "red"), (7, "again", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("turned", "cut"), [(False, 12), (True, 11)])
def test_rows_of_the_table(spark: SparkSession, tmp_path: Path, turned: bool, cut: int) -> None:
    """The same rows from two orders, cut into batches inside an update, with a repetition."""
    sandbox = Sandbox(spark, tmp_path, PIPELINE)
    history = HISTORY[::-1] if turned else HISTORY
    for number, batch in enumerate((history[:cut], history[cut - 1 :])):
        sandbox.write(f"{number}.jsonl", [*batch, {"meta": {"op": "commit"}}])
        sandbox.load_landed()
    found = [
        (r["ID"], r["NAME"], r["PRICE"] and format(r["PRICE"], "f"), r["COLOUR"])
        for r in sandbox.rows("O_ITEM")
    ]
    assert sorted(found) == ITEMS
    assert sorted(r["MESSAGE"] for r in sandbox.rows("O_LOG")) == ["other", "same"]
    assert {r["reason"] for r in sandbox.quarantined()} == {"not_json"}
