"""The rows of a pipeline's tables at a cut."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.lake.cut import Cut, TargetTables
from spark_jobs.lake.table_id import TableId
from spark_jobs.planning.replaced_columns import changes_as, in_current_columns
from spark_jobs.row_conditions import is_partial, of_batches


def rows_at(
    spark: SparkSession, cut: Cut, table: TableId, like: DataFrame | None = None
) -> DataFrame:
    """Return a table's rows at the cut; an empty frame with the columns of `like` if
    it was dropped."""
    if table not in cut.heads and like is not None:
        return like.limit(0)
    snapshot = cut.heads[table]
    if snapshot is None:
        return spark.table(table.sql()).limit(0)
    rows = spark.read.option("versionAsOf", snapshot).table(table.sql())
    absent = cut.column_history(table).absent
    return in_current_columns(rows, cut.tables[table], snapshot, absent)


def changes_at(spark: SparkSession, cut: Cut, tables: TargetTables) -> DataFrame:
    """Return the published changes of a table under its current column names, with the defaults of
    columns that were added later."""
    published = of_batches(cut.published)
    changes = rows_at(spark, cut, tables.changelog).where(published)
    target = rows_at(spark, cut, tables.target, changes)
    types = dict(target.dtypes)
    return cut.column_history(tables.target).changes(changes_as(changes, types))


def live_rows_at(spark: SparkSession, cut: Cut, tables: TargetTables, like: DataFrame) -> DataFrame:
    """Return a target's rows at the cut without the soft-deleted ones."""
    return live_rows(rows_at(spark, cut, tables.target, like))


def live_rows(rows: DataFrame) -> DataFrame:
    """Return a target's rows without the soft-deleted ones."""
    if names.IS_DELETED not in rows.columns:
        return rows
    return rows.where(~F.coalesce(names.IS_DELETED, F.lit(False)))


def has_partial_changes(changes: DataFrame, tables: TargetTables) -> bool:
    """Whether some changes leave out columns, so that rows merge several changes."""
    return bool(tables.key) and not changes.where(is_partial()).isEmpty()
