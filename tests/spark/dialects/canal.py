"""Canal's flat messages: ordered by a field or by arrival, and in the form that DTS once wrote."""

from __future__ import annotations

from functools import partial

from tests.reference import Change
from tests.spark.dialects.base import (
    INDEX,
    Dialect,
    Row,
    images,
    key,
    sent_columns,
    serial,
    texts,
    whole_inserts,
)

KINDS = {"id": "int", "x": "int", "text": "varchar(50)", "amount": "decimal(10,2)",
         "doc": "varchar(50)"}  # fmt: skip
TYPES = {"r": "INIT", "c": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "TRUNCATE"}


def tell(change: Change, database: str, sent: int, swapped: bool = False) -> list[Row]:
    """One message a change, with `data` and `old` on the side that the form has them."""
    change = whole_inserts(change)
    before, after = images(change)
    new = texts(sent_columns(change))
    # `old` has what changed, so nothing that the change did not carry.
    old = {n: v for n, v in texts(before).items() if swapped or n not in change.absent}
    if change.op == "d":
        sides = {"data": None, "old": [old]} if swapped else {"data": [old], "old": None}
    elif swapped and change.op == "u":
        sides = {"data": [old or new], "old": [new]}
    elif swapped:
        sides = {"data": None, "old": [new]}
    else:
        sides = {"data": [new], "old": [old] if change.op == "u" and old else None}
    if change.op == "t":
        sides = {"data": None, "old": None}
    kinds = {name: KINDS[name] for name in after or before}
    return [sides | {
        "type": TYPES[change.op], "database": database, "table": change.table,
        "pkNames": key(change) or None, "isDdl": change.op == "t",
        "sql": f"TRUNCATE TABLE {change.table}" if change.op == "t" else "",
        "mysqlType": kinds, "sqlType": dict.fromkeys(kinds, 12), "es": 10**12, "id": 7,
        "ts": 10**12 + sent, "offset": serial(change),
    }]  # fmt: skip


def non_row_records(database: str) -> list[Row]:
    """A heartbeat, a GTID, a statement."""
    rowless = {"data": None, "old": None, "pkNames": None, "mysqlType": None, "sqlType": None,
               "es": 10**12, "ts": 10**12, "id": 7, "offset": 1}  # fmt: skip
    named = {"database": database, "table": "keyed", "isDdl": True, "sql": INDEX}
    marks = [{"type": kind, "isDdl": False, "sql": ""} for kind in ("MHEARTBEAT", "GTID")]
    messages: list[Row] = [*marks, {"type": "CINDEX", **named}]
    return [rowless | each for each in messages]


ORDERED = Dialect("canal", "canal", tell, {"order": "offset"}, non_row_records=non_row_records)
ARRIVAL = Dialect(
    "canal by arrival", "canal", tell, by_arrival=True, non_row_records=non_row_records
)
SWAPPED = Dialect(
    "canal of old DTS", "canal", partial(tell, swapped=True),
    {"order": "offset", "form": "dts_before_20220320"}, non_row_records=non_row_records,
)  # fmt: skip
