"""Canal JSON: every operation, many rows a message, order, keys, and what is no message at all."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import CanalOptions
from sluice.types.columns import ColumnType
from spark_jobs.formats.canal.decoder import Canal
from tests.spark.canal_messages import Rows, decode, message, row, rows_query, statement
from tests.spark.envelopes import at, jsonl
from tests.spark.sandbox import landed

DEFAULTS = CanalOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]
# Spelled out, of Canal, DTS, DRS and TiCDC: a list of the decoder's own would lose what it loses.
DDL = (
    "CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX", "DDL", "INIT_DDL",
)  # fmt: skip
IGNORED = ("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "TIDB_WATERMARK")
# Options of MariaDB's TRUNCATE and PostgreSQL's.
MANNERS = ("WAIT 10", "RESTART IDENTITY CASCADE", "CONTINUE IDENTITY", "RESTRICT")
HIDDEN_KEYS = ("__#alibaba_rds_row_id#__", "_drds_implicit_id_")
BAD_LINES = {
    "cut": '{"type": "INSERT", "data": [{"id":',
    "text": "INSERT",
    "row_is_no_object": '{"type": "INSERT", "table": "t", "data": ["1"]}',
    "deep": '{"type": "INSERT", "table": "t", "data": ' + "[" * 5000 + "]" * 5000 + "}",
}
BARE_ROWS = {
    "marker": '{"type": "GTID", "data": {"a": 1}}',
    "bare_row": '{"type": "INSERT", "table": "t", "data": {"id": "1", "v": 1.10}}',
    "bare_old_row": '{"type": "UPDATE", "table": "t", "data": [{"id": "1"}], "old": {"v": "b"}}',
}
EVENTS: dict[str, Any] = {
    "insert": message("INSERT", row("1", None)),
    "insert_partial": message("INSERT", {"id": "1"}),
    "insert_beside_an_empty_old": message("INSERT", row("1", "a"), old=[]),
    "insert_beside_old": message("INSERT", row("1", "a"), old=[row("2", "b")]),
    "insert_called_ddl": message("INSERT", row("1", "a"), isDdl=True),
    "insert_of_a_version": message("INSERT", row("1", "a"), TableVersion=7),
    "insert_many": message("INSERT", row("1", "a"), row("2", "b"), row("3", "c")),
    "update": message("UPDATE", row("1", "b"), old=[{"v": "a"}]),
    "update_of_null": message("UPDATE", row("1", "b"), old=[{"v": None}]),
    "update_of_key": message("UPDATE", row("2", "a"), old=[{"id": "1"}]),
    "update_with_all_of_old": message("UPDATE", row("1", "b"), old=[row("1", "a")]),
    "update_without_old": message("UPDATE", row("1", "b")),
    "update_with_empty_old": message("UPDATE", row("1", "b"), old=[]),
    "update_many": message(
        "UPDATE", row("1", "b"), row("3", "d"), old=[{"v": "a"}, {"id": "2", "v": "d"}]),
    "update_partial": message("UPDATE", {"id": "1"}, old=[{}]),
    "update_partial_without_old": message("UPDATE", {"id": "1"}),
    "update_to_null": message("UPDATE", {"id": "1"}, {"ID": "2"}, old=[{"V": "a"}, {"v": None}]),
    "delete": message("DELETE", row("1", "a")),
    "delete_beside_old": message("DELETE", row("1", "a"), old=[row("2", "b")]),
    "delete_by_truncate": message("DELETE", row("1", "a"), sql="TRUNCATE TABLE t"),
    "delete_partial": message("DELETE", {"id": "1"}),
    "init": message("INIT", row("1", "a"), row("2", "b")),
    "truncate": statement("TRUNCATE", "truncate table t"),
    "truncate_of_dts": statement("DDL", "/* x */ -- y\n# z\nTruncate `t`"),
    "ddl_of_dts": statement("DDL", "ALTER TABLE t TRUNCATE PARTITION p"),
    "truncate_stated": statement("QUERY", "TRUNCATE TABLE `db`.T NOWAIT"),
    **{manner: statement("QUERY", f"TRUNCATE TABLE t {manner}") for manner in MANNERS},
    "truncate_stated_of_another": statement("QUERY", "TRUNCATE TABLE u NOWAIT"),
    "truncate_of_a_part": statement("ALTER", "ALTER TABLE t TRUNCATE PARTITION p"),
    "other_ddl": statement("GRANT", "GRANT ALL"),
    **{op: statement(op, f"{op} x") for op in DDL},
    "no_key": message("INSERT", row("1", "a"), pkNames=None),
    "empty_key": message("INSERT", row("1", "a"), pkNames=[]),
    "absent_key": {"type": "INSERT", "table": "t", "data": [{"id": "1"}]},
    "half_key": message("INSERT", row("1", "a"), pkNames=["id", "other"]),
    "hidden_key": message("INSERT", {**row("1", "a"), HIDDEN_KEYS[0]: "7"}, pkNames=None),
    "hidden_beside_key": message("INSERT", {**row("1", "a"), HIDDEN_KEYS[0]: "7"}),
    "hidden_beside_half_key": message(
        "INSERT", {**row("1", "a"), HIDDEN_KEYS[0]: "7"}, pkNames=["id", "other"]),
    "polarx_key": message("INSERT", {**row("1", "a"), HIDDEN_KEYS[1]: "7"}, pkNames=[]),
    "two_keys": message("INSERT", row("1", "a"), pkNames=["v", "id"]),
    "key_for_each_row": message(
        "INSERT", row("1", "a"), row("2", "b"), pkNames=["v", "id", "v", "id"]),
    "other_case": message(
        "INSERT", {"Id": "1", "name": "a"}, pkNames=["ID"],
        mysqlType={"ID": "INT", "NAME": "TEXT", "gone": "int"}),
    "untyped_column": message("INSERT", row("1", "a"), mysqlType={"id": "int", "v": None}),
    "foreign_type": message("INSERT", row("1", "a"), mysqlType={"id": "int", "v": "hierarchyid"}),
    "no_types": message("INSERT", row("1", "a"), mysqlType=None),
    "exact": json.dumps(message("INSERT", {"id": 0})).replace(
        '"id": 0',
        '"id": 12345678901234567890.123456789, "d": 1.10, "e": 1e999, "b": true, "j": {"k": 1.10}'),
    "described_twice": json.dumps(message("INSERT", row("1", "a"))).replace(
        '"id": "bigint(20)"', '"id": "int", "ID": "bigint"'),
    "gtid": message("INSERT", row("1", "a"), gtid="3e11fa47-71ca-11e1-9e33-c80aa9429562:23"),
    "no_times": message("INSERT", row("1", "a"), es=0, gtid=""),
    "first_millis": message("INSERT", row("1", "a"), es=10_000_000_000),
    "empty_names": message("INSERT", row("1", "a"), database="", schema=""),
    "seconds": message("INSERT", row("1", "a"), es=1600161894),
    "wild_times": message("INSERT", row("1", "a"), es="9223372036854775807"),
    "commit_ts": message("INSERT", row("1", "a"), row("2", "b"), id=0, _tidb={
        "commitTs": 434919270523076621}),
    "tidb_delete_of_keys": message("DELETE", {"id": "1"}, _tidb={
        "commitTs": 5, "onlyHandleKey": True}),
}  # fmt: skip
IGNORES: dict[str, Any] = {
    **{op: {"type": op, "data": None} for op in IGNORED},
    "HEARTBEAT": {"type": None, "isHeartbeat": True, "ts": 1},
    "ROWS_QUERY": rows_query("insert into t (id,v)values(27,'ly')"),
}
REJECTS: dict[str, tuple[str, Any]] = {
    **{name: ("not_json", line) for name, line in BAD_LINES.items()},
    **{name: ("rows_not_in_a_list", line) for name, line in BARE_ROWS.items()},
    "other": ("not_an_envelope", {"a": 1}),
    "no_type": ("not_an_envelope", message("INSERT", row("1", "a"), type=None)),
    "unknown": ("unknown_op:MERGE", message("MERGE", row("1", "a"))),
    "wrong_case": ("unknown_op:insert", message("insert", row("1", "a"))),
    "no_table": ("table_missing", message("INSERT", row("1", "a"), table=None)),
    "empty_table": ("table_missing", message("DELETE", row("1", "a"), table="")),
    "truncate_of_nothing": ("table_missing", {**statement("TRUNCATE", "truncate"), "table": ""}),
    "no_data": ("image_missing", message("INSERT")),
    "empty_data": ("image_missing", message("INSERT", data=[])),
    "unread_statement_of_dml": ("image_missing", rows_query("UPDATE t SET v = 1", isDdl=True)),
    "statement_of_dml": ("image_missing", message("DELETE", sql="DELETE FROM t")),
    "null_row": ("image_missing", message("INSERT", row("1", "a"), None)),
    "empty_row": ("image_missing", message("INSERT", row("1", "a"), {}, pkNames=None)),
    "empty_row_to_delete": ("image_missing", message("DELETE", {}, pkNames=None)),
    "update_in_old_alone": ("image_missing", message("UPDATE", old=[row("1", "a")])),
    "delete_in_old": ("other_form", message("DELETE", old=[row("1", "a")])),
    "insert_in_old": ("other_form", message("INSERT", old=[row("1", "a")])),
    "init_in_old": ("other_form", message("INIT", data=[], old=[row("1", "a")])),
    "fewer_old_rows": (
        "old_misaligned", message("UPDATE", row("1", "b"), row("2", "b"), old=[{"v": "a"}])),
    "more_old_rows": (
        "old_misaligned", message("UPDATE", row("1", "b"), old=[{"v": "a"}, {"v": "c"}])),
    "column_twice": (
        "duplicate_column",
        json.dumps(message("INSERT", {"id": 0})).replace('"id": 0', '"id": 1, "id": 2')),
    "old_column_twice": (
        "duplicate_column",
        json.dumps(message("UPDATE", row("1", "b"), old=[{"v": 0}])).replace(
            '"v": 0', '"v": 1, "v": 2')),
    "keys_alone": (
        "row_not_sent", message("UPDATE", {"id": "1"}, _tidb={"onlyHandleKey": True})),
    "stored_elsewhere": (
        "row_not_sent",
        message("DELETE", {"id": "1"}, _tidb={"claimCheckLocation": "s3://b/o"})),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Every message above."""
    rejects = {name: record for name, (_, record) in REJECTS.items()}
    records = {**EVENTS, **IGNORES, **rejects}
    return decode(spark, tmp_path_factory.mktemp("canal"), records)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("insert", "insert"), ("init", "insert"), ("update", "update"), ("delete", "delete"),
        ("insert_called_ddl", "insert"), ("insert_of_a_version", "insert"),
        ("delete_by_truncate", "delete"),
        ("truncate", "truncate"), ("truncate_of_dts", "truncate"), ("ddl_of_dts", "ddl"),
        *((manner, "truncate") for manner in MANNERS),
        ("truncate_stated", "truncate"), ("truncate_stated_of_another", "ddl"),
        ("truncate_of_a_part", "ddl"),
        ("other_ddl", "ddl"), *((op, "ddl") for op in DDL),
    ],
)  # fmt: skip
def test_operations(rows: Rows, name: str, op: str) -> None:
    assert {(r["outcome"], r["op"], r["raw"]) for r in rows[name]} == {("event", op, None)}


