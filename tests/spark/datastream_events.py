"""Datastream events and files for tests."""

from __future__ import annotations

from dataclasses import replace
from decimal import localcontext
from pathlib import Path
from typing import Any

import fastavro

from sluice.manifest import SourceFile


def event(payload: Any = None, **meta: Any) -> dict[str, Any]:
    """An event on table `t`; `top` replaces top-level fields, everything else is metadata."""
    top = meta.pop("top", {})
    metadata = {"database": "db", "table": "t", "change_type": "INSERT", "is_deleted": False}
    return {
        "uuid": "u",
        "source_timestamp": "2024-01-02T03:04:05.678Z",
        "read_method": "x-cdc",
        "source_metadata": metadata | meta,
        "payload": {"id": 1} if payload is None else payload,
    } | top


def avro_file(
    path: Path, fields: list[Any], rows: list[dict[str, Any]],
    changed_at: int | str = 1704164645678, unit: str = "timestamp-millis",
) -> SourceFile:  # fmt: skip
    """A Datastream file with a payload of `fields`, one event a row. `changed_at` is a text if its
    `unit` is empty."""
    meta = {"type": "record", "name": "source_metadata", "fields": [
        {"name": "database", "type": "string"}, {"name": "table", "type": "string"},
        {"name": "primary_keys", "type": {"type": "array", "items": "string"}},
        {"name": "log_file", "type": ["null", "string"]},
        {"name": "log_position", "type": ["null", "long"]},
        {"name": "change_type", "type": ["null", "string"]},
        {"name": "is_deleted", "type": ["null", "boolean"]}]}  # fmt: skip
    instant = {"type": "long", "logicalType": unit} if unit else "string"
    payload = {"type": "record", "name": "payload", "fields": fields}
    schema = {"type": "record", "name": "event", "fields": [
        {"name": "uuid", "type": "string"}, {"name": "source_timestamp", "type": instant},
        {"name": "read_method", "type": "string"},
        {"name": "sort_keys", "type": {"type": "array", "items": ["string", "long"]}},
        {"name": "source_metadata", "type": meta},
        {"name": "payload", "type": payload}]}  # fmt: skip
    records = [
        {
            "uuid": "u",
            "source_timestamp": changed_at,
            "read_method": "mysql-cdc-binlog",
            "sort_keys": [1704164645678, "mysql-bin.000009", n],
            "source_metadata": {"database": "db", "table": path.stem, "primary_keys": ["id"],
                                "change_type": "INSERT", "is_deleted": False},
            "payload": row,
        }
        for n, row in enumerate(rows)
    ]  # fmt: skip
    with path.open("wb") as sink, localcontext(prec=100):
        fastavro.writer(sink, fastavro.parse_schema(schema), records)
    return described(path)


def described(path: Path) -> SourceFile:
    """A file as landing describes it."""
    file = SourceFile(key=path.name, url=path.as_uri(), size=path.stat().st_size)
    if path.suffix != ".avro":
        return file
    with path.open("rb") as source:
        schema = fastavro.reader(source).metadata["avro.schema"]
    return replace(file, container="avro", avro_schema=schema)
