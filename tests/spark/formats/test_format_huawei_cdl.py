"""Huawei CDL JSON: both message versions, their operations, order, keys and large values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import HuaweiCdlOptions
from sluice.types.columns import STRING, ColumnType
from spark_jobs.formats.huawei_cdl.decoder import HuaweiCdl
from spark_jobs.planning.descriptions import read_description
from tests.spark.cdl_messages import BARE, LSN, pairs, v1, v2
from tests.spark.debezium_events import DEFAULT_PLACEHOLDER
from tests.spark.envelopes import assert_rejected, at, decode_named, jsonl

DEFAULTS = HuaweiCdlOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]
BAD_LINES = {
    "cut": '{"schema":{"type":"struct"},"payload":{"OPERATION":"INS',
    "text": "INSERT INTO t VALUES (1)",
    "list_in_heartbeat": '{"payload":{"OPERATION":"HEARTBEAT","data":[1]}}',
    "payload_text": '{"payload":"x"}',
    "image_list": '{"payload":{"OPERATION":"INSERT","TABLE_NAME":"t","data":[1],'
    '"message_version":"1.0"}}',
    "properties_text": '{"payload":{"OPERATION":"INSERT","TABLE_NAME":"t","data":{"id":1},'
    '"transaction":{"properties":"lsn=1"}}}',
    "deep": '{"payload":{"OPERATION":"INSERT","TABLE_NAME":"t","data":{"id":'
    + "[" * 2000 + "]" * 2000 + "}}}",
}  # fmt: skip


def placed(**properties: Any) -> dict[str, Any]:
    return v1(properties=pairs(**properties))


def text_of(message: dict[str, Any], old: str, new: str) -> str:
    """A message's text with a part of it written by hand."""
    text = json.dumps(message)
    assert old in text
    return text.replace(old, new)


def without(message: dict[str, Any], *names: str) -> dict[str, Any]:
    payload = {n: v for n, v in message["payload"].items() if n not in names}
    return message | {"payload": payload}