def test_every_message_has_its_outcome(rows: Rows) -> None:
    assert {n for n, many in rows.items() if many[0]["outcome"] == "event"} == EVENTS.keys()
    twos = ("update_many", "update_to_null", "init", "commit_ts", "key_for_each_row")
    many = {"insert_many": 3, **dict.fromkeys(twos, 2)}
    assert {name: len(found) for name, found in rows.items() if len(found) > 1} == many


@pytest.mark.parametrize("name", IGNORES)
def test_markers_and_heartbeats_are_ignored(rows: Rows, name: str) -> None:
    (only,) = rows[name]
    assert (only["outcome"], only["reason"], only["raw"]) == ("ignore", name, None)


@pytest.mark.parametrize("name", REJECTS)
def test_rejects_say_why_and_keep_their_text(rows: Rows, name: str) -> None:
    (only,) = rows[name]
    assert (only["outcome"], only["reason"]) == ("reject", REJECTS[name][0])
    assert only["raw"] is not None
    lines = BAD_LINES | BARE_ROWS
    assert only["raw"] == lines.get(name, only["raw"])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("insert", None, row("1", None)),
        ("insert_beside_an_empty_old", None, row("1", "a")),
        ("insert_beside_old", None, row("1", "a")),
        ("delete_beside_old", row("1", "a"), None),
        ("update", row("1", "a"), row("1", "b")),
        ("update_of_null", row("1", None), row("1", "b")),
        ("update_of_key", row("1", "a"), row("2", "a")),
        ("update_with_all_of_old", row("1", "a"), row("1", "b")),
        ("update_without_old", None, row("1", "b")),
        ("update_with_empty_old", None, row("1", "b")),
        ("delete", row("1", "a"), None),
        ("delete_partial", {"id": "1"}, None),
        ("truncate", None, None),
        ("CREATE", None, None),
    ],
)
def test_images(rows: Rows, name: str, before: object, after: object) -> None:
    (only,) = rows[name]
    assert (only["before"], only["after"]) == (before, after)


