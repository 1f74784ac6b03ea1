"""PostgreSQL's events with their schema: a column `amount` that gets one type after another."""

from __future__ import annotations

import base64
from typing import Any

from tests.spark.connect import ID, INT, TEXT, Type, money, schema_of

Row = dict[str, Any]


def unscaled(number: str) -> str:
    """A decimal's bytes, as JSON has them."""
    digits = int(number.replace(".", ""))
    return base64.b64encode(digits.to_bytes(8, "big", signed=True)).decode()


def event(op: str, lsn: int, amount: Type, value: Any, ident: int, name: str = "amount") -> Row:
    """An event with the amount's type and value; `name`: the column of the amount."""
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders",
              "lsn": lsn, "ts_ms": lsn}  # fmt: skip
    row = {"id": ident, name: value}
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    payload = {"op": op, **images, "source": source, "ts_ms": 0}
    return {
        "schema": schema_of({"id": ID, name: amount}, "before", "after"),
        "payload": payload,
    }


CENTS = money(9, 2)
FINE = money(14, 4)
BATCHES = {
    "whole": [event("c", n, INT, n, n) for n in (1, 2, 3)],
    "cents": [event("u", 11, CENTS, unscaled("2.50"), 2),
              event("c", 12, CENTS, unscaled("-4.25"), 4)],
    "named": [event("u", 15, TEXT, "none", 4), event("c", 16, TEXT, "007", 6)],
    "fine": [event("u", 21, FINE, unscaled("4.1234"), 4), event("d", 22, FINE, None, 3),
             event("c", 23, FINE, None, 5)],
}  # fmt: skip
