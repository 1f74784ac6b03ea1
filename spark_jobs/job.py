"""What one driver works on: a batch, its pipeline and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from sluice.config.pipeline import Pipeline
from sluice.config.project import Project
from sluice.config.table_choice import only
from sluice.errors import ConfigError
from sluice.manifest import Manifest
from spark_jobs.attempt import Attempt
from spark_jobs.failures import NOTHING
from spark_jobs.lake.tables import Lake


def pipeline_for(project: Project, manifest: Manifest) -> Pipeline:
    """Return the manifest's pipeline, with the manifest's epoch and only the tables of the batch.

    Raises ConfigError if the pipeline no longer lists one of these tables.
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


def _no_check() -> None:
    """The default of `require_current`, for a batch that is only previewed."""


@dataclass(frozen=True)
class Job:
    """What one driver works on.

    `scratch`: URL of a folder for files that only this driver reads. `left_out`: the source tables
    that cannot be loaded, each with the reason; with `consistency: table` the others are loaded.
    `require_current` raises LeaseHeldError if another attempt owns the batch, or it is closed.
    """

    spark: SparkSession
    lake: Lake
    pipeline: Pipeline
    manifest: Manifest
    attempt: Attempt
    scratch: str
    left_out: Mapping[str, str] = field(default_factory=dict)
    require_current: Callable[[], None] = _no_check

    def counting(self, published: tuple[str, ...]) -> Job:
        """Return the job with the batches that count as published."""
        return replace(self, attempt=replace(self.attempt, published=published))


def unpublished(pipeline: Pipeline) -> str:
    """Return what an error of one table leaves unpublished: with `consistency: table` the batch's
    other tables may be published."""
    return "the table is not published" if pipeline.each_table_alone else NOTHING


def how_to_go_on(job: Job) -> str:
    """Return the commands with which an operator goes on without a bad batch."""
    pipeline, batch = job.pipeline.name, batch_to_name(job)
    if not job.manifest.claims:  # its files are other batches'
        return how_to_give_up(job)
    return (
        f"If the data is wrong: `sluice rollback {pipeline} --batch {batch}` goes on without its "
        f"files, and `sluice release {pipeline} --batch {batch}` loads them together with what "
        "corrects them, once that has landed"
    )


def advice(job: Job) -> list[str]:
    """Return `how_to_go_on` as a message's last lines; none for a preview, which has no batch."""
    return [how_to_go_on(job)] if job.attempt.id else []


def how_to_give_up(job: Job) -> str:
    """Return the command that ends a batch."""
    return f"To give the batch up: sluice rollback {job.pipeline.name} --batch {batch_to_name(job)}"


def batch_to_name(job: Job) -> str:
    """Return the batch for a command that an error of one table advises.

    With `consistency: table` that is "ID": the batch may be published without the table, which is
    then left to a batch that the run's error names.
    """
    alone = job.pipeline.each_table_alone and not job.manifest.share_of
    return "ID" if alone else job.manifest.batch_id
