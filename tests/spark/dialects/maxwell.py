"""Maxwell's daemon: whole rows, and what changed as it was before."""

from __future__ import annotations

from tests.reference import Change
from tests.spark.dialects.base import INDEX, Dialect, Row, images, key, serial

TYPES = {"r": "bootstrap-insert", "c": "insert", "u": "update", "d": "delete"}


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """One record a change; none of an update that changes nothing, for MySQL logs none."""
    before, after = images(change)
    if before == after:
        return []
    place = {} if change.op == "r" else {
        "xid": serial(change) // 4, "xoffset": serial(change) % 4,
        "position": f"master.{9 + serial(change) // 20}:{serial(change) % 20 + 4}",
    }  # fmt: skip
    old = {n: v for n, v in before.items() if v != after[n]} if change.op == "u" else {}
    return [{
        "database": database, "table": change.table, "type": TYPES[change.op],
        "ts": 1477053234 + change.place[1], **place, "primary_key_columns": key(change),
        "data": after or before, **({"old": old} if change.op == "u" else {}),
    }]  # fmt: skip


def non_row_records(database: str) -> list[Row]:
    """The marks of a bootstrap, a statement."""
    named = {"database": database, "table": "keyed", "ts": 1477053234}
    marks = [named | {"type": f"bootstrap-{end}", "data": {}} for end in ("start", "complete")]
    altered = {"type": "table-alter", "sql": INDEX, "position": "master.9:4"}
    return [*marks, named | altered]


DIALECT = Dialect("maxwell", "maxwell", tell, truncates=False, non_row_records=non_row_records)
