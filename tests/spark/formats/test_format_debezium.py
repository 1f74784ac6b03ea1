"""Debezium JSON: every form of a record, and the order of five connectors."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import DebeziumOptions
from spark_jobs.formats.debezium.decoder import Debezium
from tests.spark.debezium_events import DEFAULT_PLACEHOLDER, ROW, event, source
from tests.spark.envelopes import assert_event, at, decode_named, jsonl

DEFAULTS = DebeziumOptions()
pytestmark = pytest.mark.spark

TEXT = {"id": "1", "name": "a"}
UNTOLD = 10**40 - 1
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "before", "type": "struct", "fields": [{"field": "id", "type": "int32"}]},
        {"field": "after", "type": "struct", "fields": [{"field": "id", "type": "int32"}]},
    ],
}


def streamed(connector: str, **fields: Any) -> dict[str, Any]:
    return event(src=source(connector, **fields))


def raw(**replaced: str) -> str:
    """An event's text with the images written by hand."""
    text = json.dumps(event())
    for name, image in replaced.items():
        text = text.replace(f'"{name}": {json.dumps(event()[name])}', f'"{name}": {image}')
    return text


BASE64 = base64.b64encode(DEFAULT_PLACEHOLDER.encode()).decode()
HSTORE = {DEFAULT_PLACEHOLDER: DEFAULT_PLACEHOLDER}
CHANGED_SCHEMA = {"source": source("sqlserver"), "ts_ms": 5, "databaseName": "shop",
                  "schemaName": "dbo", "ddl": None,
                  "tableChanges": [{"type": "CREATE"}]}  # fmt: skip


def compact(value: Any) -> str:
    """JSON as Connect's converter writes it."""
    return json.dumps(value, separators=(",", ":"))


