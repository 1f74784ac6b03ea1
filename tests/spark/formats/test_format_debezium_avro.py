"""Debezium in Avro: containers, wire messages, their spellings, orders and schemas."""

from __future__ import annotations

import json
import struct
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import DebeziumOptions
from sluice.errors import TerminalError
from spark_jobs.formats.base import PriorFacts
from spark_jobs.formats.debezium.decoder import Debezium
from tests.registry import serving
from tests.spark.avroevents import (
    DDL,
    HEARTBEAT,
    KEY,
    KEYED,
    LATER,
    NEWER_TRANSACTION,
    PRICED,
    ROW,
    TRANSACTION,
    UNWRAPPED,
    b64,
    container,
    datum,
    decode,
    envelope,
    event,
    optional,
    pairs,
    semantic,
    source,
    wire,
    write_schemas,
)
from tests.spark.envelopes import assert_event, at, by_name, jsonl

DEFAULTS = DebeziumOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]


MESSAGES: dict[str, tuple[bytes | None, bytes | None]] = {
    "insert": (KEYED, wire(1, ROW, event())),
    "update": (KEYED, wire(1, ROW, event("u", before={"id": 1, "name": "b"}))),
    "delete": (KEYED, wire(1, ROW, event("d"))),
    "delete_by_key": (KEYED, wire(1, ROW, event("d", before=None))),
    "read": (KEYED, wire(1, ROW, event("r", ts_ms=1704164645999))),
    "truncate": (None, wire(1, ROW, event("t", after=None))),
    "message": (None, wire(1, ROW, event("m", after=None, message={"prefix": "p"}))),
    "evolved": (KEYED, wire(7, LATER, event("u", PRICED))),
    "tombstone": (KEYED, None),
    "tombstone_unkeyed": (None, None),
    "heartbeat": (None, wire(3, HEARTBEAT, {"ts_ms": 5})),
    "transaction": (None, wire(4, TRANSACTION, {"status": "BEGIN", "id": "9", "ts_ms": 5})),
    "newer": (None, wire(8, NEWER_TRANSACTION, {"status": "END", "id": "9", "ts_ms": 5,
                                                "event_count": 1, "data_collections": ["t"],
                                                "commit_lsn": 7})),
    "ddl": (None, wire(5, DDL, {"source": source(), "ts_ms": 5, "databaseName": "shop",
                                "ddl": "CREATE TABLE t (id int)"})),
    "ddl_no_text": (KEYED, wire(5, DDL, {"source": source(), "ts_ms": 5, "databaseName": "shop",
                                         "tableChanges": [{"type": "ALTER"}]})),
    "text_key": (b"some text", wire(1, ROW, event())),
    # rejects
    "unwrapped": (KEYED, wire(6, UNWRAPPED, {"id": 1})),
    "no_after": (KEYED, wire(1, ROW, event("u", after=None))),
    "no_table": (KEYED, wire(1, ROW, event(src=source(table="")))),
    "unknown_op": (None, wire(1, ROW, event("x"))),
    "unknown_schema": (KEYED, wire(99, ROW, event())),
    "unknown_key_schema": (wire(98, KEY, {"id": 1}), wire(1, ROW, event())),
    "no_magic": (KEYED, b"\1" + wire(1, ROW, event())[1:]),
    "json": (None, b'{"op":"c"}'),
    "long_id": (None, b"\0" + struct.pack(">q", 1) + datum(ROW, event())),
    "head_only": (None, b"\0\0\0"),
    "empty": (None, b""),
    "cut": (KEYED, wire(1, ROW, event())[:-3]),
    "no_datum": (None, wire(1, ROW, event())[:5]),
    "bytes_left": (KEYED, wire(1, ROW, event()) + b"\0"),
    "other_schema": (KEYED, b"\0" + struct.pack(">i", 7) + datum(ROW, event())),
    "garbage": (None, b"\0\0\0\0\1" + bytes(range(255, 180, -1))),
    "cut_key": (KEYED[:-1], wire(1, ROW, event())),
}  # fmt: skip
REASONS = {
    "unwrapped": "not_an_envelope", "no_after": "image_missing", "unknown_op": "unknown_op:x",
    "no_table": "table_missing",
    "unknown_schema": "unknown_schema_id:99", "unknown_key_schema": "unknown_schema_id:98",
    "no_magic": "not_confluent_avro", "json": "not_confluent_avro",
    "long_id": "not_confluent_avro",
    "head_only": "not_confluent_avro", "cut": "not_avro", "no_datum": "not_avro",
    "bytes_left": "not_avro", "other_schema": "not_avro", "garbage": "not_avro",
    "cut_key": "not_avro", "empty": "not_confluent_avro",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_schemas(tmp_path_factory.mktemp("schemas"))


@pytest.fixture(scope="module")
def rows(
    spark: SparkSession, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Row]:
    """Every message above, decoded in one read, by its name."""
    file = jsonl(tmp_path_factory.mktemp("wire") / "all.jsonl", pairs(MESSAGES.values()))
    found = decode(spark, file, layout="base64", schemas=str(folder))
    names = list(MESSAGES)
    return by_name(found, lambda row: names[row["ordinal"]])


def test_every_message_is_one_record(rows: dict[str, Row]) -> None:
    assert list(rows) == list(MESSAGES)


@pytest.mark.parametrize(
    ("name", "op", "before", "after"),
    [
        ("insert", "insert", None, {"id": "1", "name": "a"}),
        ("update", "update", {"id": "1", "name": "b"}, {"id": "1", "name": "a"}),
        ("delete", "delete", {"id": "1", "name": "a"}, None),
        ("delete_by_key", "delete", {"id": "1"}, None),
        ("read", "insert", None, {"id": "1", "name": "a"}),
        ("truncate", "truncate", None, None), ("ddl", "ddl", None, None),
        ("ddl_no_text", "ddl", None, None),
        ("text_key", "insert", None, {"id": "1", "name": "a"}),
    ],
)  # fmt: skip
def test_events(
    rows: dict[str, Row], name: str, op: str, before: dict[str, str], after: dict[str, str]
) -> None:
    row = rows[name]
    assert_event(row, op)
    assert (row["before"], row["after"]) == (before, after)
    assert (row["database"], row["table"]) == ("shop", "t")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tombstone", "tombstone"), ("tombstone_unkeyed", "tombstone"),
        ("heartbeat", "heartbeat"), ("transaction", "transaction_marker"),
        ("newer", "transaction_marker"), ("message", "logical_message"),
    ],
)  # fmt: skip
def test_avro_records_without_a_change_are_ignored(
    rows: dict[str, Row], name: str, reason: str
) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("ignore", reason)


