"""verify: compare targets and tombstones with their changelogs, which are folded again.

It writes nothing, takes no lease, and reads all tables at the recorded snapshots of one cut.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.source_names import is_reserved
from sluice.verification import TableReport, Verification
from spark_jobs.lake.cut import Cut, Cutter, TargetTables
from spark_jobs.lake.rows_at_cut import changes_at, has_partial_changes, live_rows_at, rows_at
from spark_jobs.materialize import materialize
from spark_jobs.planning.dropped import without_values
from spark_jobs.threads import map_concurrently, run_concurrently
from spark_jobs.verifying.above_floor import above, comparable_recomputed, comparable_rows
from spark_jobs.verifying.begun import Begun
from spark_jobs.verifying.comparison import compared
from spark_jobs.verifying.differences import Layout
from spark_jobs.verifying.modes import compare_modes
from spark_jobs.verifying.recompute import recompute, rows_of, tombstones_of


def verify(spark: SparkSession, cutter: Cutter, only: str | None) -> Verification:
    """Compare every table of a pipeline, or one; a second time if the lake changed meanwhile.

    Raises TerminalError for an unknown table, TransientError while a batch is being published.
    """
    begun = Begun(cutter.ledger.pipeline)
    targets, notes = cutter.tables(only), []
    cut = cutter.cut(targets)
    reports = _compare_all(spark, targets, cut)
    if not all(report.agrees for report in reports) and (again := cutter.cut(targets)) != cut:
        notes.append("the lake moved during the comparison; this is a second one")
        cut = again
        reports = _compare_all(spark, targets, cut)
        if cutter.cut(targets) != cut:
            notes.append("it moved again; verify when nothing is being published or rolled back")
    return begun.report(cut, reports, notes)


def _compare_all(spark: SparkSession, targets: list[TargetTables], cut: Cut) -> list[TableReport]:
    return map_concurrently(targets, lambda tables: _compare_table(spark, tables, cut))


def _compare_table(spark: SparkSession, tables: TargetTables, cut: Cut) -> TableReport:
    floor = cut.floor(tables.target) if tables.key else None
    changelog = above(changes_at(spark, cut, tables), floor)
    target = _with_lost_columns(live_rows_at(spark, cut, tables, changelog), changelog)
    data = tuple(c for c in target.columns if c not in names.RESERVED_COLUMNS)
    columns = [c for c in data if c in changelog.columns]
    recomputed = materialize(
        recompute(changelog, tables.key, columns, has_partial_changes(changelog, tables))
    )
    tombstones = tombstones_of(recomputed, changelog, tables.key)
    rows, of_tombstones, beside = run_concurrently(
        lambda: compared(
            tables.target, cut, rows_of(comparable_recomputed(recomputed, floor)),
            comparable_rows(target, recomputed, tables.key, floor), _layout(tables.key, data),
        ),
        lambda: compared(
            tables.tombstones, cut, tombstones,
            above(rows_at(spark, cut, tables.tombstones, like=tombstones), floor),
            _layout(tables.key, ()),
        ),
        lambda: compare_modes(spark, tables, cut, changelog, floor),
    )  # fmt: skip
    return TableReport(
        target=tables.target.full_name,
        key=tables.key,
        rows=rows,
        tombstones=of_tombstones,
        foreign=cut.foreign(tables.target),
        floor=floor,
        beside=beside,
    )


def _with_lost_columns(target: DataFrame, changelog: DataFrame) -> DataFrame:
    """Return a target's rows with NULL in each column that it lacks and a change has a value in:
    somebody dropped it, and the next batch adds it again as empty."""
    there = {name.lower() for name in target.columns}
    lost = {
        f.name: F.lit(None).cast(f.dataType)
        for f in changelog.schema
        if f.name.lower() not in there and not is_reserved(f.name)
    }
    empty = without_values(lost, changelog)
    return target.withColumns({name: null for name, null in lost.items() if name not in empty})


def _layout(key: tuple[str, ...], data: tuple[str, ...]) -> Layout:
    """Return the columns to compare; rows without a key are identified by their positions."""
    if not key:
        return Layout((names.POSITION,), data)
    return Layout(key, (*(c for c in data if c not in key), names.POSITION))
