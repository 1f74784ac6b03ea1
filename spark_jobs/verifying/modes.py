"""Compare the tables and rows of a table's modes with its changelog."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.verification import Comparison
from spark_jobs.lake.cut import Cut, TargetTables
from spark_jobs.lake.rows_at_cut import rows_at
from spark_jobs.lake.table_id import TableId
from spark_jobs.materialize import materialize
from spark_jobs.quoting import by_name
from spark_jobs.verifying.above_floor import above
from spark_jobs.verifying.comparison import compared
from spark_jobs.verifying.differences import Layout
from spark_jobs.verifying.recompute import KNOWN
from spark_jobs.verifying.recompute_modes import (
    CONTENT,
    TIMED,
    events_of,
    newest_versions,
    versions_of,
    with_content,
)

_ENDS: Final = (names.POSITION_TO, names.IS_CURRENT, names.VALID_FROM, names.VALID_TO)
_MARKS: Final = (names.POSITION, names.DELETED_POSITION, names.IS_DELETED, names.DELETED_AT)
_END_TIMES: Final = (names.VALID_TO, names.DELETED_AT)


def compare_modes(
    spark: SparkSession, tables: TargetTables, cut: Cut, changelog: DataFrame, floor: str | None
) -> tuple[Comparison, ...]:
    """Compare history, soft-deleted rows and events, each if the table has it.

    Only rows above the floor are compared. Of versions, those are compared in which every column is
    known, with the time of their end if it is TIMED. Without a floor, a column that no event
    carried is known to be NULL. A table that lacks changes from when its mode was off is skipped.
    """
    target = above(rows_at(spark, cut, tables.target, changelog), floor)
    data = [c for c in target.columns if c in changelog.columns and c not in names.RESERVED_COLUMNS]
    soft = names.IS_DELETED in target.columns and cut.has_no_gap(tables.target)
    history = cut.has_no_gap(tables.history)
    comparisons: list[Comparison] = []
    if soft or history:
        versions = _versions(changelog, tables.key, data, floor)
    if soft:
        wanted = newest_versions(versions, tables.key)
        layout = _layout(tables.key, data, _MARKS)
        both = _compared(tables.target, cut, wanted, target, layout)
        comparisons.append(replace(both, table=f"{both.table} with its deleted rows"))
    if history and tables.history is not None:
        there = above(rows_at(spark, cut, tables.history), floor)
        layout = _layout((*tables.key, names.POSITION), data, _ENDS)
        comparisons.append(_compared(tables.history, cut, versions, there, layout))
    if cut.has_no_gap(tables.events) and tables.events is not None:
        there = above(rows_at(spark, cut, tables.events), floor)
        comparisons.append(_events(tables.events, cut, changelog, there, data))
    return tuple(comparisons)


def _versions(
    changelog: DataFrame, key: tuple[str, ...], data: list[str], floor: str | None
) -> DataFrame:
    versions = versions_of(changelog, key, data)
    if floor is None:
        versions = versions.withColumn(KNOWN, F.lit(True))
    return materialize(versions)


def _layout(key: tuple[str, ...], data: list[str], ends: tuple[str, ...]) -> Layout:
    return Layout(key, (*(c for c in data if c not in key), *ends))


def _compared(
    table: TableId, cut: Cut, wanted: DataFrame, there: DataFrame, layout: Layout
) -> Comparison:
    sure = F.col(KNOWN) & F.col(TIMED)
    unsure = wanted.where(~sure).select(*by_name(layout.key), KNOWN, TIMED)
    there = there.join(unsure, list(layout.key), "left")
    return compared(table, cut, _sure(wanted, layout), _sure(there, layout), layout)


def _sure(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the KNOWN rows, without the time of their end if it is not TIMED."""
    timed = F.coalesce(TIMED, F.lit(True))
    times = {c: F.when(timed, F.col(c)) for c in layout.values if c in _END_TIMES}
    return rows.withColumns(times).where(F.coalesce(KNOWN, F.lit(True)))


def _events(
    table: TableId, cut: Cut, changelog: DataFrame, there: DataFrame, data: list[str]
) -> Comparison:
    layout = Layout((names.POSITION, names.OP, CONTENT), tuple(data))
    return compared(table, cut, events_of(changelog, data), with_content(there, data), layout)
