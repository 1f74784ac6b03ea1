"""StreamX: updates in one message or in two, whichever the change's number says.

What a change does not carry is described, and left out of the row. Of the two writers that of Kafka
writes every NULL; that of DataHub Blob leaves NULLs out, so its rows are whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.reference import Change
from tests.spark.dialects.base import (
    INDEX,
    MILLIS,
    Dialect,
    Row,
    images,
    key,
    sent_columns,
    texts,
    whole_inserts,
)


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """The messages of one change."""
    change = whole_inserts(change)
    before, after = images(change)[0], sent_columns(change)
    if change.op == "t":
        return [_message(change, database, "TRUNCATE")]
    if change.op == "u" and before and change.place[1] % 2:
        return [_message(change, database, "UPDATE_BEFOR", before=before),
                _message(change, database, "UPDATE_AFTER", after=after)]  # fmt: skip
    op = {"r": "INSERT", "c": "INSERT", "u": "UPDATE_AFTER", "d": "DELETE"}[change.op]
    sides = {name: row for name, row in (("before", before), ("after", after)) if row}
    return [_message(change, database, op, **sides)]


def _message(change: Change, database: str, op: str, **sides: Row) -> Row:
    before, after = images(change)
    full, clock, when = change.op == "r", change.place[1], MILLIS + change.place[1]
    columns = dict.fromkeys(("text", "amount", "doc"), "STRING") | {"id": "LONG", "x": "LONG"}
    described = [{"name": n, "type": columns[n]} for n in after or before]
    source = {"dbType": "MySQL", "dbName": database, "tableName": change.table}
    return {
        "schema": {"dataColumn": described, "source": source,
                   "primaryKey": key(change) if sides else []},
        "payload": {
            **{name: {"dataColumn": texts(row)} for name, row in sides.items()}, "op": op,
            "sequenceId": "-1" if full else f"{clock + 8}",
            "timestamp": {"eventTime": -1 if full else when, "systemTime": when}, "ddl": None,
        },
        "version": "0.0.1",
    }  # fmt: skip


def tell_blob(change: Change, database: str, sent: int) -> list[Row]:
    """The same without any member that is null."""
    return [_filled(each) for each in tell(replace(change, absent=frozenset()), database, sent)]


def _filled(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _filled(member) for name, member in value.items() if member is not None}


def non_row_records(database: str) -> list[Row]:
    """A heartbeat, both ends of a transaction, a statement."""
    source = {"dbType": "MySQL", "dbName": database, "tableName": "keyed"}
    schema = {"dataColumn": None, "primaryKey": None, "source": source}
    ops = ("MHEARTBEAT", "TRANSACTION_BEGIN", "TRANSACTION_END", "CINDEX")
    payload = {"before": None, "after": None, "sequenceId": "9", "timestamp": {"eventTime": 1}}
    return [
        {"schema": schema, "payload": payload | {"op": op, "ddl": {"text": INDEX}}} for op in ops
    ]


DIALECT = Dialect("streamx", "streamx", tell, non_row_records=non_row_records)
BLOB = Dialect("streamx of blobs", "streamx", tell_blob, non_row_records=non_row_records)
