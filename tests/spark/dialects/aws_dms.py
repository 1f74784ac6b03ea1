"""AWS DMS to Kafka: old values beside the new ones under a prefix; ordered by a column."""

from __future__ import annotations

from tests.reference import Change
from tests.spark.dialects.base import Dialect, Row, images, serial

OPERATIONS = {"r": "load", "c": "insert", "u": "update", "d": "delete"}


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """One message a change."""
    before, after = images(change)
    old = {f"BI_{name}": value for name, value in before.items()} if change.op == "u" else {}
    return [{
        "data": (after or before) | old | {"seq": serial(change)},
        "metadata": {
            "timestamp": f"2024-10-27T12:39:03.{change.place[1]:06d}Z", "record-type": "data",
            "operation": OPERATIONS[change.op], "partition-key-type": "schema-table",
            "schema-name": database, "table-name": change.table, "transaction-id": 5,
        },
    }]  # fmt: skip


def asides(database: str) -> list[Row]:
    """What DMS tells of a table that it makes."""
    metadata = {
        "record-type": "control", "operation": "create-table", "schema-name": database,
        "table-name": "keyed", "timestamp": "2024-10-27T12:39:03.000001Z",
    }  # fmt: skip
    return [{"control": {"table-def": {"columns": {}}}, "metadata": metadata}]


ORDERED = Dialect(
    "aws_dms", "aws_dms", tell, {"order_column": "seq"}, truncates=False,
    table_name="{schema}_{table}", asides=asides,
)  # fmt: skip