EVENTS: dict[str, Any] = {
    # forms
    "plain": event(), "schema": {"schema": SCHEMA, "payload": event()},
    "schema_null": {"schema": None, "payload": event("d")},
    "keyed": {"key": {"id": 1}, "value": event("u")},
    "keyed_schema": {
        "key": {"schema": {"type": "struct"}, "payload": {"id": 1, "name": "a"}},
        "value": {"schema": SCHEMA, "payload": event("u")},
    },
    "key_null": {"key": None, "value": event()}, "key_number": {"key": 1001, "value": event("u")},
    "key_text": {"key": "a^b", "value": {"payload": event()}},
    "key_list": {"key": [1], "value": event("d")},
    "key_in_text": {"key": '{"id":1}', "value": event()},
    "key_number_schema": {"key": {"schema": {"type": "int32"}, "payload": 1}, "value": event()},
    "spaced": '  {"op" : "c",\t"after":{"id":1,"name":"a"}, "source":' + json.dumps(source()) + "}",
    # operations
    "update": event("u"), "update_before": event("u", before=ROW),
    "delete": event("d"), "delete_by_key": {"key": {"id": 1}, "value": event("d", before=None)},
    "delete_by_key_schema": {
        "key": {"schema": {"type": "struct"}, "payload": {"id": 1}},
        "value": {"schema": None, "payload": event("d", before=None)}},
    "read": event("r", ts_ms=1704164645999),
    "truncate": event("t", after=None),
    "ddl": {"source": source(), "databaseName": "shop", "ddl": "ALTER TABLE t ADD c INT",
            "tableChanges": [{"type": "ALTER"}], "ts_ms": 5},
    "ddl_schema": {"schema": {}, "payload": {
        "source": source("postgresql"), "databaseName": "shop", "schemaName": "public",
        "ddl": "CREATE TABLE t (id int)"}},
    "ddl_of_change": {"source": {**source(), "snapshot": "false"}, "databaseName": "shop",
                      "ddl": "DROP TABLE t"},
    "ddl_of_snapshot": {"source": {**source(), "snapshot": "true"}, "databaseName": "shop",
                        "ddl": "DROP TABLE IF EXISTS `shop`.`t`"},
    "ddl_no_text": CHANGED_SCHEMA,
    "ddl_no_text_keyed": {"key": {"databaseName": "shop"}, "value": CHANGED_SCHEMA},
    # nothing to load
    "tombstone": {"key": {"id": 1}, "value": None},
    "tombstone_schema": {"key": {"schema": {}, "payload": {"id": 1}}, "value": None},
    "message": event("m", after=None, message={"prefix": "p", "content": "AA=="}),
    "heartbeat": {"ts_ms": 1704164645678},
    "heartbeat_schema": {"schema": {"type": "struct"}, "payload": {"ts_ms": 1704164645678}},
    "heartbeat_keyed": {"key": {"serverName": "s"}, "value": {"ts_ms": 1}},
    "begin": {"status": "BEGIN", "id": "571:53195829", "event_count": None, "ts_ms": 5},
    "end": {"status": "END", "id": "571:53195832", "event_count": 2,
            "data_collections": [{"data_collection": "s1.a", "event_count": 1}]},
    "begin_schema": {"schema": {}, "payload": {"status": "BEGIN", "id": "571"}},
    # rejects
    "garbage": "{not json",
    "cut": json.dumps(event())[:40],
    "text": '"text"',
    "bare_number": "17",
    "unwrapped": ROW,
    "unwrapped_keyed": {"key": {"id": 1}, "value": ROW},
    "unwrapped_op": ROW | {"op": "c"},
    "empty_object": {},
    "unknown_op": event("x"),
    "unknown_op_changes": event("x", tableChanges=[]),
    "key_alone": {"key": 1001, "other": 1},
    "key_line": {"schema": {"type": "struct", "name": "srv.shop.t.Key"}, "payload": {"id": 1}},
    "no_after": event("c", after=None),
    "no_before": event("d", before=None),
    "no_before_number": {"key": 1, "value": event("d", before=None)},
    "no_before_empty": {"key": {}, "value": event("d", before=None)},
    "avro_json": event(after={"s.shop.t.Value": ROW}, ts_ms={"long": 5}),
    "no_table": event(src=source(table=None)), "empty_table": event("d", src=source(table="")),
    "no_source": event("u", source=None), "no_table_truncate": event("t", src={}, after=None),
    # values
    "exact": raw(after='{"id":12345678901234567890.123456789,"x":1.10,"n":null,"e":1e999,'
                       '"o":{"b":[1.0,{"c":null}]},"t":true,"s":" ü\\u0000\\n"}'),
    "nan": raw(after='{"id":1,"f":"NaN"}'),
    "absent": event("u", after=ROW | {"doc": DEFAULT_PLACEHOLDER, "note": None}),
    "absent_base64": event("u", after=ROW | {"doc": BASE64}),
    "absent_hex": event("u", after=ROW | {"doc": DEFAULT_PLACEHOLDER.encode().hex()}),
    "absent_list": event("u", after=ROW | {"doc": [DEFAULT_PLACEHOLDER]}),
    **{f"absent_{name}": compact(event("u", after=ROW | {"doc": value})) for name, value in {
        "ints": list(DEFAULT_PLACEHOLDER.encode()), "bytes_list": [BASE64],
        "uuids": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], "hstore": HSTORE,
        "hstore_text": compact(HSTORE)}.items()},
    "not_absent_ints": compact(event("u", after=ROW | {"doc": [95, 95]})),
    "absent_two": event("u", after={"id": 1, "a": DEFAULT_PLACEHOLDER, "b": DEFAULT_PLACEHOLDER}),
    "not_absent": event("u", after=ROW | {"doc": DEFAULT_PLACEHOLDER + "!"}),
    # order
    "mysql_earlier": streamed("mysql", file="binlog.999999", pos=999, row=3),
    "mysql_later": streamed("mysql", file="binlog.1000000", pos=4, row=0),
    "mysql_row": streamed("mysql", file="binlog.000009", pos=5, row=10),
    "mariadb": streamed("mariadb", file="mysql-bin.000002", pos=100, row=1),
    "pg_first": streamed("postgresql", lsn=900, sequence='["100","900"]', txId=7),
    "pg_second": streamed("postgresql", lsn=500, sequence='["1000","500"]'),
    "pg_third": streamed("postgresql", lsn=1001, sequence='["1000","1001"]'),
    "pg_no_commit": streamed("postgresql", lsn=50, sequence='[null,"50"]'),
    "pg_bare": streamed("postgresql", lsn=77),
    "pg_after_start": streamed("postgresql", lsn=5000, sequence='[null,"5000"]'),
    "pg_16_first": streamed("postgresql", lsn=1100, sequence='["1002","1002"]'),
    "pg_16_second": streamed("postgresql", lsn=1200, sequence='["1002","1002"]'),
    "pg_no_lsn": streamed("postgresql", lsn=None, sequence='["10","20"]'),
    "oracle_first": streamed("oracle", scn="99", commit_scn="100", rs_id="0x0000ff.00000010.0001",
                             ssn=9),
    "oracle_second": streamed("oracle", scn="9", commit_scn="1000", rs_id=" 0x1.2.3 ", ssn=0),
    "oracle_bare": streamed("oracle", scn="5"),
    "oracle_other_commit": streamed("oracle", scn="600", commit_scn="100", rs_id="0x1.2.3", ssn=0),
    "xstream_first": streamed("oracle", scn="200", lcr_position="00000000000000C8" * 3 + "0001",
                              rs_id=None, ssn=0),
    "xstream_second": streamed("oracle", scn="200", lcr_position="00000000000000c8" * 3 + "00010000"
                               "00000001", ssn=0),
    "xstream_third": streamed("oracle", scn="200", lcr_position="00000000000000C9", ssn=0),
    "xstream_bad": streamed("oracle", scn="200", lcr_position="x", ssn=0),
    "sqlserver": streamed("sqlserver", commit_lsn="00000027:00000758:0005",
                          change_lsn="00000027:00000758:0003", event_serial_no=1),
    "sqlserver_second": streamed("sqlserver", commit_lsn="00000027:00000758:0005",
                                 change_lsn="00000027:00000758:0003", event_serial_no=2),
    "sqlserver_later": streamed("sqlserver", commit_lsn="00000100:00000001:0001",
                                change_lsn="00000027:00000001:0001", event_serial_no=1),
    "ticdc": streamed("TiCDC", file="", pos=0, row=0, commit_ts=447507027004751877),
    "ticdc_later": streamed("TiCDC", file="", pos=0, row=0, commit_ts=1000000000000000000),
    "ticdc_unplaced": streamed("TiCDC", file="", pos=0, row=0),
    "other": streamed("db2", change_lsn="x"),
    "vitess": streamed("vitess", db="", keyspace="shop", shard="0", vgtid="[]"),
    "pg_snapshot": event("r", src=source("postgresql", lsn=5, sequence='[null,"5"]'),
                         ts_ns=1704164645000000007),
    "pg_incremental": event("r", src=source("postgresql", lsn=None, sequence=None),
                            ts_us=1704164645000009),
    "pg_incremental_placed": event("r", src=source("postgresql", lsn=None, sequence='["900","901"]',
                                                   snapshot="incremental"), ts_ms=1704164645999),
    "mysql_snapshot_before": event("r", src=source(file="binlog.000009", pos=900), ts_ms=7),
    "mysql_snapshot_after": event("r", src=source(file="binlog.000010", pos=4), ts_ms=8),
    "mysql_snapshot_last": event("r", src=source(file="binlog.1000000", pos=4), ts_ms=9),
    "snapshot_bare": event("r", src=source("mysql", file="", pos=0)),
    "microseconds": event(src=source(ts_us=1704164645678901)),
    "time_huge": event(src=source(ts_ms=9223372036854775807)),
    "time_huge_us": event(src=source(ts_us=9223372036854775807)),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every event above, decoded in one read, by its name."""
    return decode_named(spark, Debezium(), tmp_path_factory.mktemp("debezium"), EVENTS)


def test_every_line_is_one_record(rows: dict[str, Row]) -> None:
    assert list(rows) == list(EVENTS)


@pytest.mark.parametrize(
    ("name", "op", "before", "after"),
    [
        ("plain", "insert", None, TEXT), ("schema", "insert", None, TEXT),
        ("schema_null", "delete", TEXT, None), ("keyed", "update", None, TEXT),
        ("keyed_schema", "update", None, TEXT), ("key_null", "insert", None, TEXT),
        ("spaced", "insert", None, TEXT), ("update", "update", None, TEXT),
        ("update_before", "update", TEXT, TEXT), ("delete", "delete", TEXT, None),
        ("delete_by_key", "delete", {"id": "1"}, None),
        ("delete_by_key_schema", "delete", {"id": "1"}, None),
        ("read", "insert", None, TEXT), ("truncate", "truncate", None, None),
        ("ddl", "ddl", None, None), ("ddl_schema", "ddl", None, None),
        ("ddl_of_change", "ddl", None, None),
        ("ddl_no_text", "ddl", None, None), ("ddl_no_text_keyed", "ddl", None, None),
        ("key_number", "update", None, TEXT), ("key_text", "insert", None, TEXT),
        ("key_list", "delete", TEXT, None), ("key_number_schema", "insert", None, TEXT),
    ],
)  # fmt: skip
def test_events(
    rows: dict[str, Row], name: str, op: str, before: dict[str, str], after: dict[str, str]
) -> None:
    row = rows[name]
    assert_event(row, op)
    assert (row["before"], row["after"]) == (before, after)
    assert (row["database"], row["table"]) == ("shop", "t")


def test_a_keyspace_of_vitess_is_a_database(rows: dict[str, Row]) -> None:
    row = rows["vitess"]
    assert (row["outcome"], row["position"]) == ("event", None)
    assert (row["database"], row["schema"], row["table"]) == ("shop", None, "t")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tombstone", "tombstone"), ("tombstone_schema", "tombstone"),
        ("message", "logical_message"), ("heartbeat", "heartbeat"),
        ("heartbeat_schema", "heartbeat"), ("begin", "transaction_marker"),
        ("end", "transaction_marker"), ("begin_schema", "transaction_marker"),
        ("ddl_of_snapshot", "snapshot_schema"),
    ],
)  # fmt: skip
def test_records_without_a_change_are_ignored(rows: dict[str, Row], name: str, reason: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("ignore", reason)


def test_a_heartbeat_with_a_key_is_ignored(rows: dict[str, Row]) -> None:
    assert rows["heartbeat_keyed"]["outcome"] == "ignore"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("garbage", "not_json"), ("cut", "not_json"), ("text", "not_json"),
        ("bare_number", "not_json"), ("unwrapped", "not_an_envelope"),
        ("unwrapped_keyed", "not_an_envelope"),
        ("unwrapped_op", "image_missing"), ("empty_object", "not_an_envelope"),
        ("unknown_op", "unknown_op:x"), ("no_after", "image_missing"),
        ("unknown_op_changes", "unknown_op:x"), ("key_alone", "not_an_envelope"),
        ("no_before", "image_missing"), ("no_table", "table_missing"),
        ("no_before_number", "image_missing"), ("no_before_empty", "image_missing"),
        ("avro_json", "avro_json_encoding"), ("key_line", "key_without_value"),
        ("empty_table", "table_missing"), ("no_source", "table_missing"),
        ("no_table_truncate", "table_missing"),
    ],
)  # fmt: skip
def test_rejects_say_why(rows: dict[str, Row], name: str, reason: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("reject", reason)
    if reason == "not_json":
        assert rows[name]["raw"] == EVENTS[name]


def test_flattened_events_are_rejected_by_their_own_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As ExtractNewRecordState leaves them, with the fields that it may be told to add."""
    flattened = [
        ROW | {"__op": "c", "__lsn": 5},
        {"schema": {}, "payload": ROW | {"__deleted": "true", "ts_ms": 5}},
        {"key": {"id": 1}, "value": ROW | {"__op": "d", "__deleted": "true"}},
        ROW,
    ]
    found = Debezium().read(spark, (jsonl(tmp_path / "a.jsonl", flattened),), DEFAULTS).collect()
    assert [r["reason"] for r in found] == ["flattened_event"] * 3 + ["not_an_envelope"]
    assert {r["outcome"] for r in found} == {"reject"}


