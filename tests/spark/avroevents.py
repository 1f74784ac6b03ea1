"""Debezium's events in Avro for tests: schemas as Confluent's converter writes them, files."""

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
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import DebeziumOptions
from sluice.manifest import SourceFile
from spark_jobs.canonical import ENVELOPE
from spark_jobs.formats.debezium.decoder import Debezium
from tests.spark.debezium_events import DEFAULT_PLACEHOLDER
from tests.spark.envelopes import envelope_columns

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
            "txId", "lsn", "pos", "row", "ssn", "event_serial_no", "ord", "txnNumber")),
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
NEWER_TRANSACTION = TRANSACTION | {
    "fields": [
        *TRANSACTION["fields"],
        {"name": "event_count", "type": ["null", "long"]},
        {"name": "data_collections", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "commit_lsn", "type": ["null", "long"]},
    ]
}
DDL = {
    "type": "record", "name": "SchemaChangeValue", "namespace": "io.debezium.connector.mysql",
    "fields": [{"name": "source", "type": SOURCE}, {"name": "ts_ms", "type": "long"},
               {"name": "databaseName", **optional("string")},
               {"name": "schemaName", **optional("string")}, {"name": "ddl", **optional("string")},
               {"name": "tableChanges", **optional({"type": "array", "items": {
                   "type": "record", "name": "Change", "fields": [
                       {"name": "type", "type": "string"}]}})}],
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
    decoded = Debezium().read(spark, files, DebeziumOptions(**options))
    assert envelope_columns(decoded) == list(ENVELOPE)
    return sorted(decoded.collect(), key=lambda r: (r["file"], r["block"], r["ordinal"]))


SCHEMAS = {1: ROW, 2: KEY, 3: HEARTBEAT, 4: TRANSACTION, 5: DDL, 6: UNWRAPPED}
LATER = envelope(
    {"id": {"type": "int"}, "name": optional("string"), "price": connect_decimal(2, 10)}
)
SCHEMAS |= {7: LATER, 8: NEWER_TRANSACTION}
PRICED = {"id": 1, "name": None, "price": Decimal("1.50")}
KEYED = wire(2, KEY, {"id": 1})


def write_schemas(root: Path) -> Path:
    """Every schema of `SCHEMAS` as a file of its own."""
    for ident, schema in SCHEMAS.items():
        (root / f"{ident}.avsc").write_text(json.dumps(schema))
    return root


def pairs(messages: Iterable[tuple[bytes | None, bytes | None]]) -> list[dict[str, Any]]:
    return [{"key": b64(key), "value": b64(value)} for key, value in messages]
