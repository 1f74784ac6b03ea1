"""Entry point of the driver that maintains a pipeline's tables.

Exit codes: 0 done (or time is up), 1 stop, 2 configuration, 75 try again. The last line of output
is the result as JSON.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sluice.catalog.client import open_catalog
from sluice.config.pipeline import Pipeline
from sluice.config.project import load_sound
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.maintenance_lease import MaintenanceLease
from sluice.objects.batch_files import BatchFiles
from sluice.operations.lake_mark import own_ledger
from sluice.operations.maintenance import MaintenanceResult
from spark_jobs.failures import exit_code
from spark_jobs.lake.tables import Lake
from spark_jobs.maintaining.agenda import maintain
from spark_jobs.maintaining.context import MaintenanceContext
from spark_jobs.session import open_session


@contextmanager
def _maintenance_lease(
    ledger: PipelineLedger, pipeline: Pipeline, minutes: float, dry_run: bool
) -> Iterator[Callable[[], bool]]:
    """Wait for the pipeline's lease, then watch it and the time limit, `minutes`, by step; a dry
    run needs neither.

    Before the first step the lease is free: a cluster may take long to give a driver its cores.
    """
    if dry_run:
        yield lambda: True
        return
    with MaintenanceLease(ledger, pipeline.lease_seconds, minutes * 60) as lease:
        lease.pause()
        yield lease.may_continue


def run(folder: Path, pipeline: str, minutes: float, dry_run: bool) -> MaintenanceResult:
    """Open the project and maintain one pipeline.

    Spark starts once no load has the lease: such a load may need the cluster's cores.
    """
    project = load_sound(folder)
    chosen, catalog = project.pipeline(pipeline), open_catalog(project)
    own = own_ledger(project, catalog, read_only=dry_run).of(pipeline)
    with _maintenance_lease(own, chosen, minutes, dry_run) as proceed:
        spark = open_session(project, f"sluice maintain {pipeline}")
        lake, now = Lake(spark, catalog, pipeline), datetime.now(UTC)
        ctx = MaintenanceContext(spark, lake, own, BatchFiles(project), chosen, now, dry_run)
        return maintain(ctx, proceed)


def main(arguments: list[str] | None = None) -> int:
    """Maintain one pipeline; see the module for exit codes."""
    parser = argparse.ArgumentParser(description="Maintain a pipeline's tables")
    parser.add_argument("--project", required=True, type=Path)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--budget", required=True, type=float, help="minutes")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args(arguments)
    return exit_code(lambda: run(given.project, given.pipeline, given.budget, given.dry_run))


if __name__ == "__main__":
    sys.exit(main())
