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

from pyspark.sql import SparkSession

from sluice import names
from sluice.catalog.client import open_catalog
from sluice.config.livesource import LiveSource
from sluice.config.project import Pipeline, load_sound
from sluice.driver.verification import TableReport, Verification
from sluice.ledger.ledger import Ledger
from spark_jobs.compare import Layout
from spark_jobs.failures import exit_code
from spark_jobs.folding.judged import above, judged_refold, judged_rows
from spark_jobs.folding.refold import refold, rows_of, tombstones_of
from spark_jobs.kept import keep
from spark_jobs.lake.cut import Cut, Cutter, Trio
from spark_jobs.lake.published import changes_at, is_partial, living_at, rows_at
from spark_jobs.session import open_session
from spark_jobs.threads import side_by_side, together
from spark_jobs.verifying.comparison import compared
from spark_jobs.verifying.modes import compare_modes
from spark_jobs.verifying.source import verify_source


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
        pipeline=cutter.pipeline,
        at=f"{at:%Y-%m-%dT%H:%M:%SZ}",
        batches=len(cut.published),
        tables=tuple(reports),
        notes=tuple(notes),
        seconds=seconds,
    )


def _compare_all(spark: SparkSession, trios: list[Trio], cut: Cut) -> list[TableReport]:
    return side_by_side(trios, lambda trio: _compare_table(spark, trio, cut))


def _compare_table(spark: SparkSession, trio: Trio, cut: Cut) -> TableReport:
    floor = cut.floor(trio.target) if trio.key else None
    changelog = above(changes_at(spark, cut, trio), floor)
    target = living_at(spark, cut, trio, changelog)
    data = tuple(c for c in target.columns if c not in names.RESERVED_COLUMNS)
    known = [c for c in data if c in changelog.columns]
    refolded = keep(refold(changelog, trio.key, known, is_partial(changelog, trio)))
    graves = tombstones_of(refolded, changelog, trio.key)
    rows, tombstones, beside = together(
        lambda: compared(
            trio.target, cut, rows_of(judged_refold(refolded, floor)),
            judged_rows(target, refolded, trio.key, floor), _layout(trio.key, data),
        ),
        lambda: compared(
            trio.tombstones, cut, graves,
            above(rows_at(spark, cut, trio.tombstones, like=graves), floor), _layout(trio.key, ()),
        ),
        lambda: compare_modes(spark, trio, cut, changelog, floor),
    )  # fmt: skip
    return TableReport(
        target=trio.target.full_name,
        key=trio.key,
        rows=rows,
        tombstones=tombstones,
        foreign=cut.foreign(trio.target),
        floor=floor,
        beside=beside,
    )


def _layout(key: tuple[str, ...], data: tuple[str, ...]) -> Layout:
    """A row without a key is told apart by its position."""
    if not key:
        return Layout((names.POSITION,), data)
    return Layout(key, (*(c for c in data if c not in key), names.POSITION))


def _run(
    project_folder: Path, pipeline: str, table: str | None, source: LiveSource | None
) -> Verification:
    project = load_sound(project_folder)
    chosen: Pipeline = project.pipeline(pipeline)
    catalog = open_catalog(project)
    cutter = Cutter(catalog, Ledger(catalog), chosen.name, chosen.namespace)
    cutter.trios(table)  # a mistake in the name is told before Spark starts
    spark = open_session(project, f"sluice verify {pipeline}")
    if source is not None:
        return verify_source(spark, cutter, chosen, source, table)
    return verify(spark, cutter, table)


def main(arguments: list[str] | None = None) -> int:
    """Verify a pipeline; see the module for exit codes."""
    parser = argparse.ArgumentParser(description="Compare targets with their changelogs")
    parser.add_argument("--project", required=True, type=Path)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--table")
    parser.add_argument(
        "--source", help="Compare with this database instead: sluice.config.livesource"
    )
    parser.add_argument("--watermark", type=datetime.fromisoformat)
    given = parser.parse_args(arguments)
    source = LiveSource(given.source, given.watermark) if given.source else None
    return exit_code(lambda: _run(given.project, given.pipeline, given.table, source))


if __name__ == "__main__":
    sys.exit(main())
