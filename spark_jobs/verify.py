"""Entry point: refold every changelog of a pipeline and compare with targets and tombstones.

It only reads, takes no lease, and reads one cut of the lake by recorded snapshots. Exit codes are
those of `load_batch`; tables that differ are a result, not an error.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog import open_catalog
from sluice.config import Pipeline, load_sound
from sluice.ledger import Ledger
from sluice.verification import Comparison, Difference, TableReport, Verification
from spark_jobs import compare, defaults
from spark_jobs.compare import Layout
from spark_jobs.cut import Cut, Cutter, Trio
from spark_jobs.failures import exit_code
from spark_jobs.judged import above, judged_refold, judged_rows
from spark_jobs.kept import keep
from spark_jobs.lake import TableId
from spark_jobs.refold import refold, rows_of, tombstones_of
from spark_jobs.session import open_session
from spark_jobs.threads import side_by_side, together

_SHOWN_AT_MOST: Final = 20


def verify(spark: SparkSession, cutter: Cutter, only: str | None) -> Verification:
    """Compare every table of a pipeline, or one; once more where somebody published meanwhile.

    Raises TerminalError for an unknown table, TransientError while a batch is being published.
    """
    started, at = time.monotonic(), datetime.now(UTC)
    trios, notes = cutter.trios(only), []
    cut = cutter.cut(trios)
    reports = _compare_all(spark, trios, cut)
    if not all(report.agrees for report in reports) and (again := cutter.cut(trios)) != cut:
        notes.append("the lake moved during the comparison; this is a second one")
        cut = again
        reports = _compare_all(spark, trios, cut)
        if cutter.cut(trios) != cut:
            notes.append("it moved again; verify when nothing is being published or rolled back")
    seconds = round(time.monotonic() - started, 2)
    return Verification(
        cutter.pipeline, f"{at:%Y-%m-%dT%H:%M:%SZ}", len(cut.published), tuple(reports),
        tuple(notes), seconds,
    )  # fmt: skip


def _compare_all(spark: SparkSession, trios: list[Trio], cut: Cut) -> list[TableReport]:
    return side_by_side(trios, lambda trio: _compare_table(spark, trio, cut))


def _compare_table(spark: SparkSession, trio: Trio, cut: Cut) -> TableReport:
    floor = cut.floor(trio.target) if trio.key else None
    published = F.col(names.BATCH_ID).isin(list(cut.published))
    told = _read(spark, cut, trio.changelog).where(published)
    changelog = above(defaults.filled(told, cut.defaults(trio.target)), floor)
    target = _living(_read(spark, cut, trio.target, like=changelog))
    data = tuple(c for c in target.columns if c not in names.RESERVED_COLUMNS)
    known = [c for c in data if c in changelog.columns]
    partial = bool(trio.key) and not changelog.where(F.col(names.ABSENT).isNotNull()).isEmpty()
    refolded = keep(refold(changelog, trio.key, known, partial))
    graves = tombstones_of(refolded, changelog, trio.key)
    rows, tombstones = together(
        lambda: _compare(
            trio.target, cut, rows_of(judged_refold(refolded, floor)),
            judged_rows(target, refolded, trio.key, floor), _layout(trio.key, data),
        ),
        lambda: _compare(
            trio.tombstones, cut, graves,
            above(_read(spark, cut, trio.tombstones, like=graves), floor), _layout(trio.key, ()),
        ),
    )  # fmt: skip
    foreign = cut.foreign(trio.target)
    return TableReport(trio.target.text, trio.key, rows, tombstones, foreign, floor)


def _living(target: DataFrame) -> DataFrame:
    """Without the rows that mode soft_delete keeps."""
    kept = names.IS_DELETED in target.columns
    return target.where(~F.col(names.IS_DELETED)) if kept else target


def _layout(key: tuple[str, ...], data: tuple[str, ...]) -> Layout:
    """A row without a key is told apart by its position."""
    if not key:
        return Layout((names.POSITION,), data)
    return Layout(key, (*(c for c in data if c not in key), names.POSITION))


def _read(
    spark: SparkSession, cut: Cut, table: TableId, like: DataFrame | None = None
) -> DataFrame:
    """A table at the cut; without rows where it has none, or is gone."""
    if table not in cut.heads and like is not None:
        return like.limit(0)
    snapshot = cut.heads[table]
    if snapshot is None:
        return spark.table(table.sql()).limit(0)
    return spark.read.option("versionAsOf", snapshot).table(table.sql())


def _compare(
    table: TableId, cut: Cut, wanted: DataFrame, found: DataFrame, layout: Layout
) -> Comparison:
    expected, there = (compare.alike(side, found, layout.columns) for side in (wanted, found))
    mine, theirs = together(lambda: _buckets(expected, layout), lambda: _buckets(there, layout))
    unlike = [b for b in sorted(mine.keys() | theirs.keys()) if mine.get(b) != theirs.get(b)]
    kinds, shown = ({}, ()) if not unlike else _differing(expected, there, layout, unlike)
    head = cut.heads.get(table)
    return Comparison(
        table.text,
        None if head is None else str(head),
        sum(rows for rows, _ in mine.values()),
        sum(rows for rows, _ in theirs.values()),
        len(unlike),
        kinds,
        shown,
    )


def _buckets(rows: DataFrame, layout: Layout) -> dict[int, tuple[int, int]]:
    found = compare.by_bucket(rows, layout).collect()
    return {row[compare.BUCKET]: (row[compare.ROWS], row[compare.HASH]) for row in found}


def _differing(
    expected: DataFrame, found: DataFrame, layout: Layout, buckets: list[int]
) -> tuple[dict[str, int], tuple[Difference, ...]]:
    """How many keys differ in which way, and the first of them by key."""
    keys = keep(compare.differing_keys(expected, found, layout, buckets))
    counted = keys.groupBy(compare.KIND).count().collect()
    first = keys.orderBy(compare.KEY, compare.KIND).limit(_SHOWN_AT_MOST).collect()
    shown = (
        Difference(
            row[compare.KIND], tuple(row[compare.COLUMNS] or ()), row[compare.EXPECTED],
            row[compare.FOUND],
        )
        for row in first
    )  # fmt: skip
    return {row[compare.KIND]: row["count"] for row in counted}, tuple(shown)


def _run(project_folder: Path, pipeline: str, table: str | None) -> Verification:
    project = load_sound(project_folder)
    chosen: Pipeline = project.pipeline(pipeline)
    catalog = open_catalog(project)
    cutter = Cutter(catalog, Ledger(catalog), chosen.name, chosen.namespace)
    cutter.trios(table)  # a mistake in the name is told before Spark starts
    return verify(open_session(project, f"sluice verify {pipeline}"), cutter, table)


def main(arguments: list[str] | None = None) -> int:
    """Verify a pipeline; see the module for exit codes."""
    parser = argparse.ArgumentParser(description="Compare targets with their changelogs")
    parser.add_argument("--project", required=True, type=Path)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--table")
    given = parser.parse_args(arguments)
    return exit_code(lambda: _run(given.project, given.pipeline, given.table))


if __name__ == "__main__":
    sys.exit(main())
