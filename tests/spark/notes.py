"""A table `s.orders` of PostgreSQL with a note in each row, and its events without schema."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def pipeline(modes: list[str]) -> dict[str, Any]:
    """The pipeline of the table, in these modes."""
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": modes}
    return {"format": "debezium", "tables": {"s.orders": table}}


def event(at: int, ident: int, note: str | None = None, op: str | None = None, **more: Any) -> Row:
    """An event at a position and a time of its own: without a note a delete."""
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "orders", "lsn": at}
    source["ts_ms"] = 10**12 + at
    image = {"id": ident, "note": note, **more}
    images = {"after": image} if note is not None else {"before": image}
    return {"op": op or ("u" if note else "d"), "source": source, **images}


def truncate(at: int) -> Row:
    return {"op": "t", "source": event(at, 0)["source"]}
