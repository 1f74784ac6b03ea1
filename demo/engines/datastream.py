"""Google Datastream from MySQL, JSON files: whole rows, and in no order that means anything."""

from __future__ import annotations

import random
import uuid
from datetime import date, datetime
from typing import Any, Final

from demo.shop import KEY, SEED, Change, Kind, Row

_TYPES: Final = {"read": "INSERT", "insert": "INSERT", "update": "UPDATE-INSERT"}
_BINLOG: Final = "mysql-bin.{:06d}"
_BINLOG_SIZE: Final = 100_000


def write(changes: list[Change]) -> list[Any]:
    """Events as the files have them: shuffled, an update of the key as two of them."""
    events = [event for change in changes for event in _events(change)]
    random.Random(SEED).shuffle(events)
    return events


def _events(change: Change) -> list[Any]:
    if change.op == "alter":
        return []
    if change.op == "delete":
        return [_event(change, change.before or {}, "DELETE")]
    old = [_event(change, change.before or {}, "UPDATE-DELETE")] if change.moves_key else []
    return [*old, _event(change, change.after or {}, _TYPES[change.op])]


def _event(change: Change, row: Row, kind: str) -> dict[str, Any]:
    at = _instant(change.at)
    backfill = change.op == "read"
    log_file = "" if backfill else _BINLOG.format(change.place // _BINLOG_SIZE)
    position = 0 if backfill else change.place % _BINLOG_SIZE
    return {
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{change.place}{kind}")),
        "read_timestamp": at,
        "source_timestamp": at,
        "object": f"shop_{change.table}",
        "read_method": "mysql-backfill-fulldump" if backfill else "mysql-cdc-binlog",
        "stream_name": "projects/1/locations/europe-west1/streams/shop",
        "schema_key": f"{change.table}-{len(change.columns)}",
        "sort_keys": [int(change.at.timestamp() * 1000), log_file, position],
        "source_metadata": {
            "table": change.table,
            "database": "shop",
            "primary_keys": [KEY],
            "log_file": log_file,
            "log_position": position,
            "change_type": kind,
            "is_deleted": kind.endswith("DELETE"),
        },
        "payload": {n: _value(row.get(n), k) for n, k in change.columns.items()},
    }


def _instant(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind == "money":
        return float(value)  # a number in the file; two decimals survive a double's shortest text
    if kind == "moment":
        return _instant(value)
    if isinstance(value, date):
        return f"{value.isoformat()}T00:00:00.000Z"
    return int(value) if kind == "flag" else value
