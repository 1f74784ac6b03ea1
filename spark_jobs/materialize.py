"""Rows that are computed once and read several times, without Spark's query cache."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel


def materialize(rows: DataFrame) -> DataFrame:
    """Compute the rows now; every later read of the frame returns these rows.

    `DataFrame.persist` caches rows by their plan. A commit to a table of the plan, or a refresh,
    empties that cache, and concurrent queries that fill it again may take a part for the whole
    (SPARK-57547, SPARK-58412): a MERGE saw no rows. A local checkpoint has no plan. If an executor
    is lost with its rows, the job fails and is retried.
    """
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
