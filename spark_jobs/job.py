"""What one driver works on."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from sluice.config import Pipeline
from sluice.manifest import Manifest
from spark_jobs.lake import Lake
from spark_jobs.writer import Attempt


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
