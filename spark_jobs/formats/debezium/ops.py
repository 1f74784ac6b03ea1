"""The operation of a Debezium record: its `op`, or that of a schema change.

See docs/formats/debezium.md, "Operations".
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_DDL, OP_DELETE, OP_INSERT, OP_TRUNCATE, OP_UPDATE
from spark_jobs.formats.common import truncates
from spark_jobs.formats.debezium.reasons import STATEMENT

_OPS: Final = {
    "c": OP_INSERT, "r": OP_INSERT, "u": OP_UPDATE, "d": OP_DELETE, "t": OP_TRUNCATE,
}  # fmt: skip


def kind_sql() -> str:
    """The operation that the field `op` names, as SQL; NULL for any other."""
    ops = " ".join(f"WHEN '{op}' THEN '{name}'" for op, name in _OPS.items())
    return f"CASE op {ops} END"


def op(table: Column) -> Column:
    """The operation of a record of `table`, by its flat columns, `kind` and `position`.

    A TRUNCATE in the topic of schema changes needs a place in the source's log: arrival does not
    order it among the rows, which are in other topics.
    """
    stated = truncates.empties(F.col("ddl"), table) & F.col("position").isNotNull()
    statement = F.when(stated, F.lit(OP_TRUNCATE)).otherwise(F.lit(OP_DDL))
    return F.when(F.expr(STATEMENT), statement).otherwise(F.col("kind"))