def test_ddl_keeps_its_text(rows: dict[str, Row]) -> None:
    assert rows["ddl"]["ddl"] == "ALTER TABLE t ADD c INT"
    assert rows["ddl_schema"]["schema"] == "public"
    assert (rows["ddl_no_text"]["ddl"], rows["ddl_no_text"]["schema"]) == (None, "public")


def test_keys_and_types(rows: dict[str, Row]) -> None:
    assert rows["plain"]["key"] is None
    assert rows["key_null"]["key"] is None
    assert rows["keyed"]["key"] == ["id"]
    assert rows["keyed_schema"]["key"] == ["id", "name"]
    assert rows["key_in_text"]["key"] == ["id"]
    for name in ("key_number", "key_text", "key_list", "key_number_schema"):
        assert rows[name]["key"] is None
    for name in ("schema", "keyed_schema"):
        assert [c.name for c in Debezium().columns(rows[name]["types"], DEFAULTS)] == ["id"]
    assert rows["plain"]["types"] is None
    assert rows["schema_null"]["types"] is None


def test_images_keep_null_and_exact_text(rows: dict[str, Row]) -> None:
    assert rows["exact"]["after"] == {
        "id": "12345678901234567890.123456789", "x": "1.10", "n": None, "e": "1e999",
        "o": '{"b":[1.0,{"c":null}]}', "t": "true", "s": " ü\0\n",
    }  # fmt: skip
    assert rows["nan"]["after"] == {"id": "1", "f": "NaN"}


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("plain", None), ("absent", ["doc"]), ("absent_base64", ["doc"]), ("absent_hex", ["doc"]),
        ("absent_list", ["doc"]), ("absent_two", ["a", "b"]), ("not_absent", None),
        ("absent_ints", ["doc"]), ("absent_bytes_list", ["doc"]), ("absent_uuids", ["doc"]),
        ("absent_hstore", ["doc"]), ("absent_hstore_text", ["doc"]), ("not_absent_ints", None),
    ],
)  # fmt: skip
def test_values_that_were_not_sent(
    rows: dict[str, Row], name: str, absent: list[str] | None
) -> None:
    assert rows[name]["absent"] == absent


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("plain", at(9, 5, 0)), ("mariadb", at(2, 100, 1)), ("pg_first", at(100, 900)),
        ("pg_no_commit", at(50, 50)), ("pg_bare", at(77, 77)), ("pg_no_lsn", at(10, 20)),
        ("pg_16_first", at(1002, 1100)),
        ("oracle_first", at(100, 99, 255, 16, 1, 9)), ("oracle_second", at(1000, 9, 1, 2, 3, 0)),
        ("oracle_bare", at(5, 5, 0, 0, 0, 0)), ("oracle_other_commit", at(600, 600, 1, 2, 3, 0)),
        ("xstream_first", at(200, 200, 200, 200, 200, 1 << 48)), ("xstream_bad", None),
        ("sqlserver", at(0x27, 0x758, 5, 0x27, 0x758, 3, 1)), ("other", None),
        ("ticdc", at(447507027004751877)), ("ticdc_unplaced", None),
        ("pg_snapshot", at(5, 1704164645000000007, kind=0)),
        ("pg_incremental", at(UNTOLD, 1704164645000009000, kind=0)),
        ("pg_incremental_placed", at(900, 900)),
        ("read", at(9 * 10**20 + 5, 1704164645999000000, kind=0)),
        ("snapshot_bare", at(UNTOLD, 0, kind=0)),
        ("truncate", at(9, 5, 0)),
    ],
)  # fmt: skip
def test_positions(rows: dict[str, Row], name: str, position: str | None) -> None:
    assert rows[name]["position"] == position


