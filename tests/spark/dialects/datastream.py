"""Google Datastream from MySQL, JSON: whole rows; a change of the key is a pair of events."""

from __future__ import annotations

from tests.reference import Change
from tests.spark.dialects.base import Dialect, Row, images, key, moves


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """One event a change, two where the old row goes."""
    before, after = images(change)
    kinds = {"r": "INSERT", "c": "INSERT", "u": "UPDATE", "d": "DELETE"}
    halves = [(kinds[change.op], after or before)]
    if moves(change):
        halves = [("UPDATE-DELETE", before), ("UPDATE-INSERT", after)]
    return [_event(change, database, sent, kind, row) for kind, row in halves]


def _event(change: Change, database: str, sent: int, kind: str, row: Row) -> Row:
    clock, full = change.place[1], change.op == "r"
    method = "mysql-backfill-fulldump" if full else "mysql-cdc-binlog"
    place = {
        "log_file": "" if full else f"mysql-bin.{9 + clock // 20}",
        "log_position": 0 if full else 10**6 - 10**4 * (clock // 20) + clock,
    }
    return {
        "uuid": f"{clock}-{kind}", "read_timestamp": f"2024-01-02T03:04:{sent:02d}.000Z",
        "source_timestamp": f"2024-01-02T03:{clock:02d}:00.000Z", "read_method": method,
        "source_metadata": place | {
            "database": database, "table": change.table, "primary_keys": key(change),
            "change_type": kind, "is_deleted": kind in ("DELETE", "UPDATE-DELETE"),
        },
        "payload": row,
    }  # fmt: skip


DIALECT = Dialect("datastream", "datastream", tell, truncates=False)
