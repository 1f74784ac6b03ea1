"""Quarantine rows of a decoded batch: rejected records, and those that did not fit."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.result import Counts
from spark_jobs.canonical import OUTCOME_REJECT, SOURCE_PARTS
from spark_jobs.decoding import quarantine
from spark_jobs.decoding.changelog_rows import typed_changes
from spark_jobs.decoding.decode import BAD, RECORD
from spark_jobs.decoding.decode_batch import DecodedBatch
from spark_jobs.decoding.record_numbers import located
from spark_jobs.evaluated_once import optimizer_barrier
from spark_jobs.job import Job
from spark_jobs.record_places import PLACE, as_place


def write(job: Job, batch: DecodedBatch, retried: bool) -> Counts:
    """Write the batch's quarantine rows; return the counts of what landing rejected.

    The rows replace those of an earlier attempt, which may exist if the batch is `retried`. Raises
    LeaseHeldError if a later attempt owns the batch.
    """
    bad = any(t.misfits.bad for t in batch.tables) or any(
        summary.rejected for summary in batch.summaries
    )
    if not (bad or job.manifest.rejects or retried):
        return Counts()
    pipeline, batch_id = job.pipeline.name, job.manifest.batch_id
    rows = quarantine.landing_rows(job.spark, job.manifest.rejects, pipeline, batch_id)
    if bad:
        rejects = located(job, batch.envelope, _rejects(job, batch))
        rows = rows.unionByName(quarantine.rows(rejects, pipeline, batch_id))
    job.require_current()  # replacing could delete the rows of a later attempt
    quarantine.replace(job.spark, rows, batch_id)
    lost = len(job.manifest.rejects)
    return Counts(read=lost, quarantined=lost)


def _rejects(job: Job, batch: DecodedBatch) -> DataFrame:
    """Return rejected records and records that did not fit, with their place."""
    envelope = batch.envelope
    kept: list[Column | str] = [
        F.concat_ws(".", *SOURCE_PARTS).alias("source_table"),
        "reason",
        (F.col("detail") if "detail" in envelope.columns else F.lit("")).alias("detail"),
        "raw",
        *PLACE,
    ]
    rejects = envelope.where(F.col("outcome") == OUTCOME_REJECT).select(*kept)
    for plan in (table.plan for table in batch.tables if table.misfits.bad):
        typed = typed_changes(job, envelope, plan, with_values=True)
        misfits = optimizer_barrier(typed).where(names.COUNTED).where(F.col(BAD) != "")
        rejects = rejects.unionByName(
            misfits.select(
                F.lit(plan.source.name).alias("source_table"),
                F.lit("does_not_fit").alias("reason"),
                F.col(BAD).alias("detail"),
                F.col(RECORD).alias("raw"),
                *as_place(),
            )
        )
    return rejects
