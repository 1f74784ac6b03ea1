"""Debezium's PostgreSQL connector, keys and values with their schemas, as a Kafka sink lands them.

REPLICA IDENTITY DEFAULT: an update has no `before`, a delete's `before` holds the key and
made-up values. A change of the key is a delete, a tombstone and a create at one position.
"""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from demo.shop import KEY, NULLABLE, Change, Kind, Row

_OPS: Final = {"read": "r", "insert": "c", "update": "u", "delete": "d"}
_TYPES: Final[dict[Kind, dict[str, Any]]] = {
    "int": {"type": "int32"},
    "text": {"type": "string"},
    "money": {
        "type": "bytes", "version": 1, "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
    "moment": {"type": "int64", "version": 1, "name": "io.debezium.time.MicroTimestamp"},
    "day": {"type": "int32", "version": 1, "name": "io.debezium.time.Date"},
    "flag": {"type": "boolean"},
}  # fmt: skip
_MADE_UP: Final[dict[Kind, Any]] = {
    "int": 0, "text": "", "money": "AA==", "moment": 0, "day": 0, "flag": False,
}  # fmt: skip
_EPOCH: Final = date(1970, 1, 1)


def write(changes: list[Change]) -> list[Any]:
    """Key/value records in the order of the log."""
    return [record for change in changes for record in _records(change)]


def _records(change: Change) -> list[Any]:
    if change.op == "alter":
        return []  # the next row event has the new schema
    if change.moves_key:
        old, new = change.half("delete"), change.half("insert")
        return [*_records(old), *_records(new)]
    row = change.after or change.before or {}
    key = {"schema": _schema(change, [KEY]), "payload": {KEY: row[KEY]}}
    record = {"key": key, "value": {"schema": _value_schema(change), "payload": _payload(change)}}
    return [record, {"key": key, "value": None}] if change.op == "delete" else [record]


def _payload(change: Change) -> dict[str, Any]:
    millis = int(change.at.timestamp() * 1000)
    deleted = change.op == "delete"
    return {
        "before": _ghost(change) if deleted else None,
        "after": _image(change, change.after) if change.after else None,
        "source": _source(change, millis),
        "transaction": None,
        "op": _OPS[change.op],
        "ts_ms": millis + 412,
    }


def _source(change: Change, millis: int) -> dict[str, Any]:
    return {
        "version": "3.0.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": millis,
        "snapshot": "true" if change.op == "read" else "false",
        "db": "shop",
        "sequence": f'["{change.at_commit}","{change.place}"]',
        "schema": "public",
        "table": change.table,
        "txId": change.transaction,
        "lsn": change.place,
        "xmin": None,
    }


def _image(change: Change, row: Row) -> Row:
    return {name: _value(row.get(name), kind) for name, kind in change.columns.items()}


def _ghost(change: Change) -> Row:
    """What is sent of a deleted row: the key; NULL or nothing's value for the rest."""
    made_up = {n: None if n in NULLABLE else _MADE_UP[k] for n, k in change.columns.items()}
    return {**made_up, KEY: (change.before or {})[KEY]}


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind == "money":
        return _decimal(value)
    if kind == "moment":
        return _micros(value)
    return (value - _EPOCH).days if kind == "day" else value


def _decimal(value: Decimal) -> str:
    unscaled = int(value.scaleb(2))
    size = unscaled.bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()


def _micros(value: datetime) -> int:
    return int(value.replace(tzinfo=UTC).timestamp()) * 1_000_000 + value.microsecond


def _value_schema(change: Change) -> dict[str, Any]:
    images = [
        {**_schema(change, list(change.columns)), "optional": True, "field": field}
        for field in ("before", "after")
    ]
    rest = [
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ]
    name = f"shop.public.{change.table}.Envelope"
    return {"type": "struct", "fields": [*images, *rest], "optional": False, "name": name}


def _schema(change: Change, names: list[str]) -> dict[str, Any]:
    fields = [{**_TYPES[change.columns[n]], "optional": n in NULLABLE, "field": n} for n in names]
    kind = "Key" if names == [KEY] else "Value"
    return {
        "type": "struct", "fields": fields, "optional": False,
        "name": f"shop.public.{change.table}.{kind}",
    }  # fmt: skip
