"""Kinds of change in AWS DMS, and the reasons why records are rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_DELETE, OP_INSERT, OP_UPDATE
from spark_jobs.formats.common.envelope import CORRUPT, DIGITS, line_or, looked_up
from spark_jobs.formats.common.tabular_columns import REPEATS, ROW

LOAD: Final = "load"
_OPS: Final = {
    LOAD: OP_INSERT, "insert": OP_INSERT, "update": OP_UPDATE, "delete": OP_DELETE,
    "I": OP_INSERT, "U": OP_UPDATE, "D": OP_DELETE,
}  # fmt: skip
BEFORE: Final = "_before"
"""The column of old values that a record has in a field of their own."""


def with_reason(records: DataFrame, ordered: bool, parts: Sequence[str | Column]) -> DataFrame:
    """Add a record's kind of change, the reason to reject it, and then its `parts` as text."""
    with_kind = records.withColumn("_kind", looked_up(F.col("_op"), _OPS))
    reasoned = with_kind.withColumn("_reason", _reason(ordered))
    return reasoned.withColumn("raw", F.when(F.col("_reason").isNotNull(), line_or(*parts)))


def _reason(ordered: bool) -> Column:
    control = F.col("_control")
    misplaced = ~control & ~F.col("_full_load") & _lacks_order() if ordered else F.lit(False)
    return (
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json"))
        .when(F.col("_op").isNull(), F.lit("not_an_envelope"))
        .when(~control & F.col("_kind").isNull(), F.concat(F.lit("unknown_op:"), "_op"))
        .when(F.coalesce("table", F.lit("")) == "", F.lit("table_missing"))
        .when(~control & _lacks_image(), F.lit("image_missing"))
        .when(misplaced, F.lit("bad_order"))
        .when(F.col(REPEATS), F.lit("duplicate_column"))
    )


def _lacks_image() -> Column:
    """Whether a record has no row; a delete may have it in the old values alone."""
    deleted = F.col("_kind") == OP_DELETE
    return F.coalesce(F.col(ROW), F.when(deleted, F.col(BEFORE))).isNull()


def _lacks_order() -> Column:
    """Whether a change lacks its order, without which it would rank below all that have one."""
    return ~F.coalesce("_order", F.lit("")).rlike(f"^{DIGITS}$")
