"""Huawei CDL, both versions of its messages: 1.0 leaves large columns out, 2.0 marks them."""

from __future__ import annotations

from tests.reference import Change
from tests.spark.dialects.base import (
    MILLIS,
    Dialect,
    Row,
    ident,
    images,
    sent_columns,
    whole_inserts,
)
from tests.spark.dialects.debezium import PLACEHOLDER

LSN = 163955221008
OPERATIONS = {"r": "INSERT", "c": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "TRUNCATE"}


def tell_first(change: Change, database: str, sent: int) -> list[Row]:
    """Version 1.0, which knows no full load; the owner of the table stands for the database."""
    change = whole_inserts(change)
    before, after = images(change)
    properties = [{"name": "lsn", "value": LSN + change.place[1]}, {"name": "txId", "value": 5}]
    return [{"schema": None, "payload": {
        "DATA_STORE": "POSTGRESQL", "SEG_OWNER": database, "TABLE_NAME": change.table,
        "TIMESTAMP": MILLIS + change.place[1], "OPERATION": OPERATIONS[change.op],
        "LOB_COLUMNS": ",".join(change.absent) or None,
        "transaction": {"properties": properties}, "unique": ident(change) or None,
        "before": before or None, "data": (sent_columns(change) if after else None),
        "message_version": "1.0", "message_type": "0", "HEARTBEAT_IDENTIFIER": f"{sent}",
    }}]  # fmt: skip


def tell_second(change: Change, database: str, sent: int) -> list[Row]:
    """Version 2.0, shaped like Debezium's."""
    change = whole_inserts(change)
    before, after = images(change)
    source = {"connector": "postgresql", "ts_ms": MILLIS + change.place[1], "db": database,
              "snapshot": "true" if change.op == "r" else "false", "schema": "s",
              "table": change.table, "txId": 5, "lsn": LSN + change.place[1]}  # fmt: skip
    return [{"schema": None, "payload": {
        "source": source, "op": change.op, "ts_ms": MILLIS + change.place[1],
        "message_version": "2.0", "message_type": "0", "LOB_COLUMNS": None,
        "unique": ident(change) or None, "before": before or None,
        "after": (after | dict.fromkeys(change.absent, PLACEHOLDER)) or None,
    }}]  # fmt: skip


def non_row_records(database: str) -> list[Row]:
    """A heartbeat of either version."""
    first = {"DATA_STORE": "POSTGRESQL", "OPERATION": "HEARTBEAT", "data": None, "before": None,
             "HEARTBEAT_IDENTIFIER": "x", "message_version": "1.0"}  # fmt: skip
    second = {"HEARTBEAT_IDENTIFIER": "x", "message_version": "2.0"}
    return [{"schema": None, "payload": payload} for payload in (first, second)]


FIRST = Dialect(
    "huawei_cdl 1.0",
    "huawei_cdl",
    tell_first,
    table_name="{schema}_{table}",
    non_row_records=non_row_records,
)
SECOND = Dialect("huawei_cdl 2.0", "huawei_cdl", tell_second, non_row_records=non_row_records)