HEXED = DEFAULT_PLACEHOLDER.encode().hex()
OLD, NEW = {"id": 1, "name": "a"}, {"id": 2, "name": "a"}
MESSAGES: dict[str, Any] = {
    # operations
    "insert": v1(), "update": v1("UPDATE", before=OLD, data=NEW), "delete": v1("DELETE"),
    "update_alone": v1("UPDATE"), "truncate": v1("TRUNCATE", **BARE),
    "ddl": v1("DDL", **BARE, ddl="ALTER TABLE t ADD c INT"),
    "insert_2": v2(), "update_2": v2("u", before=OLD, after=NEW), "delete_2": v2("d"),
    "truncate_2": v2("t", after=None, unique=None),
    "ddl_truncate": v1("DDL", **BARE, ddl="TRUNCATE t"),
    "ddl_truncate_2": v2(None, after=None, unique=None, ddl="truncate table t, u"),
    "ddl_2": v2(None, after=None, unique=None, ddl="DROP TABLE t"),
    "read_2": v2("r"), "snapshot_2": v2("c", {"snapshot": "true"}),
    "snapshot_last_2": v2("c", {"snapshot": "last"}, ts_ms=1707048984209),
    "no_snapshot_2": v2("c", {"snapshot": "False"}),
    "snapshot_later_2": v2("r", {"lsn": LSN + 1}), "snapshot_no_lsn_2": v2("r", {"lsn": None}),
    "delete_by_unique": v1("DELETE", before=None), "delete_by_unique_2": v2("d", before=None),
    "delete_of_nothing": v1("DELETE", before={}), "delete_of_nothing_2": v2("d", before={}),
    "insert_before": v1(before={"id": 9}),
    "moved": v1("UPDATE", data=NEW), "moved_2": v2("u", after=NEW),
    "moved_in_other_case": v1("UPDATE", before={}, unique={"ID": 1}, data=NEW),
    "unmoved_in_other_case": v1("UPDATE", unique={"ID": 2}, data=NEW),
    "unmoved_half": v1("UPDATE", unique={"id": 2, "other": 1}, data=NEW),
    "insert_of_another": v1(unique={"id": 1}, data=NEW),
    # versions
    "no_version": without(v1(), "message_version"),
    "no_version_2": without(v2(), "message_version"),
    "version_number": v1(message_version=1.0), "version_3": v1(message_version="3.0"),
    "mixed": v1(message_version="2.0"),
    # ignored
    "heartbeat": v1(None, **BARE), "heartbeat_op": v1("HEARTBEAT", **BARE),
    "heartbeat_blank": v1("", **BARE), "heartbeat_spaces": v1(" ", **BARE),
    "heartbeat_insert": v1("INSERT", **BARE), "heartbeat_update": v1("UPDATE", **BARE),
    "heartbeat_of_nothing": v1("UPDATE", data={}, before={}, unique={}),
    "heartbeat_bare": v1(None, data={}, before={}, unique={}),
    "heartbeat_row": v1("UPDATE", SEG_OWNER="cdc_cdl", TABLE_NAME="cdc_heartbeat"),
    "heartbeat_oracle": v1("UPDATE", SEG_OWNER="CDC_CDL", TABLE_NAME="CDC_HEARTBEAT"),
    "heartbeat_row_2": v2("u", {"schema": "cdc_cdl", "table": "cdc_heartbeat"}),
    "heartbeat_2": {"payload": {"ts_ms": 5, "message_version": "2.0"}},
    "heartbeat_id_2": {"payload": {"HEARTBEAT_IDENTIFIER": "x", "message_version": "2.0"}},
    "heartbeat_table_elsewhere": v1(TABLE_NAME="cdc_heartbeat"),
    "begin_2": {"payload": {"status": "BEGIN", "id": "571", "message_version": "2.0"}},
    "end_2": {"payload": {"status": "END", "id": "571", "message_version": "2.0"}},
    "message_2": v2("m", after=None),
    # rejects
    "alone": v1()["payload"], "alone_2": v2("d")["payload"],
    "unknown": v1("MERGE"), "wrong_case": v1("insert"), "unknown_2": v2("x"),
    "no_op_with_row": v1(None), "blank_op_with_row": v1(""), "unknown_bare": v1("MERGE", **BARE),
    "empty": {"payload": {}}, "other": {"a": 1},
    "empty_image": v1("INSERT", data={}),
    "no_image": v1(data=None), "no_image_2": v2("u", after=None),
    "no_old_image": v1("DELETE", before=None, unique=None), "no_table": v1(TABLE_NAME=None),
    "no_table_truncate": v1("TRUNCATE", TABLE_NAME=None), "empty_table": v1(TABLE_NAME=""),
    "twice": text_of(v1(), '"data": {"id": 1', '"data": {"id": 1, "id": 2'),
    "twice_in_key": text_of(v1(), '"unique": {"id": 1', '"unique": {"id": 1, "id": 2'),
    "twice_property": v1(properties=pairs(lsn=5) + pairs(lsn=6)),
    "bad_lobs": v1("UPDATE", LOB_COLUMNS='["name"'),
    # order
    "lsn_hex": placed(lsn="26/2C85F750"), "lsn_text": placed(lsn=str(LSN)),
    "lsn_hex_small": placed(lsn="26/A"), "lsn_long": placed(lsn="9" * 40),
    "lsn_word": placed(lsn="XXX"), "lsn_fraction": placed(lsn=1.5), "lsn_negative": placed(lsn=-1),
    "lsn_binlog": placed(lsn="mysql-bin.000003:1234"),
    "lsn_binlog_slash": placed(lsn="mysql-bin.000003/1234"),
    "lsn_sqlserver": placed(lsn="00000025:00000728:0003"),
    "lsn_sqlserver_long": placed(lsn="1:2:" + "f" * 17),
    "lsn_tie": placed(lsn=LSN), "lsn_no_key": v1(properties=pairs(lsn=7), unique=None),
    "lsn_huge": text_of(v1(), str(LSN), "1e999"), "lsn_empty": placed(lsn=""),
    "lsn_null": placed(lsn=None), "no_lsn": placed(txId=1), "no_properties": v1(properties=[]),
    "no_transaction": v1(transaction=None), "null_property": v1(properties=[None]),
    "paired_2": v2("u", {"sequence": '["100","90"]', "lsn": 90}),
    "unpaired_2": v2("u", {"sequence": '[null,"90"]', "lsn": 90}),
    "mysql": placed(file="mysql-bin.000012", pos=345, row=2, txId=7),
    "mysql_no_row": placed(file="mysql-bin.000012", pos=345),
    "mysql_bad": placed(file="mysql-bin", pos=345),
    "mysql_no_pos": placed(file="mysql-bin.000012"), "mysql_no_file": placed(file=""),
    "mysql_lsn": placed(lsn=LSN, file="mysql-bin.000012", pos=345, row=2),
    "oracle": placed(commit_scn=99, scn=98, rs_id="0x00000a.00000010.0001", ssn=3),
    "oracle_scn": placed(scn=98), "oracle_bad": placed(scn="x"),
    "oracle_no_scn": placed(commit_scn=99),
    "opengauss_2": v2("c", {"connector": "opengauss", "lsn": "0/10"}),
    # values
    "exact": text_of(v1(), '"id": 1, "name": "a"', (
        '"id": 12345678901234567890.123456789, "x": 1.10, "big": 1e999, "n": null, '
        '"o": {"k": 1.10}, "l": [1, 2.50], "b": true, "s": " 1.10 "')),
    "time_huge": v1(TIMESTAMP=9223372036854775807), "time_text": v1(TIMESTAMP="noon"),
    # large values
    "lob_null": v1("UPDATE", data={"id": 1, "a": None, "b": None}, LOB_COLUMNS="a"),
    "lob_missing": v1("UPDATE", data={"id": 1}, LOB_COLUMNS="a, b"),
    "lob_sent": v1("UPDATE", data={"id": 1, "a": "x", "b": None}, LOB_COLUMNS="a,b,"),
    "lob_cased": v1("UPDATE", data={"id": 1, "a": None, "b": None}, LOB_COLUMNS="A, C"),
    "lob_list": v1("UPDATE", data={"id": 1, "a": None}, LOB_COLUMNS=["a"]),
    "lob_list_text": v2("u", after={"id": 1, "a": None}, LOB_COLUMNS='["a"]'),
    "lob_insert": v1(data={"id": 1, "a": None}, LOB_COLUMNS="a"),
    "lob_delete": v1("DELETE", before={"id": 1, "a": None}, LOB_COLUMNS="a"),
    "unsent_delete": v2("d", before={"id": 1, "a": DEFAULT_PLACEHOLDER}),
    "lob_empty": v1("UPDATE", LOB_COLUMNS=""),
    "unsent": v1("UPDATE", data={"id": 1, "a": DEFAULT_PLACEHOLDER, "b": None}),
    "unsent_list": v2("u", after={"id": 1, "a": [DEFAULT_PLACEHOLDER], "b": HEXED}),
    "unsent_ints": json.dumps(v2("u", after={"id": 1, "a": list(DEFAULT_PLACEHOLDER.encode())}),
                              separators=(",", ":")),
    "unsent_too": v2("u", after={"id": 1, "a": None, "b": HEXED}, LOB_COLUMNS="a"),
    "left_out": v1("UPDATE", before={"id": 1, "a": 1}, data={"id": 1}),
    # keys
    "no_key": v1(unique=None), "empty_key": v1(unique={}), "half_key": v1(unique={"id": 1, "k": 2}),
    "two_keys": v1(unique={"id": 1, "name": "a"}),
    # descriptions
    "schema_text": text_of(v1(), '"schema": null', '"schema": "no"'),
    "schema": text_of(v1(), '"schema": null', '"schema": {"type": "struct"}'),
    **BAD_LINES,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every message above, decoded in one read, by its name."""
    folder = tmp_path_factory.mktemp("cdl")
    return decode_named(spark, HuaweiCdl(), folder, MESSAGES)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("insert", "insert"), ("update", "update"), ("update_alone", "update"),
        ("delete", "delete"), ("truncate", "truncate"), ("ddl", "ddl"),
        ("insert_2", "insert"), ("update_2", "update"), ("delete_2", "delete"),
        ("alone", "insert"), ("alone_2", "delete"),
        ("read_2", "insert"), ("truncate_2", "truncate"), ("ddl_2", "ddl"),
        ("ddl_truncate", "truncate"), ("ddl_truncate_2", "ddl"),
        ("no_version", "insert"), ("no_version_2", "insert"), ("version_number", "insert"),
        ("heartbeat_table_elsewhere", "insert"),
    ],
)  # fmt: skip
def test_operations(rows: dict[str, Row], name: str, op: str) -> None:
    assert (rows[name]["outcome"], rows[name]["op"], rows[name]["raw"]) == ("event", op, None)
    assert rows[name]["reason"] is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((n, "heartbeat") for n in MESSAGES if n.startswith("heartbeat") and "else" not in n),
        ("begin_2", "transaction_marker"), ("end_2", "transaction_marker"),
        ("message_2", "logical_message"),
    ],
)  # fmt: skip
def test_heartbeats_and_markers_are_ignored(rows: dict[str, Row], name: str, reason: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("ignore", reason)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "unknown_op:MERGE"), ("wrong_case", "unknown_op:insert"),
        ("unknown_2", "unknown_op:x"), ("version_3", "unknown_version:3.0"),
        ("mixed", "not_an_envelope"), ("no_op_with_row", "not_an_envelope"),
        ("blank_op_with_row", "not_an_envelope"), ("unknown_bare", "unknown_op:MERGE"),
        ("empty", "not_an_envelope"), ("other", "not_an_envelope"),
        ("no_image", "image_missing"), ("no_image_2", "image_missing"),
        ("empty_image", "image_missing"),
        ("no_old_image", "image_missing"), ("no_table", "table_missing"),
        ("no_table_truncate", "table_missing"), ("twice", "duplicate_column"),
        ("twice_in_key", "duplicate_column"), ("twice_property", "duplicate_property"),
        ("bad_lobs", "bad_lob_columns"), ("mysql_bad", "bad_position"),
        ("oracle_bad", "bad_position"), ("mysql_no_pos", "bad_position"),
        ("oracle_no_scn", "bad_position"),
        *((f"lsn_{n}", "bad_position") for n in ("word", "fraction", "huge", "sqlserver_long")),
        ("empty_table", "table_missing"),
        *((name, "not_json") for name in BAD_LINES),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, MESSAGES[name])


def test_names_times_and_transactions(rows: dict[str, Row]) -> None:
    one, two = rows["insert"], rows["insert_2"]
    assert (one["database"], one["schema"], one["table"]) == (None, "public", "t")
    assert (two["database"], two["schema"], two["table"]) == ("cdl", "public", "t")
    assert (one["tx_id"], two["tx_id"]) == ("57227595", "57227663")
    assert one["source_ts"].timestamp() == 1707047996.013
    assert two["source_ts"].timestamp() == 1707048891.235
    assert rows["ddl"]["ddl"] == "ALTER TABLE t ADD c INT"
    assert rows["ddl_2"]["ddl"] == "DROP TABLE t"


def test_event_with_an_impossible_time_has_no_source_ts(rows: dict[str, Row]) -> None:
    for name in ("time_huge", "time_text"):
        assert (rows[name]["outcome"], rows[name]["source_ts"]) == ("event", None)


@pytest.mark.parametrize("version", ["", "_2"])
def test_images(rows: dict[str, Row], version: str) -> None:
    old, new = {"id": "1", "name": "a"}, {"id": "2", "name": "a"}
    expected = {"insert": (None, old), "update": (old, new), "delete": (old, None),
                "truncate": (None, None), "ddl": (None, None),
                "delete_by_unique": ({"id": "1"}, None),
                "delete_of_nothing": ({"id": "1"}, None)}  # fmt: skip
    for name, images in expected.items():
        row = rows[name + version]
        assert (row["before"], row["after"]) == images, name
    assert rows["insert_before"]["before"] is None


def test_the_key_of_an_update_is_the_old_one_where_it_differs(rows: dict[str, Row]) -> None:
    moved = {name: rows[name]["before"] for name in ("moved", "moved_2", "moved_in_other_case")}
    key = {"id": "1"}
    assert moved == {"moved": key, "moved_2": key, "moved_in_other_case": {"ID": "1"}}
    stayed = ("update_alone", "unmoved_in_other_case", "unmoved_half", "insert_of_another")
    assert [rows[name]["before"] for name in stayed] == [None] * 4
    assert rows["moved"]["old_absent"] == rows["delete_by_unique"]["old_absent"] == ["", "id"]


def test_values_keep_their_exact_text(rows: dict[str, Row]) -> None:
    assert rows["exact"]["after"] == {
        "id": "12345678901234567890.123456789", "x": "1.10", "big": "1e999", "n": None,
        "o": '{"k": 1.10}', "l": "[1, 2.50]", "b": "true", "s": " 1.10 ",
    }  # fmt: skip


LSN_POSITION = at(LSN, LSN)


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("insert", LSN_POSITION), ("insert_2", LSN_POSITION), ("lsn_text", LSN_POSITION),
        ("no_version", LSN_POSITION), ("lsn_binlog", at(3, 1234, 0)),
        ("lsn_binlog_slash", at(3, 1234, 0)), ("lsn_sqlserver", at(0x25, 0x728, 3)),
        # 0x26 * 2**32 + 0x2C85F750, and 0x26 * 2**32 + 10
        ("lsn_hex", at(163955734352, 163955734352)),
        ("lsn_hex_small", at(163208757258, 163208757258)),
        ("opengauss_2", at(16, 16)), ("no_snapshot_2", at(LSN, LSN)),
        ("lsn_long", at("9" * 40, "9" * 40)),
        ("paired_2", at(100, 90)), ("unpaired_2", at(90, 90)),
    ],
)  # fmt: skip
def test_changes_of_one_lsn_go_by_arrival(rows: dict[str, Row], name: str, position: str) -> None:
    """Behind the LSN stands the place in the landed files."""
    found = rows[name]["position"]
    assert (rows[name]["outcome"], found.startswith(f"{position}.")) == ("event", True)
    later = rows["lsn_tie"]["position"]
    assert position != LSN_POSITION or rows["insert"]["position"] <= found < later


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("truncate", LSN_POSITION), ("lsn_no_key", at(7, 7)),
        ("mysql", at(12, 345, 2)), ("mysql_lsn", at(12, 345, 2)), ("mysql_no_row", at(12, 345, 0)),
        ("oracle", at(99, 98, 10, 16, 1, 3)),
        ("oracle_scn", at(98, 98, 0, 0, 0, 0)),
        ("read_2", at(LSN, 1707048984208, kind=0)),
        ("snapshot_2", at(LSN, 1707048984208, kind=0)),
        ("snapshot_last_2", at(LSN, 1707048984209, kind=0)),
        ("snapshot_no_lsn_2", at(0, 1707048984208, kind=0)),
        *((name, None) for name in ("lsn_null", "no_lsn", "no_properties", "no_transaction",
                                    "null_property", "lsn_negative", "lsn_empty",
                                    "mysql_no_file")),
    ],
)  # fmt: skip
def test_positions(rows: dict[str, Row], name: str, position: str | None) -> None:
    assert (rows[name]["outcome"], rows[name]["position"]) == ("event", position)


def test_a_snapshot_is_below_every_change_and_a_later_one_above_it(rows: dict[str, Row]) -> None:
    first, later = rows["read_2"]["position"], rows["snapshot_later_2"]["position"]
    assert first < rows["snapshot_last_2"]["position"] < later < rows["opengauss_2"]["position"]


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("lob_null", ["a"]), ("lob_missing", ["a", "b"]), ("lob_sent", ["b"]),
        ("lob_cased", ["a", "C"]),
        ("lob_list", ["a"]), ("lob_list_text", ["a"]), ("lob_insert", None),
        ("lob_delete", None), ("lob_empty", None), ("unsent", ["a"]),
        ("unsent_list", ["a", "b"]), ("unsent_too", ["a", "b"]), ("left_out", ["a"]),
        ("unsent_ints", ["a"]),
        ("insert", None), ("update", None),
    ],
)  # fmt: skip
def test_unsent_values_are_absent(
    rows: dict[str, Row], name: str, absent: list[str] | None
) -> None:
    assert (rows[name]["outcome"], rows[name]["absent"]) == ("event", absent)


@pytest.mark.parametrize(
    ("name", "absent"),
    [("unsent_delete", ["a"]), ("lob_delete", ["a"]), ("delete_2", None), ("insert_before", None)],
)
def test_unsent_values_of_the_old_row_are_absent(
    rows: dict[str, Row], name: str, absent: list[str] | None
) -> None:
    assert (rows[name]["outcome"], rows[name]["old_absent"]) == ("event", absent)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("insert", ["id"]), ("delete_2", ["id"]), ("two_keys", ["id", "name"]),
        ("delete_by_unique", ["id"]), ("delete_of_nothing", ["id"]), ("no_key", None),
        ("empty_key", None), ("half_key", None), ("truncate", None), ("ddl", None),
    ],
)  # fmt: skip
def test_keys_are_given_or_left_open(rows: dict[str, Row], name: str, key: list[str]) -> None:
    assert rows[name]["key"] == key


def test_schema_that_is_no_object_describes_no_types(rows: dict[str, Row]) -> None:
    assert rows["schema_text"]["types"] is None
    assert rows["insert"]["types"] is None
    assert json.loads(rows["schema"]["types"]) == {"type": "struct"}
    assert read_description(HuaweiCdl(), rows["schema"]["types"], DEFAULTS) == []


def test_options(spark: SparkSession, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "o.jsonl", [v1(data={"id": 1, "a": "gone"}), v2()])
    given = HuaweiCdlOptions(database="mine", unavailable_value=["gone"])
    one, two = HuaweiCdl().read(spark, (file,), given).collect()
    assert (one["database"], one["absent"]) == ("mine", ["a"])
    assert (two["database"], two["absent"]) == ("cdl", None)


def test_the_vendors_examples(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "seed-examples"
    paths = [p for f in ("cdl-json", "cdl-debezium-json") for p in sorted((folder / f).iterdir())]
    file = jsonl(tmp_path / "examples.jsonl", [json.loads(p.read_text()) for p in paths])
    one, two = HuaweiCdl().read(spark, (file,), DEFAULTS).collect()
    for row in (one, two):
        assert (row["outcome"], row["op"], row["key"]) == ("event", "insert", ["id"])
        assert (row["schema"], row["table"]) == ("public", "ct_pg2hudi")
        assert (row["before"], row["absent"]) == (None, None)
    assert one["after"] == {"count1": "13", "id": "34", "time1": None, "decimalNum": None}
    assert two["after"] == {"count1": "14", "id": "35", "time1": None, "decimalNum": None}
    places = [at(163955221008, 163955221008), at(163955586912, 163955586912)]
    assert [r["position"].rsplit(".", 3)[0] for r in (one, two)] == places
    types = [
        [(c.name, c.type) for c in HuaweiCdl().columns(r["types"], DEFAULTS)] for r in (one, two)
    ]
    times = (ColumnType("timestamp_ntz", "ms"), ColumnType("timestamp_ntz"))
    for described, time in zip(types, times, strict=True):
        assert described == [
            ("count1", ColumnType("bigint")), ("id", ColumnType("int")),
            ("time1", time), ("decimalNum", STRING),
        ]  # fmt: skip
