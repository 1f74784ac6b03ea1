"""The DDL statements of a batch as a driver reads them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.ddl import LONGEST
from spark_jobs.canonical import OP_DDL, OUTCOME_EVENT, SOURCE_PARTS


def ddl_events(envelope: DataFrame, pattern: str) -> DataFrame:
    """The events of statements that have the pattern in them."""
    ddl = (F.col("outcome") == OUTCOME_EVENT) & (F.col("op") == OP_DDL)
    return envelope.where(ddl & F.col("ddl").rlike(pattern))


def told_columns() -> list[Column]:
    """Of a statement: the parts of its event's table, empty where it has none; `lost`, whether its
    place in the source's order is not told; and `ddl`, its text."""
    parts = (F.coalesce(n, F.lit("")).alias(n) for n in SOURCE_PARTS)
    text, lost = F.substring("ddl", 1, LONGEST), F.col("position").isNull()
    return [*parts, lost.alias("lost"), text.alias("ddl")]
