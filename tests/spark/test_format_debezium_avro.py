"""Debezium in Avro: containers, wire messages, their layouts, schemas, and every Connect type."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Iterable
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import Row, SparkSession

from sluice.coltypes import ColumnType, decimal
from sluice.errors import TerminalError
from sluice.manifest import SourceFile
from sluice.positions import encode_number
from spark_jobs.canonical import ENVELOPE
from spark_jobs.formats import connect_avro
from spark_jobs.formats.debezium import DEFAULT_PLACEHOLDER, Debezium
from tests.registry import serving
from tests.spark.envelopes import by_name, envelope_columns, jsonl
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

Schema = dict[str, Any]
PLACEHOLDER = DEFAULT_PLACEHOLDER.encode()


def optional(kind: Any) -> Schema:
    return {"type": ["null", kind], "default": None}


def semantic(kind: str, name: str, **more: Any) -> Schema:
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def connect_decimal(scale: int, precision: int | None) -> Schema:
    """As Confluent's converter writes it: 64 digits where the connector does not tell."""
    told = {} if precision is None else {"connect.decimal.precision": str(precision)}
    return semantic(
        "bytes", "org.apache.kafka.connect.data.Decimal", scale=scale, precision=precision or 64,
        logicalType="decimal", **{"connect.parameters": {"scale": str(scale)} | told},
    )  # fmt: skip


