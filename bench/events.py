"""One history of an `orders` table, written as each format's source writes it.

Events are dicts for JSON lines; the history is 15 % inserts, 75 % updates, 10 % deletes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

Row = dict[str, Any]
COLUMNS: Final = {
    "id": "bigint", "customer_id": "bigint", "status": "string", "amount": "decimal(18,2)",
    "note": "string", "updated_at": "bigint",
}  # fmt: skip
_MILLIS: Final = 1_760_000_000_000
_STATUSES: Final = ("NEW", "PAID", "SHIPPED", "DONE", "RETURNED")


@dataclass(frozen=True)
class Event:
    """Change number `number` of a row: `old` is NULL for an insert, `new` for a delete."""

    number: int
    old: Row | None
    new: Row | None

    @property
    def kind(self) -> str:
        """insert, update or delete."""
        return "insert" if self.old is None else "delete" if self.new is None else "update"

    @property
    def row(self) -> Row:
        """The row as it is now, or as it was when it was deleted."""
        return self.new or self.old or {}


def history(events: int) -> Iterator[Event]:
    """Events on rows that each live through some of them."""
    for number in range(events):
        ident, step = divmod(number, 20)
        ident = ident * 20 + step % 3
        old, new = _row(ident, number), _row(ident, number + 1)
        yield Event(number, None if step < 3 else old, None if step in (10, 15) else new)


def _row(ident: int, version: int) -> Row:
    digest = hashlib.md5(b"%d.%d" % (ident, version), usedforsecurity=False).hexdigest()
    return {
        "id": ident, "customer_id": int(digest[:5], 16), "status": _STATUSES[version % 5],
        "amount": f"{int(digest[:7], 16) / 100:.2f}", "note": digest * 2,
        "updated_at": _MILLIS * 1000 + version,
    }  # fmt: skip


def _texts(row: Row | None) -> Row | None:
    return None if row is None else {name: str(value) for name, value in row.items()}


def debezium(event: Event) -> Row:
    """Debezium's PostgreSQL connector, without schemas."""
    lsn = 24_023_128 + event.number * 8
    source = {
        "version": "3.0.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": _MILLIS,
        "snapshot": "false", "db": "shop", "sequence": f'["{lsn}","{lsn}"]', "schema": "public",
        "table": "orders", "txId": event.number, "lsn": lsn, "xmin": None,
    }  # fmt: skip
    return {"before": event.old, "after": event.new, "source": source, "op": _letter(event),
            "ts_ms": _MILLIS, "transaction": None}  # fmt: skip


def _letter(event: Event) -> str:
    return {"insert": "c", "update": "u", "delete": "d"}[event.kind]


def datastream(event: Event) -> Row:
    """Datastream from MySQL, JSON."""
    meta = {
        "database": "shop", "table": "orders", "log_file": "mysql-bin.000009",
        "log_position": 1000 + event.number, "primary_keys": ["id"],
        "change_type": event.kind.upper(), "is_deleted": event.new is None,
    }  # fmt: skip
    return {"uuid": f"u-{event.number}", "read_timestamp": "2025-10-09T09:09:09.000Z",
            "source_timestamp": "2025-10-09T09:09:08.123Z", "object": "shop_orders",
            "read_method": "mysql-cdc-binlog", "sort_keys": [_MILLIS, "mysql-bin.000009",
            1000 + event.number], "source_metadata": meta, "payload": event.row}  # fmt: skip


def streamx(event: Event) -> Row:
    """DataWorks to Kafka: updates in one message."""
    op = {"insert": "INSERT", "update": "UPDATE_AFTER", "delete": "DELETE"}[event.kind]
    images = {name: {"dataColumn": _texts(row)}
              for name, row in (("before", event.old), ("after", event.new)) if row}  # fmt: skip
    columns = [{"name": name, "type": "STRING"} for name in COLUMNS]
    source = {"dbType": "MySQL", "dbName": "shop", "schemaName": "public", "tableName": "orders"}
    payload = {"op": op, "sequenceId": str(event.number + 1), "timestamp": {"eventTime": _MILLIS,
               "systemTime": _MILLIS}}  # fmt: skip
    return {"schema": {"dataColumn": columns, "primaryKey": ["id"], "source": source},
            "payload": payload | images, "version": "0.0.1"}  # fmt: skip


