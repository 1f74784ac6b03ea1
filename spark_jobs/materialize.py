"""Rows that are computed once and read several times, without Spark's query cache."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel


def materialize(rows: DataFrame) -> DataFrame:
    """Compute the rows now; every later read of the frame returns these rows.

    `DataFrame.persist` caches rows by their plan. A commit to a table of the plan, or a refresh,
    empties that cache, and concurrent queries that fill it again may take a part for the whole
    (SPARK-57547, SPARK-58412): a MERGE saw no rows. A local checkpoint has no plan. If an executor
    is lost with its rows, the job fails and is retried.
    """
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)


def optimizer_barrier(rows: DataFrame) -> DataFrame:
    """Return the rows unchanged, but keep Spark from moving later conditions below this point.

    Spark moves a condition below the steps that compute its columns, and repeats a column's
    expression at each reference: a decimal in base64 is then computed hundreds of times per row,
    and planning takes minutes. It moves no condition below an observation.
    """
    return rows.observe(Observation(), F.count(F.lit(1)).alias("rows"))