@pytest.mark.parametrize("name", list(REASONS))
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("reject", REASONS[name])
    key, value = MESSAGES[name]
    assert json.loads(rows[name]["raw"]) == {"key": b64(key), "value": b64(value)}


def test_key_comes_from_the_record_key(rows: dict[str, Row]) -> None:
    assert rows["insert"]["key"] == ["id"]
    assert rows["text_key"]["key"] is None
    assert rows["truncate"]["key"] is None


def test_ddl_and_positions(rows: dict[str, Row]) -> None:
    assert rows["ddl"]["ddl"] == "CREATE TABLE t (id int)"
    assert rows["insert"]["position"] == at(9, 5, 0)
    assert rows["read"]["position"] == at(9 * 10**20 + 5, 1704164645999000000, kind=0)
    assert str(rows["insert"]["source_ts"]) == "2024-01-02 03:04:05.678000"


def test_schemas_of_one_file_keep_their_own_types(rows: dict[str, Row]) -> None:
    names = {n: [c.name for c in Debezium().columns(rows[n]["types"], DEFAULTS)]
             for n in ("insert", "evolved")}  # fmt: skip
    assert names == {"insert": ["id", "name"], "evolved": ["id", "name", "price"]}
    assert rows["evolved"]["after"] == {"id": "1", "name": None, "price": b64(b"\x00\x96")}


