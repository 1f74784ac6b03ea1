"""Debezium's PostgreSQL connector, JSON without schema."""

from __future__ import annotations

from typing import Any

from tests.reference import Change
from tests.spark.dialects.base import Dialect, Row

PLACEHOLDER = "__debezium_unavailable_value"


def event(change: Change, database: str, sent: int = 0) -> Row:
    """A change as the connector writes it; `sent` differs between repeats.

    The own LSN goes back from transaction to transaction, as it does in a real log.
    """
    clock = change.place[1]
    source = {"connector": "postgresql", "db": database, "schema": "s", "table": change.table}
    if change.op == "r":
        place: Row = {"lsn": 5, "sequence": '[null,"5"]', "snapshot": "true"}
    else:
        commit, own = 98 + clock // 3, 10**6 - 300 * (clock // 3) + clock % 3
        place = {"lsn": own, "sequence": f'["{commit}","{own}"]'}
    when = {"ts_ns": 10**18 + clock} if change.op == "r" else {"ts_ms": 10**12 + sent}
    after = None if change.after is None else dict(change.after)
    after = after and after | dict.fromkeys(change.absent, PLACEHOLDER)
    before = None if change.before is None else dict(change.before)
    images: dict[str, Any] = {"before": before, "after": after}
    return {"op": change.op, "source": source | place | {"ts_ms": 10**12 + clock}, **images, **when}


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """One record a change."""
    return [event(change, database, sent)]


def non_row_records(database: str) -> list[Row]:
    """A heartbeat, both ends of a transaction, a logical message."""
    source = {"connector": "postgresql", "db": database, "schema": "", "table": "", "lsn": 7}
    return [
        {"ts_ms": 10**12},
        {"status": "BEGIN", "id": "571:9", "event_count": None, "ts_ms": 5},
        {"status": "END", "id": "571:9", "event_count": 0, "data_collections": [], "ts_ms": 5},
        {"op": "m", "ts_ms": 5, "source": source, "message": {"prefix": "p", "content": "aGk="}},
    ]


DIALECT = Dialect("debezium", "debezium", tell, non_row_records=non_row_records)
