"""Kafka Connect's schemas, as events carry them: types of columns, and rows made of them."""

from __future__ import annotations

from typing import Any

Type = dict[str, Any]
ID: Type = {"type": "int32", "optional": False}
INT: Type = {"type": "int32", "optional": True}
BIGINT: Type = {"type": "int64", "optional": True}
TEXT: Type = {"type": "string", "optional": True}


def money(precision: int, scale: int) -> Type:
    """A decimal, whose values are their unscaled bytes."""
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {
        "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": parameters,
    }  # fmt: skip


def schema_of(columns: dict[str, Type], *images: str) -> Type:
    """The schema of an event, whose images are rows of these columns."""
    fields = [{"field": name, **kind} for name, kind in columns.items()]
    row = {"type": "struct", "optional": True, "fields": fields}
    return {"type": "struct", "fields": [{"field": image, **row} for image in images]}
