"""A few Debezium events of one table, enough to see which files a run loaded."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

COLUMNS = [
    {"field": "id", "type": "int32", "optional": False},
    {"field": "status", "type": "string", "optional": True},
]


def event(lsn: int, op: str, row: dict[str, Any], millis: int, table: str = "orders") -> str:
    """One message with its schema, as the JSON converter writes it."""
    source = {
        "version": "3.0.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": millis,
        "snapshot": "false", "db": "shop", "schema": "public", "table": table,
        "txId": lsn, "lsn": lsn, "sequence": json.dumps([str(lsn - 1), str(lsn)]),
    }  # fmt: skip
    before, after = (row, None) if op == "d" else (None, row)
    payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": millis}
    return json.dumps({"schema": _schema(), "payload": payload})


def _schema() -> dict[str, Any]:
    row = {"type": "struct", "fields": COLUMNS, "optional": True}
    images = [{**row, "field": "before"}, {**row, "field": "after"}]
    return {"type": "struct", "name": "shop.public.orders.Envelope", "fields": images}


def put(landing: Path, hour: datetime, name: str, lines: list[str]) -> str:
    """Write a file of an hour; returns its key."""
    key = f"dt={hour:%Y-%m-%d}/hr={hour:%H}/{name}.jsonl"
    path = landing / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return key


def put_order(landing: Path, hour: datetime, number: int) -> str:
    """A file that inserts the order of this number."""
    millis = int(hour.timestamp() * 1000)
    line = event(1000 + number, "c", {"id": number, "status": "new"}, millis)
    return put(landing, hour, f"order-{number}", [line])
