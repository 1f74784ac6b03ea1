"""Quarantined records among those of a reprocess, which decodes whole files.

Records here have `origin`, the object's key, and `record`, their number in it.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.canonical import of_batches
from spark_jobs.decoding import quarantine
from spark_jobs.job import Job


def quarantined(job: Job, records: DataFrame, reasons: Collection[str] = ()) -> DataFrame:
    """Return the records that the repeated batches quarantined, for some reasons or any."""
    there = _in_quarantine(job)
    if reasons:
        there = there.where(F.col("reason").isin(*reasons))
    return records.join(there, ["origin", "record"], "left_semi")


def unapplied(job: Job, records: DataFrame) -> DataFrame:
    """Return the records without those that the repeated batches applied.

    In a file with quarantined records, all others were applied. Other files landed with this batch.
    """
    others = records.join(_in_quarantine(job), "origin", "left_anti")
    return others.unionByName(quarantined(job, records))


def _in_quarantine(job: Job) -> DataFrame:
    again = job.manifest.reprocess
    rows = job.spark.table(quarantine.TABLE.sql()).where(F.col("pipeline") == job.pipeline.name)
    rows = rows.where(of_batches(again.batches if again else (), "batch_id"))
    return rows.select(F.col("file").alias("origin"), "record", "reason")
