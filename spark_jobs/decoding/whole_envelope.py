"""The records of a batch as an envelope, whatever its format."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.pipeline import Pipeline
from sluice.errors import PlanError
from sluice.manifest import SourceFile
from spark_jobs.formats import FORMATS
from spark_jobs.formats.base import NO_PRIOR_FACTS, PriorFacts
from spark_jobs.job import Job
from spark_jobs.planning.sources import as_listed


def whole_envelope(job: Job, facts: PriorFacts = NO_PRIOR_FACTS) -> DataFrame:
    """Return the batch's records in generic form; raise PlanError for a batch without files."""
    files = job.manifest.files
    if not files:
        raise PlanError(f"batch {job.manifest.batch_id} has no files")
    facts = replace(facts, transactions=job.pipeline.holds_transactions)
    return read_envelope(job.spark, job.pipeline, files, facts)


def read_envelope(
    spark: SparkSession, pipeline: Pipeline, files: tuple[SourceFile, ...], facts: PriorFacts
) -> DataFrame:
    """Return the records in generic form, with tables renamed by their `sources`.

    `absent` and `old_absent` exist for formats without partial rows too.
    """
    envelope = FORMATS[pipeline.format].read(spark, files, pipeline.format_options, facts)
    lacking = {"absent", "old_absent"} - set(envelope.columns)
    whole = {name: F.lit(None).cast("array<string>") for name in sorted(lacking)}
    return as_listed(envelope.withColumns(whole), pipeline)
