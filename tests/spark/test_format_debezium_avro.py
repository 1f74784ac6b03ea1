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
from spark_jobs.formats.debezium import DEFAULT_PLACEHOLDER, Debezium
from tests.spark.envelopes import by_name, envelope_columns, jsonl

pytestmark = pytest.mark.spark

Schema = dict[str, Any]
PLACEHOLDER = DEFAULT_PLACEHOLDER.encode()
ZERO_OFFSET = 0


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
            "schema", "sequence", "file", "scn", "commit_scn", "rs_id", "commit_lsn", "change_lsn")),
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
KEYED = wire(2, KEY, {"id": 1})
MESSAGES: dict[str, tuple[bytes | None, bytes | None]] = {
    "insert": (KEYED, wire(1, ROW, event())),
    "update": (KEYED, wire(1, ROW, event("u", before={"id": 1, "name": "b"}))),
    "delete": (KEYED, wire(1, ROW, event("d"))),
    "read": (KEYED, wire(1, ROW, event("r", ts_ms=1704164645999))),
    "truncate": (None, wire(1, ROW, event("t", after=None))),
    "message": (None, wire(1, ROW, event("m", after=None, message={"prefix": "p"}))),
    "evolved": (KEYED, wire(7, LATER, event("u", {"id": 1, "name": None, "price": Decimal("1.50")}))),
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
