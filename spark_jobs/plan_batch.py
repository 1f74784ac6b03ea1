"""Entry point of the driver of `sluice plan`: what a load of a manifest would do.

The ledger does not know the manifest. The driver prints one line of JSON and writes nothing. Exit
codes as `load_batch`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from sluice.catalog.client import open_catalog
from sluice.config.project import Project, load_sound
from sluice.ledger.ledger import Ledger
from sluice.manifest import Manifest
from sluice.objects.batch_files import BatchFiles
from sluice.operations.preview import Forecast
from spark_jobs.attempt import Attempt
from spark_jobs.driver_messages import collecting
from spark_jobs.failures import exit_code
from spark_jobs.job import Job, pipeline_for
from spark_jobs.lake.tables import Lake
from spark_jobs.merging.forecast import forecast
from spark_jobs.session import open_session


def _run(folder: Path, manifest: str) -> Forecast:
    project = load_sound(folder)
    job = _job(project, BatchFiles(project).read_manifest(manifest))
    with collecting() as notes:
        result = forecast(job)
    return replace(result, notes=(*result.notes, *notes))


def _job(project: Project, manifest: Manifest) -> Job:
    pipeline, catalog = pipeline_for(project, manifest), open_catalog(project)
    spark = open_session(project, f"sluice plan {pipeline.name}")
    published = tuple(sorted(Ledger(catalog).of(pipeline.name).batches.published()))
    attempt = Attempt(manifest.batch_id, "", "", published)
    lake = Lake(spark, catalog, pipeline.name)
    return Job(
        spark=spark,
        lake=lake,
        pipeline=pipeline,
        manifest=manifest,
        attempt=attempt,
        scratch="",
    )


def main(arguments: list[str] | None = None) -> int:
    """Plan one batch; see the module for exit codes."""
    parser = argparse.ArgumentParser(description="Tell what a load would do")
    parser.add_argument("--project", required=True, type=Path)
    parser.add_argument("--manifest", required=True)
    given = parser.parse_args(arguments)
    return exit_code(lambda: _run(given.project, given.manifest))


if __name__ == "__main__":
    sys.exit(main())