@pytest.mark.parametrize(
    "names",
    [
        ("pg_snapshot", "mysql_earlier"), ("read", "plain"), ("pg_snapshot", "pg_incremental"),
        ("mysql_snapshot_before", "mysql_snapshot_after", "mysql_snapshot_last", "snapshot_bare",
         "plain"),
        ("plain", "mysql_row", "mysql_earlier", "mysql_later"),
        ("pg_no_commit", "pg_first", "pg_second", "pg_third", "pg_16_first", "pg_16_second",
         "pg_after_start"),
        ("oracle_bare", "oracle_first", "oracle_second"),
        ("xstream_first", "xstream_second", "xstream_third"),
        ("sqlserver", "sqlserver_second", "sqlserver_later"), ("ticdc", "ticdc_later"),
    ],
)  # fmt: skip
def test_positions_sort_as_the_source_orders(rows: dict[str, Row], names: tuple[str, ...]) -> None:
    positions = [rows[name]["position"] for name in names]
    assert positions == sorted(positions)
    assert len(set(positions)) == len(positions)


def test_source_time_and_transaction(rows: dict[str, Row]) -> None:
    assert str(rows["plain"]["source_ts"]) == "2024-01-02 03:04:05.678000"
    assert str(rows["microseconds"]["source_ts"]) == "2024-01-02 03:04:05.678901"
    assert rows["pg_first"]["tx_id"] == "7"


