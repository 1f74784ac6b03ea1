"""Huawei CDL messages of both versions for tests."""

from __future__ import annotations

from typing import Any

LSN = 163955221008


def pairs(**properties: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in properties.items()]


def v1(operation: str | None = "INSERT", properties: Any = None, **parts: Any) -> dict[str, Any]:
    """A message of version 1.0 on `public.t`, with the images that its operation has."""
    row = {"id": 1, "name": "a"}
    images = {"data": None if operation == "DELETE" else row,
              "before": row if operation == "DELETE" else None}  # fmt: skip
    told = pairs(lsn=LSN, txId=57227595) if properties is None else properties
    return {"schema": None, "payload": {
        "DATA_STORE": "POSTGRESQL", "SEG_OWNER": "public", "TABLE_NAME": "t",
        "TIMESTAMP": 1707047996013, "OPERATION": operation, "LOB_COLUMNS": None,
        "transaction": {"properties": told}, "unique": {"id": 1}, "message_version": "1.0",
        "message_type": "0", "HEARTBEAT_IDENTIFIER": "279fb050-0143-45c1-b184-50bc48c2461c",
        **images, **parts,
    }}  # fmt: skip


def v2(op: str | None = "c", source: Any = None, **parts: Any) -> dict[str, Any]:
    """A message of version 2.0 on `cdl.public.t`."""
    row = {"id": 1, "name": "a"}
    images = {"after": None if op == "d" else row, "before": row if op == "d" else None}
    told = {"connector": "postgresql", "ts_ms": 1707048891235, "snapshot": "false", "db": "cdl",
            "schema": "public", "table": "t", "txId": 57227663, "lsn": LSN}  # fmt: skip
    return {"schema": None, "payload": {
        "source": told | (source or {}), "op": op, "ts_ms": 1707048984208,
        "message_version": "2.0", "message_type": "0", "LOB_COLUMNS": None,
        "unique": {"id": 1}, **images, **parts,
    }}  # fmt: skip


BARE = {"data": None, "before": None, "unique": None}


def schema(field: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """A message's schema with the row in `field`."""
    row = {"type": "struct", "field": field, "name": field, "fields": fields}
    key = {"type": "struct", "field": "unique", "fields": [{"type": "int32", "field": "id"}]}
    return {"type": "struct", "fields": [{"type": "string", "field": "op"}, key, row]}