def test_each_row_has_the_old_one_beside_it(rows: Rows) -> None:
    assert [(r["before"], r["after"]) for r in rows["update_many"]] == [
        (row("1", "a"), row("1", "b")),
        (row("2", "d"), row("3", "d")),
    ]


def test_values_keep_their_exact_text(rows: Rows) -> None:
    assert rows["exact"][0]["after"] == {
        "id": "12345678901234567890.123456789",
        "d": "1.10",
        "e": "1e999",
        "b": "true",
        "j": '{"k": 1.10}',
    }


def test_a_described_column_that_an_update_lacks_is_absent(rows: Rows) -> None:
    for name in ("update_partial", "update_partial_without_old"):
        assert rows[name][0]["absent"] == ["v"]
    assert [each["absent"] for each in rows["update_to_null"]] == [None, None]
    assert rows["update"][0]["absent"] is None
    assert rows["insert_partial"][0]["absent"] is None
    assert rows["delete_partial"][0]["absent"] is None


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("insert", ["id"]), ("delete", ["id"]), ("two_keys", ["v", "id"]), ("no_key", None),
        ("key_for_each_row", ["v", "id"]),
        ("empty_key", None), ("absent_key", None), ("half_key", None), ("other_case", ["Id"]),
        ("hidden_key", [HIDDEN_KEYS[0]]), ("polarx_key", [HIDDEN_KEYS[1]]), ("truncate", None),
        ("hidden_beside_key", ["id"]), ("hidden_beside_half_key", None),
    ],
)  # fmt: skip
def test_keys_are_given_or_left_open(rows: Rows, name: str, key: list[str] | None) -> None:
    assert rows[name][0]["key"] == key


