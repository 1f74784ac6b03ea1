"""Rows that are computed once and read several times, apart from Spark's query cache."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel


def keep(rows: DataFrame) -> DataFrame:
    """Compute the rows now; what is read of the frame afterwards is always these rows.

    `DataFrame.persist` keeps rows by the plan that made them. A commit to a table of that plan,
    or a refresh of it, empties that cache, and queries that then fill it at the same time may
    take what is there so far for all there is (SPARK-57547, SPARK-58412): a MERGE from it saw no
    rows. A local checkpoint has no plan behind it. Where an executor is lost with its rows, the
    job fails and is retried.
    """
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
