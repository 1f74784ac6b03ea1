"""SharePlex: changed columns beside the old row, or both halves in records of their own."""

from __future__ import annotations

from tests.reference import Change
from tests.spark.dialects.base import INDEX, Dialect, Row, ident, images, sent_columns, texts


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """The records of one change."""
    before, after = images(change)
    # Two of three, so that both halves of one may have the number before that of the next.
    halves = change.op == "u" and before and not change.absent and change.place[1] % 3
    if halves:
        return [_record(change, database, "upd before", data=before),
                _record(change, database, "upd after", data=after, key=before)]  # fmt: skip
    if change.op == "u":
        told = before or ident(change)
        return [_record(change, database, "upd", data=sent_columns(change), key=told)]
    if change.op == "t":
        return [_record(change, database, "truncate")]
    op = {"r": "ins", "c": "ins", "d": "del"}[change.op]
    return [_record(change, database, op, data=after or before)]


def _record(change: Change, database: str, op: str, **rows: Row) -> Row:
    transaction, place = divmod(change.place[1], 3)
    meta = {
        "time": "2017-06-16T14:24:34", "op": op, "scn": str(10**12 + transaction),
        "trans": f"7.0.{transaction}", "seq": place + 1, "size": 3, "idx": f"{place + 1}/3",
        "table": f"{database}.{change.table}",
    }  # fmt: skip
    return {"meta": meta, **{name: texts(row) for name, row in rows.items()}}


def non_row_records(database: str) -> list[Row]:
    """The end of a transaction, a statement."""
    place = {"scn": "9", "trans": "7.0.1", "time": "2017-06-16T14:24:34"}
    statement = place | {"op": "ddl", "table": f"{database}.keyed"}
    return [{"meta": place | {"op": "commit"}}, {"meta": statement, "ddl": INDEX}]


DIALECT = Dialect(
    "shareplex", "shareplex", tell, table_name="{schema}_{table}", non_row_records=non_row_records
)