def test_types_have_the_rows_spelling_of_names(rows: Rows) -> None:
    def types_of(name: str) -> dict[str, ColumnType]:
        return {c.name: c.type for c in Canal().columns(rows[name][0]["types"], DEFAULTS)}

    assert types_of("insert") == {"id": ColumnType("bigint"), "v": ColumnType("string")}
    assert types_of("other_case") == {
        "Id": ColumnType("int"), "name": ColumnType("string"), "gone": ColumnType("int"),
    }  # fmt: skip
    for name in ("untyped_column", "foreign_type"):
        assert types_of(name) == {"id": ColumnType("int")}
    assert rows["no_types"][0]["types"] is None
    assert rows["CREATE"][0]["types"] is None


def test_names_times_and_statements(rows: Rows) -> None:
    only = rows["insert"][0]
    assert (only["database"], only["schema"], only["table"]) == ("db", None, "t")
    assert only["source_ts"].astimezone(UTC) == datetime(2020, 9, 15, 9, 24, 54, tzinfo=UTC)
    assert (only["tx_id"], only["event_id"], only["ddl"]) == (None, None, None)
    assert rows["ALTER"][0]["ddl"] == "ALTER x"
    assert rows["truncate"][0]["ddl"] == "truncate table t"
    assert rows["gtid"][0]["tx_id"] == "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"
    assert (rows["no_times"][0]["source_ts"], rows["no_times"][0]["tx_id"]) == (None, None)
    assert rows["wild_times"][0]["source_ts"] is None
    assert rows["first_millis"][0]["source_ts"].astimezone(UTC).year == 1970
    unnamed = rows["empty_names"][0]
    assert (unnamed["database"], unnamed["schema"], unnamed["table"]) == (None, None, "t")
    assert rows["seconds"][0]["source_ts"] == rows["insert"][0]["source_ts"]


def test_arrival_orders_records_and_the_rows_in_them(spark: SparkSession, tmp_path: Path) -> None:
    inserted = [row(str(n), "a") for n in range(12)]
    files = []
    for name in ("part-10.jsonl", "part-9.jsonl"):
        jsonl(tmp_path / name, [message("INSERT", *inserted), message("DELETE", row("12", "a"))])
        files.append(landed(tmp_path / name, name))
    found = Canal().read(spark, tuple(files), DEFAULTS).collect()
    positions = {}
    for each in found:
        name = each["file"].rsplit("/", 1)[1]
        positions[name, int((each["after"] or each["before"])["id"])] = each["position"]
    wanted = [(name, n) for name in ("part-9.jsonl", "part-10.jsonl") for n in range(13)]
    assert [positions[place] for place in wanted] == sorted(set(positions.values()))
    assert all(p.startswith("1.") for p in positions.values())


def test_full_load_ranks_below_every_change(rows: Rows) -> None:
    assert [r["position"] for r in rows["init"]] == [
        at(1600161894771, 58, 0, kind=0),
        at(1600161894771, 58, 1, kind=0),
    ]
    changes = [r["position"] for r in rows["insert"] + rows["delete"] + rows["truncate"]]
    assert max(r["position"] for r in rows["init"]) < min(changes)


