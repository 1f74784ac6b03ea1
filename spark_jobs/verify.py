"""Entry point: compare the targets and tombstones of a pipeline with their changelogs, or the
targets with the live source.

Exit codes are those of `load_batch`; tables that differ are a result, not an error.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path

from sluice.catalog.client import open_catalog
from sluice.config.live_source import LiveSource
from sluice.config.project import load_sound
from sluice.ledger.ledger import Ledger
from sluice.verification import Verification
from spark_jobs.failures import exit_code
from spark_jobs.lake.cut import Cutter
from spark_jobs.session import open_session
from spark_jobs.verifying.changelogs import verify
from spark_jobs.verifying.source import verify_source


def _run(
    project_folder: Path, pipeline: str, table: str | None, source: LiveSource | None
) -> Verification:
    project = load_sound(project_folder)
    chosen = project.pipeline(pipeline)
    catalog = open_catalog(project)
    cutter = Cutter(catalog, Ledger(catalog).of(chosen.name), chosen.namespace)
    cutter.tables(table)  # refuses an unknown name before Spark starts
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
        "--source", help="Compare with this database instead: sluice.config.live_source"
    )
    parser.add_argument("--watermark", type=datetime.fromisoformat)
    given = parser.parse_args(arguments)
    source = LiveSource(given.source, given.watermark) if given.source else None
    return exit_code(lambda: _run(given.project, given.pipeline, given.table, source))


if __name__ == "__main__":
    sys.exit(main())
