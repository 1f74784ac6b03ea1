"""What one driver works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from sluice.config.project import Pipeline, Project
from sluice.config.table_choice import only
from sluice.errors import ConfigError
from sluice.manifest import Manifest
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.writer import Attempt


def pipeline_for(project: Project, manifest: Manifest) -> Pipeline:
    """The manifest's pipeline, with the tables that the batch is for, at the epoch of the batches
    that it repeats.

    Raises ConfigError where the batch is for tables that the pipeline lists no more.
    """
    pipeline, epoch = _with_tables(project.pipeline(manifest.pipeline), manifest), manifest.epoch
    return pipeline if epoch is None else pipeline.model_copy(update={"epoch": epoch})


def _with_tables(pipeline: Pipeline, manifest: Manifest) -> Pipeline:
    try:
        return only(pipeline, manifest.tables)
    except ConfigError as error:
        raise ConfigError(
            f"batch {manifest.batch_id} is for {', '.join(manifest.tables)} alone, and {error}. "
            "List the table again, or give the batch up: sluice rollback "
            f"{pipeline.name} --batch {manifest.batch_id}"
        ) from error


def _unasked() -> None:
    """Nobody else may have a batch that is only looked at."""


@dataclass(frozen=True)
class Job:
    """What one driver works on; `scratch` is a URL for files that only it reads.

    `left_out`: the source tables that cannot be loaded, each with what is wrong of it; the others
    are, with `consistency: table`. `require_mine` raises LeaseHeld where another attempt has the
    batch meanwhile, or ended it.
    """

    spark: SparkSession
    lake: Lake
    pipeline: Pipeline
    manifest: Manifest
    attempt: Attempt
    attempt_id: str
    scratch: str
    left_out: Mapping[str, str] = field(default_factory=dict)
    require_mine: Callable[[], None] = _unasked