def test_rows_of_a_full_load_without_ids_are_distinct(spark: SparkSession, tmp_path: Path) -> None:
    same = message("INIT", row("1", "a"), row("1", "a"), id=None, ts=None)
    found = decode(spark, tmp_path, {"one": same, "two": same})
    positions = [r["position"] for r in found["one"] + found["two"]]
    assert positions == sorted(set(positions))
    assert all(p.startswith("0.010.") for p in positions)


def test_messages_of_tidb_are_ordered_by_commit_ts(rows: Rows) -> None:
    commit = 434919270523076621
    assert [r["position"] for r in rows["commit_ts"]] == [at(commit, 0), at(commit, 1)]
    assert rows["commit_ts"][0]["tx_id"] == str(commit)


def test_a_field_that_orders(spark: SparkSession, tmp_path: Path) -> None:
    records = {
        "nine": message("INSERT", row("1", "a"), row("2", "b"), offset=9),
        "ten": message("DELETE", row("1", "a"), offset="10", _tidb={"commitTs": 5}),
        "truncate": {**statement("TRUNCATE", "truncate t"), "offset": 11},
        "init": message("INIT", row("1", "a")),
        "none": message("INSERT", row("1", "a")),
        "no_number": message("INSERT", row("1", "a"), offset="-1"),
        "truncate_without": statement("TRUNCATE", "truncate t"),
        "ddl_without": statement("ALTER", "alter table t"),
    }
    found = decode(spark, tmp_path, records, order="offset")
    assert [r["position"] for name in ("nine", "ten", "truncate") for r in found[name]] == [
        at(9, 0), at(9, 1), at(10, 0), at(11, 0),
    ]  # fmt: skip
    assert found["init"][0]["position"].startswith("0.")
    reasons = {name: many[0]["reason"] for name, many in found.items() if many[0]["reason"]}
    assert reasons == dict.fromkeys(("none", "no_number", "truncate_without"), "bad_order")


def test_a_field_of_the_format_may_order(spark: SparkSession, tmp_path: Path) -> None:
    found = decode(spark, tmp_path, {"one": message("INSERT", row("1", "a"))}, order="id")
    assert found["one"][0]["position"] == at(58, 0)


def test_messages_that_name_no_table(spark: SparkSession, tmp_path: Path) -> None:
    records = {
        "bare": {"type": "INSERT", "data": [{"k": "1"}]},
        "named": message("INSERT", row("1", "a"), database=None),
    }
    found = decode(spark, tmp_path, records, table="shop.orders")
    tables = {name: (many[0]["database"], many[0]["table"]) for name, many in found.items()}
    assert tables == {"bare": ("shop", "orders"), "named": (None, "t")}
    found = decode(spark, tmp_path, records, table="orders")
    assert (found["bare"][0]["database"], found["bare"][0]["table"]) == (None, "orders")


def test_json_that_is_a_blob_is_its_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """As Canal writes MariaDB's; MySQL's has the code of a text, and what is no UTF-8 stays."""
    text = '{"\xe9": "\U0001f600"}'
    coded = text.encode().decode("latin1")
    rows = [row("1", coded), row("2", "\xe9"), row("3", None), row("4", "\u20ac")]

    def changed(code: object, kind: str = "json") -> dict[str, Any]:
        types = {"mysqlType": {"id": "bigint(20)", "v": kind}, "sqlType": code}
        return message("UPDATE", *rows, old=[{"v": coded}] * 4, **types)

    found = decode(spark, tmp_path, {
        "blob": changed({"id": -5, "v": 2004}), "upper": changed({"v": 2004}, "JSON"),
        "text": changed({"id": -5, "v": 12}), "clob": changed({"v": 2005}, "longtext"),
        "cased": message("UPDATE", *({"ID": r["id"], "V": r["v"]} for r in rows),
                         old=[{"V": coded}] * 4, mysqlType={"id": "bigint", "v": "json"},
                         sqlType={"Id": -5, "v": 2004}),
        "other": changed({"id": 2004, "v": 12}), "none": changed(None), "odd": changed([2004]),
    })  # fmt: skip
    for name, each in found.items():
        expected, v = text if name in ("blob", "upper", "cased") else coded, "vV"[name == "cased"]
        assert [r["after"][v] for r in each] == [expected, "\xe9", None, "\u20ac"], name
        assert {r["before"][v] for r in each} == {expected}, name
