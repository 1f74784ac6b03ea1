"""Which records of a reprocess were quarantined before; a reprocess decodes whole files.

Records here have `origin` (the object's key), `record` (their number in it) and their bytes, `raw`.
If landing rejected a part of a file, another limit may reject another part, and older quarantine
rows are numbered by the remaining records. There, the bytes tell which records were quarantined.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.decoding import quarantine
from spark_jobs.job import Job
from spark_jobs.row_conditions import of_batches


def quarantined(job: Job, records: DataFrame, reasons: Collection[str]) -> DataFrame:
    """Return the records that the reprocessed batches quarantined for one of these reasons."""
    rows = _in_quarantine(job)
    cut, wanted = _cut(rows), rows.where(F.col("reason").isin(*reasons))
    numbered = records.join(cut, "origin", "left_anti")
    by_bytes = records.join(cut, "origin", "left_semi").join(wanted, ["origin", "raw"], "left_semi")
    return numbered.join(wanted, ["origin", "record"], "left_semi").unionByName(by_bytes)


def unapplied(job: Job, records: DataFrame) -> DataFrame:
    """Return the records without those that the reprocessed batches applied.

    In a file with quarantined records all others were applied, unless landing rejected a part of
    it. Other files landed with this batch.
    """
    rows = _in_quarantine(job)
    whole = rows.join(_cut(rows), "origin", "left_anti")
    others = records.join(whole, "origin", "left_anti")
    return others.unionByName(records.join(whole, ["origin", "record"], "left_semi"))


def _cut(rows: DataFrame) -> DataFrame:
    """Return the files of which landing may have rejected a part: such rejects have no table."""
    return rows.where(F.col("source_table") == "").select("origin").distinct()


def _in_quarantine(job: Job) -> DataFrame:
    again = job.manifest.reprocess
    rows = job.spark.table(quarantine.TABLE.sql()).where(F.col("pipeline") == job.pipeline.name)
    rows = rows.where(of_batches(again.batches if again else (), "batch_id"))
    return rows.select(F.col("file").alias("origin"), "record", "reason", "source_table", "raw")
