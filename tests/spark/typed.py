"""MySQL's events with their schema, of a table whose columns change: each row says its types."""

from __future__ import annotations

from typing import Any

from tests.spark.connect import ID, Type, schema_of
from tests.spark.renamed import Row, place


def event(op: str, pos: int, ident: int, **columns: tuple[Type, Any]) -> Row:
    """Each column with its type and value."""
    types = {"id": ID} | {name: kind for name, (kind, _) in columns.items()}
    row = {"id": ident} | {name: value for name, (_, value) in columns.items()}
    payload = {"op": op, "source": place(pos), "before": None, "after": row}
    return {"schema": schema_of(types, "after"), "payload": payload}
