"""AWS DMS to Kafka and S3: old values beside the new ones under a prefix, ordered by a column."""

from __future__ import annotations

from functools import partial

from tests.reference import Change
from tests.spark.dialects.base import Dialect, Row, images, key, serial
from tests.spark.dialects.tables import CONTAINERS, TableRow

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


def non_row_records(database: str) -> list[Row]:
    """What DMS tells of a table that it makes."""
    metadata = {
        "record-type": "control", "operation": "create-table", "schema-name": database,
        "table-name": "keyed", "timestamp": "2024-10-27T12:39:03.000001Z",
    }  # fmt: skip
    return [{"control": {"table-def": {"columns": {}}}, "metadata": metadata}]


ORDERED = Dialect(
    "aws_dms", "aws_dms", tell, {"order_column": "seq"}, truncates=False,
    table_name="{schema}_{table}", non_row_records=non_row_records,
)  # fmt: skip

LETTERS = {"c": "I", "u": "U", "d": "D"}


def tell_rows(change: Change, database: str, sent: int) -> list[TableRow]:
    """A row of a file of the S3 target, with the old key beside it, or all of a row without one.

    Only updates have old values (the column filters `pk-only` and `all`); of others the columns are
    there, for a file has one line of names.
    """
    before, after = images(change)
    row = after or before
    if change.op == "r":
        return [TableRow(change.table, row | {"seq": None}, "LOAD")]
    told = (before or after) if change.op == "u" else {}
    old = {f"BI_{name}": told.get(name) for name in key(change) or row}
    return [
        TableRow(change.table, {"Op": LETTERS[change.op]} | row | old | {"seq": serial(change)})
    ]


def file_of(row: TableRow, at: int, container: str) -> str:
    """Full loads are numbered, changes are called by their time."""
    name = f"LOAD{at + 1:08X}" if row.kind else f"20240102-{at:09}"
    return f"{row.table}/{name}.{container}"


FILES = tuple(
    Dialect(
        f"aws_dms in {container}", "aws_dms", tell_rows, {"order_column": "seq"}, truncates=False,
        table_name="{schema}_{table}", content=content,
        file=partial(file_of, container=container),
    )
    for container, content in CONTAINERS.items()
)  # fmt: skip