VARIABLE = {
    "type": "record", "name": "VariableScaleDecimal", "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}  # fmt: skip
GEOMETRY = {
    "type": "record", "name": "Geometry", "namespace": "io.debezium.data.geometry",
    "fields": [{"name": "wkb", "type": "bytes"}, {"name": "srid", **optional("int")}],
    "connect.name": "io.debezium.data.geometry.Geometry",
}  # fmt: skip
SOURCE = {
    "type": "record", "name": "Source", "namespace": "io.debezium.connector",
    "fields": [
        {"name": "connector", "type": "string"}, {"name": "ts_ms", "type": "long"},
        {"name": "ts_us", **optional("long")},
        {"name": "snapshot", "type": [
            {"type": "string", "connect.name": "io.debezium.data.Enum"}, "null"]},
        {"name": "db", "type": "string"}, {"name": "table", **optional("string")},
        {"name": "collection", **optional("string")},
        *({"name": name, **optional("string")} for name in (
            "schema", "sequence", "file", "scn", "commit_scn", "rs_id", "commit_lsn",
            "change_lsn")),
        *({"name": name, **optional("long")} for name in (
            "txId", "lsn", "pos", "row", "ssn", "event_serial_no", "ord")),
    ],
}  # fmt: skip


def envelope(columns: dict[str, Any], namespace: str = "srv.shop.t") -> Schema:
    """The schema of a table's values; `after` names the row's type by its short name."""
    row = {
        "type": "record", "name": "Value", "connect.name": f"{namespace}.Value",
        "fields": [{"name": n, **(t if "default" in t else {"type": t})}
                   for n, t in columns.items()],
    }  # fmt: skip
    return {
        "type": "record", "name": "Envelope", "namespace": namespace,
        "connect.name": f"{namespace}.Envelope",
        "fields": [
            {"name": "before", **optional(row)}, {"name": "after", **optional("Value")},
            {"name": "source", "type": SOURCE}, {"name": "op", "type": "string"},
            {"name": "ts_ms", **optional("long")}, {"name": "ts_us", **optional("long")},
            {"name": "message", **optional({
                "type": "record", "name": "Block",
                "fields": [{"name": "prefix", "type": "string"}]})},
        ],
    }  # fmt: skip


def key_schema(*names: str) -> Schema:
    fields = [{"name": n, "type": {"type": "int"}} for n in names]
    return {"type": "record", "name": "Key", "namespace": "srv.shop.t", "fields": fields}


ROW = envelope({"id": {"type": "int"}, "name": optional("string")})
KEY = key_schema("id")
HEARTBEAT = {"type": "record", "name": "Heartbeat", "namespace": "io.debezium.connector.common",
             "fields": [{"name": "ts_ms", "type": "long"}]}  # fmt: skip
TRANSACTION = {
    "type": "record", "name": "TransactionMetadataValue", "namespace": "io.debezium.connector",
    "fields": [{"name": "status", "type": "string"}, {"name": "id", "type": "string"},
               {"name": "ts_ms", "type": "long"}],
}  # fmt: skip
DDL = {
    "type": "record", "name": "SchemaChangeValue", "namespace": "io.debezium.connector.mysql",
    "fields": [{"name": "source", "type": SOURCE}, {"name": "ts_ms", "type": "long"},
               {"name": "databaseName", **optional("string")},
               {"name": "schemaName", **optional("string")}, {"name": "ddl", **optional("string")}],
}  # fmt: skip
UNWRAPPED = {"type": "record", "name": "Flat", "fields": [{"name": "id", "type": "int"}]}


def source(connector: str = "mysql", **fields: Any) -> dict[str, Any]:
    place = {"file": "binlog.000009", "pos": 5, "row": 0} if connector == "mysql" else {}
    common = {"connector": connector, "db": "shop", "table": "t", "ts_ms": 1704164645678}
    return common | place | {"snapshot": "false"} | fields


def event(op: str = "c", row: Any = None, src: Any = None, **fields: Any) -> dict[str, Any]:
    image = {"id": 1, "name": "a"} if row is None else row
    images = {"before": image if op == "d" else None, "after": None if op == "d" else image}
    return images | {"op": op, "source": src or source()} | fields


def datum(schema: Schema, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(deepcopy(schema)), value)
    return out.getvalue()


def wire(ident: int, schema: Schema, value: Any) -> bytes:
    return b"\0" + struct.pack(">i", ident) + datum(schema, value)


def container(
    path: Path, schema: Schema, records: Iterable[Any], codec: str = "deflate"
) -> SourceFile:
    """A container file as landing describes it."""
    with path.open("wb") as sink:
        fastavro.writer(sink, fastavro.parse_schema(deepcopy(schema)), records, codec=codec)
    with path.open("rb") as written:
        text = fastavro.reader(written).metadata["avro.schema"]
    return SourceFile(
        key=path.name, url=path.as_uri(), size=path.stat().st_size, container="avro",
        avro_schema=text,
    )  # fmt: skip


def b64(message: bytes | None) -> str | None:
    return None if message is None else base64.b64encode(message).decode()


def decode(spark: SparkSession, *files: SourceFile, **options: Any) -> list[Row]:
    decoded = Debezium().read(spark, files, options)
    assert envelope_columns(decoded) == list(ENVELOPE)
    return sorted(decoded.collect(), key=lambda r: (r["file"], r["block"], r["ordinal"]))


def at(*numbers: int, kind: int = 2) -> str:
    return ".".join([str(kind), *(encode_number(n) for n in numbers)])


SCHEMAS = {1: ROW, 2: KEY, 3: HEARTBEAT, 4: TRANSACTION, 5: DDL, 6: UNWRAPPED}
LATER = envelope(
    {"id": {"type": "int"}, "name": optional("string"), "price": connect_decimal(2, 10)}
)
SCHEMAS[7] = LATER
PRICED = {"id": 1, "name": None, "price": Decimal("1.50")}
KEYED = wire(2, KEY, {"id": 1})
MESSAGES: dict[str, tuple[bytes | None, bytes | None]] = {
    "insert": (KEYED, wire(1, ROW, event())),
    "update": (KEYED, wire(1, ROW, event("u", before={"id": 1, "name": "b"}))),
    "delete": (KEYED, wire(1, ROW, event("d"))),
    "read": (KEYED, wire(1, ROW, event("r", ts_ms=1704164645999))),
    "truncate": (None, wire(1, ROW, event("t", after=None))),
    "message": (None, wire(1, ROW, event("m", after=None, message={"prefix": "p"}))),
    "evolved": (KEYED, wire(7, LATER, event("u", PRICED))),
    "tombstone": (KEYED, None),
    "tombstone_unkeyed": (None, None),
    "heartbeat": (None, wire(3, HEARTBEAT, {"ts_ms": 5})),
    "transaction": (None, wire(4, TRANSACTION, {"status": "BEGIN", "id": "9", "ts_ms": 5})),
    "ddl": (None, wire(5, DDL, {"source": source(), "ts_ms": 5, "databaseName": "shop",
                                "ddl": "CREATE TABLE t (id int)"})),
    "text_key": (b"some text", wire(1, ROW, event())),
    # rejects
    "unwrapped": (KEYED, wire(6, UNWRAPPED, {"id": 1})),
    "no_after": (KEYED, wire(1, ROW, event("u", after=None))),
    "unknown_op": (None, wire(1, ROW, event("x"))),
    "unknown_schema": (KEYED, wire(99, ROW, event())),
    "unknown_key_schema": (wire(98, KEY, {"id": 1}), wire(1, ROW, event())),
    "no_magic": (KEYED, b"\1" + wire(1, ROW, event())[1:]),
    "json": (None, b'{"op":"c"}'),
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
    "unknown_schema": "unknown_schema_id:99", "unknown_key_schema": "unknown_schema_id:98",
    "no_magic": "not_confluent_avro", "json": "not_confluent_avro",
    "head_only": "not_confluent_avro", "cut": "not_avro", "no_datum": "not_avro",
    "bytes_left": "not_avro", "other_schema": "not_avro", "garbage": "not_avro",
    "cut_key": "not_avro", "empty": "not_confluent_avro",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every schema as a file of its own."""
    root = tmp_path_factory.mktemp("schemas")
    for ident, schema in SCHEMAS.items():
        (root / f"{ident}.avsc").write_text(json.dumps(schema))
    return root


def pairs(messages: Iterable[tuple[bytes | None, bytes | None]]) -> list[dict[str, Any]]:
    return [{"key": b64(key), "value": b64(value)} for key, value in messages]


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
        ("read", "insert", None, {"id": "1", "name": "a"}),
        ("truncate", "truncate", None, None), ("ddl", "ddl", None, None),
        ("text_key", "insert", None, {"id": "1", "name": "a"}),
    ],
)  # fmt: skip
def test_events(
    rows: dict[str, Row], name: str, op: str, before: dict[str, str], after: dict[str, str]
) -> None:
    row = rows[name]
    assert (row["outcome"], row["reason"], row["op"], row["raw"]) == ("event", None, op, None)
    assert (row["before"], row["after"]) == (before, after)
    assert (row["database"], row["table"]) == ("shop", "t")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tombstone", "tombstone"), ("tombstone_unkeyed", "tombstone"),
        ("heartbeat", "heartbeat"), ("transaction", "transaction_marker"),
        ("message", "logical_message"),
    ],
)  # fmt: skip
def test_what_is_no_change_is_ignored(rows: dict[str, Row], name: str, reason: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("ignore", reason)


@pytest.mark.parametrize("name", list(REASONS))
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("reject", REASONS[name])
    key, value = MESSAGES[name]
    assert json.loads(rows[name]["raw"]) == {"key": b64(key), "value": b64(value)}


def test_the_record_key_tells_the_key(rows: dict[str, Row]) -> None:
    assert rows["insert"]["key"] == ["id"]
    assert rows["text_key"]["key"] is None
    assert rows["truncate"]["key"] is None


def test_ddl_and_positions(rows: dict[str, Row]) -> None:
    assert rows["ddl"]["ddl"] == "CREATE TABLE t (id int)"
    assert rows["insert"]["position"] == at(9, 5, 0)
    assert rows["read"]["position"] == at(5, 1704164645999000000, kind=0)
    assert str(rows["insert"]["source_ts"]) == "2024-01-02 03:04:05.678000"


def test_schemas_of_one_file_keep_their_own_types(rows: dict[str, Row]) -> None:
    names = {n: [c.name for c in Debezium().columns(rows[n]["types"], {})]
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
    told = [(r["op"], r["reason"], r["key"]) for r in read]
    assert told == [
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
        ({"layout": "lines"}, "'lines' is none of base64"),
        ({"layout": "base64"}, "say in format_options where the schemas are"),
        ({"layout": "avro_json"}, "no line KEYSCHEMA"),
        ({"tombstones": "drop"}, "neither ignore nor delete"),
    ],
)
def test_options_that_are_wrong_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(TerminalError, match=message):
        decode(spark, jsonl(tmp_path / "x.jsonl", ["AA=="]), **options)


DECIMAL_TEXT = "-12345678901234567890123456789012345678901.5"
TYPES: dict[str, tuple[Any, Any, str | None, ColumnType]] = {
    # name: Avro type, value, text, column
    "i8": ({"type": "int", "connect.type": "int8"}, -8, "-8", ColumnType("int")),
    "i16": ({"type": "int", "connect.type": "int16"}, 16, "16", ColumnType("int")),
    "i32": ("int", -(2**31), "-2147483648", ColumnType("int")),
    "i64": ("long", 2**63 - 1, "9223372036854775807", ColumnType("bigint")),
    "f32": ("float", 0.5, "0.5", ColumnType("float")),
    "f64": ("double", 0.1, "0.1", ColumnType("double")),
    "nan": ("double", float("nan"), "NaN", ColumnType("double")),
    "flag": ("boolean", True, "true", ColumnType("boolean")),
    "text": ("string", "\u00fc\0\n", "\u00fc\0\n", ColumnType("string")),
    "raw": ("bytes", b"\0\xff", "AP8=", ColumnType("binary", "base64")),
    "bits": (semantic("bytes", "io.debezium.data.Bits", **{"connect.parameters": {"length": "9"}}),
             b"\1\1", "AQE=", ColumnType("binary", "base64")),
    "dec": (connect_decimal(2, 10), Decimal("-1.50"), "/2o=", decimal(10, 2, "base64")),
    "dec_untold": (connect_decimal(3, None), Decimal("1.500"), "Bdw=", decimal(38, 3, "base64")),
    "dec_bare": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
                 Decimal("2.5"), "GQ==", decimal(9, 1, "base64")),
    "dec_wide": (connect_decimal(1, 50), Decimal(DECIMAL_TEXT), DECIMAL_TEXT, ColumnType("string")),
    "dec_negative": (semantic(
        "bytes", "org.apache.kafka.connect.data.Decimal",
        **{"connect.parameters": {"scale": "-2", "connect.decimal.precision": "3"}}),
        b"\5", "500", ColumnType("string")),
    "variable": (VARIABLE, {"scale": 2, "value": b"\xff\x6a"}, "-1.50",
                 ColumnType("string", "variable")),
    "variable_whole": ("io.debezium.data.VariableScaleDecimal", {"scale": -1, "value": b"\7"},
                       "70", ColumnType("string", "variable")),
    "variable_wide": ("io.debezium.data.VariableScaleDecimal",
                      {"scale": 1, "value": (10**50).to_bytes(22, "big")}, "1" + "0" * 49 + ".0",
                      ColumnType("string", "variable")),
    "day": (semantic("int", "io.debezium.time.Date"), 19000, "19000", ColumnType("date", "days")),
    "day_connect": (semantic("int", "org.apache.kafka.connect.data.Date", logicalType="date"),
                    -1, "-1", ColumnType("date", "days")),
    "time": (semantic("int", "io.debezium.time.Time"), 5, "5", ColumnType("time", "ms")),
    "time_connect": (semantic("int", "org.apache.kafka.connect.data.Time",
                              logicalType="time-millis"), 5, "5", ColumnType("time", "ms")),
    "time_us": (semantic("long", "io.debezium.time.MicroTime"), -3020399000000, "-3020399000000",
                ColumnType("time", "us")),
    "time_ns": (semantic("long", "io.debezium.time.NanoTime"), 7, "7", ColumnType("time", "ns")),
    "ts": (semantic("long", "io.debezium.time.Timestamp"), 1704164645678, "1704164645678",
           ColumnType("timestamp_ntz", "ms")),
    "ts_connect": (semantic("long", "org.apache.kafka.connect.data.Timestamp",
                            logicalType="timestamp-millis"), -62135596800000, "-62135596800000",
                   ColumnType("timestamp_ntz", "ms")),
    "ts_us": (semantic("long", "io.debezium.time.MicroTimestamp"), 1704164645678901,
              "1704164645678901", ColumnType("timestamp_ntz", "us")),
    "ts_ns": (semantic("long", "io.debezium.time.NanoTimestamp"), 1704164645678901234,
              "1704164645678901234", ColumnType("timestamp_ntz", "ns")),
    "ts_bare": ({"type": "long", "logicalType": "timestamp-micros"}, 1704164645678901,
                "1704164645678901", ColumnType("timestamp_ntz", "us")),
    "zoned": (semantic("string", "io.debezium.time.ZonedTimestamp"), "2024-01-02T03:04:05.1Z",
              "2024-01-02T03:04:05.1Z", ColumnType("timestamp")),
    "zoned_time": (semantic("string", "io.debezium.time.ZonedTime"), "03:04:05Z", "03:04:05Z",
                   ColumnType("string")),
    "year": (semantic("int", "io.debezium.time.Year"), 2024, "2024", ColumnType("int")),
    "enum": (semantic("string", "io.debezium.data.Enum",
                      **{"connect.parameters": {"allowed": "a,b"}}), "b", "b",
             ColumnType("string")),
    "avro_enum": ({"type": "enum", "name": "E", "symbols": ["x", "y"]}, "y", "y",
                  ColumnType("string")),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"ab", "YWI=",
              ColumnType("binary", "base64")),
    "json": (semantic("string", "io.debezium.data.Json"), '{"a": 1.10}', '{"a": 1.10}',
             ColumnType("string")),
    "list": ({"type": "array", "items": ["null", "long"]}, [2**53 + 1, None],
             "[9007199254740993,null]", ColumnType("string")),
    "list_bytes": ({"type": "array", "items": "bytes"}, [b"a"], '["YQ=="]', ColumnType("string")),
    "map": ({"type": "map", "values": ["null", "string"]}, {"k": None}, '{"k":null}',
            ColumnType("string")),
    "geometry": (GEOMETRY, {"wkb": b"\1\2", "srid": None}, '{"wkb":"AQI=","srid":null}',
                 ColumnType("string")),
    "union": (["null", "string", "boolean"], False, "false", ColumnType("string")),
    "gone": (["null", "long"], None, None, ColumnType("bigint")),
}  # fmt: skip


@pytest.fixture(scope="module")
def typed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Row:
    schema = envelope({name: kind for name, (kind, *_) in TYPES.items()})
    row = {name: value for name, (_, value, *_) in TYPES.items()}
    file = container(tmp_path_factory.mktemp("types") / "t.avro", schema, [event(row=row)])
    (found,) = decode(spark, file)
    return found


@pytest.mark.parametrize("name", list(TYPES))
def test_types_and_exact_texts(typed: Row, name: str) -> None:
    columns = {c.name: c for c in Debezium().columns(typed["types"], {})}
    assert (typed["after"][name], columns[name].type) == TYPES[name][2:]
    assert list(typed["after"]) == list(columns) == list(TYPES)


def test_nullability_and_defaults() -> None:
    row = {"type": "record", "name": "Value", "fields": [
        {"name": "id", "type": {"type": "int", "connect.default": 5}},
        {"name": "b", **optional({"type": "bytes", "connect.default": "\u00ff"})}]}  # fmt: skip
    node = connect_avro.resolve([row], "here")
    types = json.dumps({"fields": [connect_avro.row_schema("after", node)]})
    told = [(c.name, c.nullable, c.default) for c in Debezium().columns(types, {})]
    assert told == [("id", False, "5"), ("b", True, "/w==")]


def test_names_resolve_in_their_namespace() -> None:
    """Two types of one short name, each used again by a name that only its namespace makes full."""

    def pair(name: str, kind: str, namespace: str) -> Schema:
        inner = {"type": "record", "name": "T", "fields": [{"name": kind, "type": kind}]}
        fields = [{"name": "one", "type": inner}, {"name": "two", "type": "T"}]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}

    both = {"type": "record", "name": "Both", "fields": [
        {"name": "a", "type": pair("P", "int", "a")}, {"name": "b", "type": pair("P", "long", "b")},
        {"name": "again", "type": "a.T"}]}  # fmt: skip
    written = connect_avro.writer_schema(connect_avro.resolve([both], "here"))
    fields = {f["name"]: f["type"] for f in written["fields"]}
    assert [f["type"] for f in fields["b"]["fields"]][1] == "b.T"
    assert fields["again"] == "a.T"
    fastavro.parse_schema(written)


def test_values_that_were_not_sent(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "id": {"type": "int"},
        "t": optional("string"),
        "b": optional("bytes"),
        "l": optional({"type": "array", "items": "string"}),
        "n": optional("string"),
    }
    text = DEFAULT_PLACEHOLDER
    row = {"id": 1, "t": text, "b": PLACEHOLDER, "l": [text], "n": None}
    file = container(tmp_path / "p.avro", envelope(columns), [event("u", row), event("u", row | {
        "t": "x", "b": b"y", "l": []})])  # fmt: skip
    assert [r["absent"] for r in decode(spark, file)] == [["t", "b", "l"], None]
    assert [r["absent"] for r in decode(spark, file, unavailable_value="x")] == [None, ["t"]]


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
        (keyed, wire(1, schema, event("d", src=src, before=None))),
        (None, wire(3, HEARTBEAT, {"ts_ms": 1})),
    ]))  # fmt: skip
    found = decode(spark, file, layout="base64", schemas=str(tmp_path / "s.json"))
    assert found[0]["after"] == {"_id": "5f", "n": "12345678901"}
    assert found[1]["before"] == {"_id": "5f"}
    assert [r["key"] for r in found[:2]] == [["_id"], ["_id"]]
    assert found[0]["position"] == at(1704164645678, 2)
    assert found[2]["reason"] == "heartbeat"


def test_schemas_of_a_registry(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMA_REGISTRY_USER_INFO", "u:p")
    shared = {"type": "record", "name": "shop.Address",
              "fields": [{"name": "city", "type": "string"}]}  # fmt: skip
    referring = envelope({"id": {"type": "int"}, "at": {"type": "shop.Address"}})
    inline = envelope({"id": {"type": "int"}, "at": {"type": shared}})
    row = {"id": 1, "at": {"city": "x"}}
    with serving() as registry:
        registry.add(1, ROW)
        registry.add_subject("address", 1, shared)
        reference = {"name": "shop.Address", "subject": "address", "version": 1}
        registry.add(300, referring, references=[reference])
        messages = [wire(1, ROW, event()), wire(300, inline, event(row=row)), wire(9, ROW, event())]
        file = jsonl(tmp_path / "r.jsonl", [{"value": b64(m)} for m in messages])
        found = decode(spark, file, layout="base64", schema_registry=registry.url)
    assert [r["reason"] for r in found] == [None, None, "unknown_schema_id:9"]
    assert found[1]["after"] == {"id": "1", "at": '{"city":"x"}'}
    assert {authorization for _, authorization in registry.asked} == {"Basic dTpw"}


def encoded(op: str, after: Any = None, **more: Any) -> dict[str, Any]:
    """An event of the schema ORDERS_LINE in Avro's JSON encoding."""
    image = None if after is None else {"srv.shop.t.Value": after}
    lsn = {"long": more.pop("lsn", 5)}
    src = {"connector": "postgresql", "db": "shop", "table": "t", "lsn": lsn}
    return {"before": None, "after": image, "op": op, "source": src, "ts_ms": {"long": 9}} | more


def json_encoding_lines() -> list[str]:
    columns = {"id": {"type": "int"}, "n": optional("long"), "b": optional("bytes"),
               "v": optional(VARIABLE), "u": ["null", "string", "int"]}  # fmt: skip
    schema = envelope(columns)
    schema["fields"][2]["type"] = {"type": "record", "name": "Source", "fields": [
        {"name": "connector", "type": "string"}, {"name": "db", "type": "string"},
        {"name": "table", "type": "string"}, {"name": "lsn", **optional("long")}]}  # fmt: skip
    variable = {"io.debezium.data.VariableScaleDecimal": {"scale": 1, "value": "\u00ff"}}
    full = {"id": 1, "n": {"long": 2**62}, "b": {"bytes": "\u0000\u00e9"}, "v": variable,
            "u": {"int": 3}}  # fmt: skip
    empty = {"id": 2, "n": None, "b": None, "v": None, "u": {"string": "s"}}
    lines = [
        (1, encoded("c", full)),
        (2, encoded("c", empty, lsn=6)),
        (2, encoded("u", empty | {"n": {"long": 7}}, lsn=7)),
    ]
    header = f"{json.dumps(key_schema('id'))}^{json.dumps(schema)}"
    told = [f'{{"id": {key}}}^{json.dumps(value)}' for key, value in lines]
    return [header, *told, '{"id": 2}^', '{"id": 3}^', '{"id": 4}^{"op": 1.5e']


def test_the_json_encoding_as_it_is_landed(spark: SparkSession, tmp_path: Path) -> None:
    """A line of schemas tells it; the tombstone of a key that had an event deletes its row."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium",
                                        "format_options": {"tombstones": "delete"}})  # fmt: skip
    sandbox.write("topic.txt", json_encoding_lines())
    result = sandbox.stage_manifest(sandbox.land())
    sandbox.publish(result)
    assert sandbox.rows("t") == [{"id": 1, "n": 2**62, "b": b"\0\xe9", "v": "-0.1", "u": "3"}]
    counts = total(result)
    assert (counts.read, counts.ignored, counts.quarantined) == (6, 1, 1)
    assert [r["reason"] for r in sandbox.quarantined()] == ["not_json"]


def test_a_tombstone_comes_after_the_last_event_of_its_key_and_before_the_next(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    later = wire(1, ROW, event("c", src=source(row=1)))
    file = jsonl(tmp_path / "t.jsonl", pairs([
        (wire(2, KEY, {"id": 1}), None), MESSAGES["insert"], (wire(2, KEY, {"id": 2}), None),
        MESSAGES["tombstone"], (KEYED, later), MESSAGES["tombstone_unkeyed"],
    ]))  # fmt: skip
    options = {"layout": "base64", "schemas": str(folder)}
    found = decode(spark, file, tombstones="delete", **options)
    assert [r["op"] for r in found] == [None, "insert", None, "delete", "insert", None]
    deleted = found[3]
    assert (deleted["before"], deleted["key"], deleted["table"]) == ({"id": "1"}, ["id"], "t")
    assert (deleted["outcome"], deleted["types"]) == ("event", found[1]["types"])
    full = [f"{r['position']}.{role}" for r, role in ((found[1], 1), (deleted, 0), (found[4], 1))]
    assert full == sorted(full)
    assert [r["outcome"] for r in decode(spark, file, **options)].count("ignore") == 4


def framed(messages: Iterable[tuple[bytes | None, bytes | None]]) -> bytes:
    parts = [m for pair in messages for m in pair]
    return b"".join(
        struct.pack(">i", -1) if m is None else struct.pack(">i", len(m)) + m for m in parts
    )


def changed(ident: int, pos: int, op: str, name: str) -> tuple[bytes, bytes]:
    return wire(2, KEY, {"id": ident}), wire(
        1, ROW, event(op, {"id": ident, "name": name}, source(pos=pos))
    )


def priced(ident: int, pos: int, name: str, price: str) -> tuple[bytes, bytes]:
    row = {"id": ident, "name": name, "price": Decimal(price)}
    return wire(2, KEY, {"id": ident}), wire(7, LATER, event("u", row, source(pos=pos)))


HISTORY = {
    "t/1.bin": [changed(1, 1, "r", "one"), changed(2, 1, "r", "two"), changed(3, 11, "c", "c")],
    "t/2.bin": [changed(1, 21, "u", "uno"), priced(2, 22, "due", "1.50"), changed(3, 23, "d", "c")],
    "t/3.bin": [(wire(2, KEY, {"id": 3}), None), priced(1, 31, "eins", "-0.01"), (None, b"\0bad")],
}  # fmt: skip


@pytest.mark.parametrize("order", [("1", "2", "3", "3"), ("3", "2", "2", "1")])
def test_rows_do_not_depend_on_delivery(
    spark: SparkSession, folder: Path, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Length-delimited files, landed, decoded, merged; the schema changes inside a file."""
    options = {"layout": "length_delimited_pairs", "schemas": str(folder)}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "format_options": options})
    for number, name in enumerate(order):
        path = sandbox.landing / f"{number}-{name}.bin"
        # Bytes that landing has not seen: the same file under another name it would pass over.
        again = framed([(None, None)]) * number
        path.write_bytes(framed(HISTORY[f"t/{name}.bin"]) + again)
        sandbox.publish(sandbox.stage_manifest(sandbox.land()))
    rows = sorted(sandbox.rows("t"), key=lambda r: r["id"])
    assert rows == [
        {"id": 1, "name": "eins", "price": Decimal("-0.01")},
        {"id": 2, "name": "due", "price": Decimal("1.50")},
    ]
    assert sandbox.types("t") == {"id": "int", "name": "string", "price": "decimal(10, 2)"}
    reasons = [r["reason"] for r in sandbox.quarantined()]
    assert set(reasons) == {"not_confluent_avro"}


def test_a_bad_record_of_a_container_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    container(sandbox.landing / "a.avro", ROW, [event(), event("x")])
    result = sandbox.stage_manifest(sandbox.land())
    sandbox.publish(result)
    assert sandbox.rows("t") == [{"id": 1, "name": "a"}]
    (bad,) = sandbox.quarantined()
    assert (bad["reason"], json.loads(bad["raw"])["op"]) == ("unknown_op:x", "x")