def canal(event: Event) -> Row:
    """Canal's flat messages, one row each."""
    kinds = {"id": "bigint", "customer_id": "bigint", "status": "varchar(20)",
             "amount": "decimal(18,2)", "note": "varchar(80)", "updated_at": "bigint"}  # fmt: skip
    codes = dict.fromkeys(kinds, 12)
    old = [_texts(event.old)] if event.kind == "update" else None
    return {"data": [_texts(event.row)], "old": old, "type": event.kind.upper(),
            "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "sql": "",
            "mysqlType": kinds, "sqlType": codes, "es": _MILLIS, "ts": _MILLIS,
            "id": event.number, "gtid": ""}  # fmt: skip


def shareplex(event: Event) -> Row:
    """SharePlex, updates with the old row as `key`."""
    op = {"insert": "ins", "update": "upd", "delete": "del"}[event.kind]
    meta = {"time": "2025-10-09T09:09:09", "op": op, "scn": str(14589063118712 + event.number),
            "trans": "7.0.411499", "seq": 1, "size": 1, "idx": "1/1", "table": "SHOP.ORDERS",
            "rowid": "AAATGpAAIAAItcIAAA", "userid": 84}  # fmt: skip
    key = {"key": _texts(event.old)} if event.kind == "update" else {}
    return {"meta": meta, "data": _texts(event.row), **key}


def maxwell(event: Event) -> Row:
    """Maxwell with the key's columns."""
    old = {"old": {"status": (event.old or {})["status"]}} if event.kind == "update" else {}
    return {"database": "shop", "table": "orders", "type": event.kind, "ts": _MILLIS // 1000,
            "xid": event.number, "xoffset": 0, "primary_key_columns": ["id"],
            "data": event.row, **old}  # fmt: skip


def ogg(event: Event) -> Row:
    """GoldenGate for Big Data."""
    images = {name: row for name, row in (("before", event.old), ("after", event.new)) if row}
    return {"table": "SHOP.ORDERS", "op_type": event.kind[0].upper(),
            "op_ts": "2025-10-09 09:09:09.936000", "current_ts": "2025-10-09T09:09:10.120000",
            "pos": f"{event.number:020d}", "primary_keys": ["id"], **images}  # fmt: skip


def huawei_cdl(event: Event) -> Row:
    """Huawei CDL 2.0 from PostgreSQL."""
    source = {"connector": "postgresql", "ts_ms": _MILLIS, "snapshot": "false", "db": "shop",
              "schema": "public", "table": "orders", "txId": event.number,
              "lsn": 163955221008 + event.number * 8}  # fmt: skip
    return {"schema": None, "payload": {
        "before": event.old, "after": event.new, "source": source, "op": _letter(event),
        "ts_ms": _MILLIS, "message_version": "2.0", "message_type": "0", "LOB_COLUMNS": None,
        "unique": {"id": event.row["id"]}}}  # fmt: skip


def aws_dms(event: Event) -> Row:
    """AWS DMS to Kafka."""
    metadata = {"timestamp": "2025-10-09T09:09:09.210671Z", "record-type": "data",
                "operation": event.kind, "partition-key-type": "schema-table",
                "schema-name": "public", "table-name": "orders",
                "transaction-id": event.number}  # fmt: skip
    return {"data": event.row, "metadata": metadata}


def datahub_tuple(event: Event) -> Row:
    """DataHub Tuple: the rows after their change."""
    about = {"_sequence_id_": str(1649991610688000001 + event.number),
             "_operation_type_": event.kind[0].upper(), "_execute_time_": _MILLIS,
             "_source_table_": "orders", "_before_image_": "N" if event.new else "Y",
             "_after_image_": "Y" if event.new else "N"}  # fmt: skip
    return about | (_texts(event.row) or {})


WRITERS: Final[dict[str, Callable[[Event], Row]]] = {
    "debezium": debezium, "datastream": datastream, "streamx": streamx, "canal": canal,
    "shareplex": shareplex, "maxwell": maxwell, "ogg": ogg, "huawei_cdl": huawei_cdl,
    "aws_dms": aws_dms, "datahub_tuple": datahub_tuple,
}  # fmt: skip
