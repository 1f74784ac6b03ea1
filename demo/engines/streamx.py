"""StreamX JSON from MySQL: an update is two messages with one sequence id."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, Final

from demo.shop import KEY, Change, Kind, Row

_TYPES: Final[dict[Kind, str]] = {
    "int": "LONG", "text": "STRING", "money": "STRING", "moment": "DATE", "day": "DATE",
    "flag": "BOOLEAN",
}  # fmt: skip
_FULL_LOAD: Final = "-1"


def write(changes: list[Change]) -> list[Any]:
    """Messages in the order of the log."""
    return [message for change in changes for message in _messages(change)]


def _messages(change: Change) -> list[Any]:
    if change.op == "alter":
        text = f"ALTER TABLE {change.table} ADD COLUMN {list(change.columns)[-1]} VARCHAR(20)"
        return [_message(change, "ALTER", None, None, text)]
    if change.op == "update":
        old = _message(change, "UPDATE_BEFOR", change.before, None)
        return [old, _message(change, "UPDATE_AFTER", None, change.after)]
    if change.op == "delete":
        return [_message(change, "DELETE", change.before, None)]
    return [_message(change, "INSERT", None, change.after)]


def _message(
    change: Change, op: str, before: Row | None, after: Row | None, ddl: str | None = None
) -> dict[str, Any]:
    full_load = change.op == "read"
    millis = int(change.at.timestamp() * 1000)
    return {
        "schema": {
            "dataColumn": [{"name": n, "type": _TYPES[k]} for n, k in change.columns.items()],
            "primaryKey": [KEY],
            "source": {"dbType": "MySQL", "dbName": "shop", "tableName": change.table},
        },
        "payload": {
            "before": _image(change, before),
            "after": _image(change, after),
            "sequenceId": _FULL_LOAD if full_load else str(change.place),
            "op": op,
            "timestamp": {
                "eventTime": -1 if full_load else millis,
                "systemTime": millis + 300,
                "checkpointTime": millis,
            },
            "ddl": {"text": ddl} if ddl else None,
        },
        "version": "0.0.1",
    }


def _image(change: Change, row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {"dataColumn": {n: _value(row.get(n), k) for n, k in change.columns.items()}}


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if isinstance(value, datetime):
        return int(value.replace(tzinfo=UTC).timestamp() * 1000)
    if isinstance(value, date):
        return int(datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp() * 1000)
    return str(value) if kind == "money" else value