def test_other_spellings_of_lines(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    value, key = b64(wire(1, ROW, event())), b64(KEYED)
    lines = [
        f"{key}^{value}", f'"{key}"^"{value}"', f"{value}", f'"{value}"', f"{key}^", "",
        "not base64!", '{"key":"AA', '{"key":null}', f'{{"value":"{value}"}}',
        f'{{"value":null,"value":"{value}"}}',
    ]  # fmt: skip
    found = decode(spark, jsonl(tmp_path / "l.txt", lines), layout="base64", schemas=str(folder))
    assert [(r["op"], r["key"]) for r in found[:4]] == [("insert", k) for k in (
        ["id"], ["id"], None, None)]  # fmt: skip
    assert [r["reason"] for r in found[4:]] == [
        "tombstone", "not_base64", "not_json", "not_an_envelope", None, "not_an_envelope"
    ]  # fmt: skip
    assert found[5]["raw"] == "not base64!"


def test_containers_of_envelopes_pairs_and_messages(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    keyed = {"type": "record", "name": "Pair", "fields": [
        {"name": "key", **optional(KEY)}, {"name": "value", **optional(ROW)},
        {"name": "offset", "type": "long"}]}  # fmt: skip
    carried = {"type": "record", "name": "Carried", "fields": [
        {"name": "key", **optional("bytes")}, {"name": "value", **optional("bytes")}]}  # fmt: skip
    read = decode(
        spark,
        container(tmp_path / "a.avro", ROW, [event(), event("x")]),
        container(tmp_path / "b.avro", LATER, [event("u", PRICED)], codec="null"),
        container(tmp_path / "c.avro", keyed, [
            {"key": {"id": 1}, "value": event("d"), "offset": 1},
            {"key": {"id": 1}, "value": None, "offset": 2}]),
        container(tmp_path / "d.avro", carried, [
            {"key": KEYED, "value": wire(1, ROW, event())},
            {"key": KEYED, "value": None}, {"key": None, "value": b"?"}]),
        jsonl(tmp_path / "e.jsonl", [event()]),
        schemas=str(folder),
    )  # fmt: skip
    outcomes = [(r["op"], r["reason"], r["key"]) for r in read]
    assert outcomes == [
        ("insert", None, None), (None, "unknown_op:x", None), ("update", None, None),
        ("delete", None, ["id"]), (None, "tombstone", ["id"]), ("insert", None, ["id"]),
        (None, "tombstone", ["id"]), (None, "not_confluent_avro", None), ("insert", None, None),
    ]  # fmt: skip
    assert json.loads(read[1]["raw"])["op"] == "x"
    assert read[7]["raw"] == "Pw=="
    assert read[2]["after"] == {"id": "1", "name": None, "price": b64(b"\x00\x96")}
    assert {r["position"] for r in read if r["op"]} == {at(9, 5, 0)}


def test_files_that_are_no_envelopes_are_named(spark: SparkSession, tmp_path: Path) -> None:
    flat = container(tmp_path / "flat.avro", UNWRAPPED, [{"id": 1}])
    with pytest.raises(TerminalError, match=r"flat\.avro is not a Debezium Avro file"):
        decode(spark, flat)
    nested = {"type": "record", "name": "N", "fields": [{"name": "op", "type": ["null", "N"]}]}
    with pytest.raises(TerminalError, match=r"nested\.avro: no Avro schema that can be read"):
        decode(spark, container(tmp_path / "nested.avro", nested, [{"op": None}]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "base64"}, "say in format_options where the schemas are"),
        ({"layout": "avro_json"}, "no line KEYSCHEMA.*take `layout` out"),
    ],
)
def test_options_that_are_wrong_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(TerminalError, match=message):
        decode(spark, jsonl(tmp_path / "x.jsonl", ["AA=="]), **options)


def test_a_file_of_many_schemas(spark: SparkSession, tmp_path: Path) -> None:
    """Of tables whose names begin with a digit: so do their namespaces, against Avro's rules."""
    tables = range(1, 41)
    schemas = {
        i: envelope({"id": {"type": "int"}, f"c{i}": optional("string")}, f"srv.shop.{i}t")
        for i in tables
    }
    (tmp_path / "s.json").write_text(json.dumps(schemas))
    rows = {i: {"id": i, f"c{i}": "x"} for i in tables}
    messages = [
        (None, wire(i, schemas[i], event(row=rows[i], src=source(table=f"t{i}")))) for i in tables
    ]
    file = jsonl(tmp_path / "m.jsonl", pairs(messages))
    found = decode(spark, file, layout="base64", schemas=str(tmp_path / "s.json"))
    assert [r["table"] for r in found] == [f"t{i}" for i in tables]
    assert [r["after"] for r in found] == [{"id": str(i), f"c{i}": "x"} for i in tables]


def test_a_known_batch_reads_no_more_than_it_needs(spark: SparkSession, tmp_path: Path) -> None:
    """The schema's name tells the connector; events of another are rejected."""
    schema = deepcopy(ROW)
    schema["fields"][2]["type"]["namespace"] = "io.debezium.connector.mysql"
    row = {"id": 1, "name": "a"}
    events = [event("u", row, before=row), event("u", row, source("oracle", scn="1"))]
    file = container(tmp_path / "k.avro", schema, events)
    known = PriorFacts(frozenset({"id"}), partial=False)
    mine, other = sorted(
        Debezium().read(spark, (file,), DEFAULTS, known).collect(),
        key=lambda r: r["ordinal"],
    )
    assert (mine["before"], mine["after"]) == ({"id": "1"}, {"id": "1", "name": "a"})
    assert (mine["position"], mine["absent"], mine["raw"]) == (at(9, 5, 0), None, None)
    assert (other["outcome"], other["reason"]) == ("reject", "other_connector")


