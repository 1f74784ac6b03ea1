"""What one driver works on."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from sluice.config import Pipeline, Project
from sluice.manifest import Manifest
from sluice.tablechoice import only
from spark_jobs.lake import Lake
from spark_jobs.writer import Attempt


def pipeline_of(project: Project, manifest: Manifest) -> Pipeline:
    """The manifest's pipeline, with the tables that the batch is for, at the epoch of the batches
    that it repeats."""
    pipeline, epoch = only(project.pipeline(manifest.pipeline), manifest.tables), manifest.epoch
    return pipeline if epoch is None else pipeline.model_copy(update={"epoch": epoch})


@dataclass(frozen=True)
class Job:
    """What one driver works on; `scratch` is a URL for files that only it reads."""

    spark: SparkSession
    lake: Lake
    pipeline: Pipeline
    manifest: Manifest
    attempt: Attempt
    attempt_id: str
    scratch: str
