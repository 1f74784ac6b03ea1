"""Rows at a cut: what the tables of a pipeline held when it was made."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import of_batches
from spark_jobs.lake.cut import Cut, TargetTables
from spark_jobs.lake.tables import TableId
from spark_jobs.planning.widening import changes_as, under_names_of_now


def rows_at(
    spark: SparkSession, cut: Cut, table: TableId, like: DataFrame | None = None
) -> DataFrame:
    """A table at the cut; without rows where it has none, or is gone."""
    if table not in cut.heads and like is not None:
        return like.limit(0)
    snapshot = cut.heads[table]
    if snapshot is None:
        return spark.table(table.sql()).limit(0)
    rows = spark.read.option("versionAsOf", snapshot).table(table.sql())
    return under_names_of_now(rows, cut.tables[table], snapshot)


def changes_at(spark: SparkSession, cut: Cut, tables: TargetTables) -> DataFrame:
    """The published changes of a table, under the names of now and with the defaults of columns
    that came after them."""
    published = of_batches(cut.published)
    changes = rows_at(spark, cut, tables.changelog).where(published)
    target = rows_at(spark, cut, tables.target, changes)
    types = {field.name: field.dataType.simpleString() for field in target.schema}
    return cut.told(tables.target).changes(changes_as(changes, types))


def living_at(spark: SparkSession, cut: Cut, tables: TargetTables, like: DataFrame) -> DataFrame:
    """A target without the rows that mode soft_delete keeps."""
    target = rows_at(spark, cut, tables.target, like)
    kept = names.IS_DELETED in target.columns
    return target.where(~F.coalesce(names.IS_DELETED, F.lit(False))) if kept else target


def is_partial(changes: DataFrame, tables: TargetTables) -> bool:
    """Whether rows are put together from several changes, for some left columns out."""
    return bool(tables.key) and not changes.where(F.col(names.ABSENT).isNotNull()).isEmpty()