ORDERS: dict[str, tuple[dict[str, Any], str]] = {
    "mysql": ({"file": "binlog.1000000", "pos": 4, "row": 2}, at(1000000, 4, 2)),
    "postgresql": ({"lsn": 500, "sequence": '["1000","500"]', "schema": "public"}, at(1000, 500)),
    "oracle": ({"scn": "99", "commit_scn": "100", "rs_id": "0x0000ff.00000010.0001", "ssn": 9},
               at(100, 99, 255, 16, 1, 9)),
    "sqlserver": ({"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003",
                   "event_serial_no": 1}, at(0x27, 0x758, 5, 0x27, 0x758, 3, 1)),
}  # fmt: skip


def test_the_order_of_each_connector(spark: SparkSession, tmp_path: Path) -> None:
    events = [event(src=source(name, **place)) for name, (place, _) in ORDERS.items()]
    found = decode(spark, container(tmp_path / "o.avro", ROW, events))
    assert [r["position"] for r in found] == [position for _, position in ORDERS.values()]


def test_documents_of_mongodb(spark: SparkSession, tmp_path: Path) -> None:
    schema = envelope({})
    for field in schema["fields"][:2]:
        field.update(optional(semantic("string", "io.debezium.data.Json")))
    src = source("mongodb", table=None, collection="t", ord=2)
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "string"}]}
    schemas = {"1": schema, "2": key, "3": HEARTBEAT}
    (tmp_path / "s.json").write_text(json.dumps(schemas))
    keyed = wire(2, key, {"id": '{"$oid":"5f"}'})
    document = '{"_id":{"$oid":"5f"},"n":{"$numberLong":"12345678901"}}'
    file = jsonl(tmp_path / "m.jsonl", pairs([
        (keyed, wire(1, schema, event("c", document, src))),
        (keyed, wire(1, schema, event("d", src=src | {"txnNumber": 1}, before=None))),
        (None, wire(3, HEARTBEAT, {"ts_ms": 1})),
    ]))  # fmt: skip
    found = decode(spark, file, layout="base64", schemas=str(tmp_path / "s.json"))
    assert found[0]["after"] == {"_id": "5f", "n": "12345678901"}
    assert found[1]["before"] == {"_id": "5f"}
    assert [r["key"] for r in found[:2]] == [["_id"], ["_id"]]
    assert found[0]["position"] == at(1704164645678, 2)
    assert found[1]["position"].startswith(f"{at(1704164645678, 2)}.")
    assert found[2]["reason"] == "heartbeat"


def test_schemas_of_a_registry(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMA_REGISTRY_USER_INFO", "u:p")
    shared = {"type": "record", "name": "shop.Address",
              "fields": [{"name": "city", "type": "string"}]}  # fmt: skip
    referring = envelope({"id": {"type": "int"}, "at": {"type": "shop.Address"}})
    inline = envelope({"id": {"type": "int"}, "at": shared})
    row = {"id": 1, "at": {"city": "x"}}
    with serving() as registry:
        registry.add(1, ROW)
        registry.add_subject("address", 1, shared)
        reference = {"name": "shop.Address", "subject": "address", "version": 1}
        registry.add(300, referring, references=[reference])
        registry.add(2, {"type": "object"}, schemaType="JSON")
        tree = {"name": "left", "type": ["null", "Tree"]}
        registry.add(3, {"type": "record", "name": "Tree", "fields": [tree]})
        json_key, tree_key = (struct.pack(">bi", 0, i) + b"{}" for i in (2, 3))
        file = jsonl(tmp_path / "r.jsonl", pairs([
            (json_key, wire(1, ROW, event())), (tree_key, wire(300, inline, event(row=row))),
            (None, wire(9, ROW, event())), (None, json_key), (None, tree_key),
        ]))  # fmt: skip
        found = decode(spark, file, layout="base64", schema_registry=registry.url)
    wanted = [None, None, "unknown_schema_id:9", "unreadable_schema:2", "unreadable_schema:3"]
    assert [r["reason"] for r in found] == wanted
    assert [r["key"] for r in found[:2]] == [None, None]
    assert found[1]["after"] == {"id": "1", "at": '{"city":"x"}'}
    assert {authorization for _, authorization in registry.asked} == {"Basic dTpw"}