def test_event_with_an_impossible_time_has_no_source_ts(rows: dict[str, Row]) -> None:
    assert (rows["time_huge"]["outcome"], rows["time_huge"]["source_ts"]) == ("event", None)
    assert str(rows["time_huge_us"]["source_ts"]) == "2024-01-02 03:04:05.678000"


def test_a_column_that_comes_twice_keeps_both_names(spark: SparkSession, tmp_path: Path) -> None:
    """The changelog quarantines them: nobody can say which value is meant."""
    file = jsonl(tmp_path / "twice.jsonl", [raw(after='{"id":1,"id":2}')])
    decoded = Debezium().read(spark, (file,), DEFAULTS)
    (row,) = decoded.selectExpr("map_keys(after) AS names").collect()
    assert row["names"] == ["id", "id"]


def test_the_placeholder_is_an_option(spark: SparkSession, tmp_path: Path) -> None:
    values = ("gone", "skipped", "c2tpcHBlZA==", DEFAULT_PLACEHOLDER)
    file = jsonl(tmp_path / "p.jsonl", [event("u", after=ROW | {"doc": v}) for v in values])
    for placeholder, count in (("gone", 1), (["gone", "skipped"], 3)):
        options = DebeziumOptions.model_validate({"unavailable_value": placeholder})
        decoded = Debezium().read(spark, (file,), options).collect()
        assert [r["absent"] for r in decoded] == [["doc"]] * count + [None] * (4 - count)
