"""The scratch files of an attempt: the batch's records, partitioned by source table."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from sluice.errors import TransientError
from spark_jobs.canonical import SOURCE_PARTS
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import Source, TableSummary, short_name

PART: Final = "part"
_MOST_FOLDERS: Final = 512


def write_parts(job: Job, envelope: DataFrame) -> tuple[DataFrame, int]:
    """Write the records partitioned by source table, so that each table's pass reads only its part;
    return them and their number."""
    written = Observation()
    parts = in_parts(envelope)
    counted = parts.observe(written, F.count(F.lit(1)).alias("records"))
    writer = counted.write.partitionBy(PART).option("compression", "lz4_raw")
    writer.mode("overwrite").parquet(job.scratch)
    # Without records there is no file, so the schema is given.
    return job.spark.read.schema(parts.schema).parquet(job.scratch), written.get["records"]


def in_parts(envelope: DataFrame) -> DataFrame:
    """Return the records with PART, the folder of their table."""
    names_of = (F.coalesce(part, F.lit("")) for part in SOURCE_PARTS)
    return envelope.withColumn(PART, _folder(F.concat_ws(".", *names_of)))


def require_all(job: Job, written: int, summaries: list[TableSummary]) -> None:
    """Raise TransientError if records are missing from the scratch files.

    Another driver that takes this one for dead removes its files, and Spark would go on without
    them.
    """
    there = sum(summary.total for summary in summaries)
    if there != written:
        raise TransientError(
            f"batch {job.manifest.batch_id}: not all records are left in what this attempt keeps "
            f"({there:,} of {written:,}): somebody removed the rest; it is loaded again"
        )


def part_of(envelope: DataFrame, source: Source) -> DataFrame:
    """Return the records in the folder of a table; all records if there are no folders."""
    if PART not in envelope.columns:
        return envelope
    name = F.lit(f"{source.database}.{source.schema}.{source.table}")
    return envelope.where(F.col(PART) == _folder(name))


def _folder(name: Column) -> Column:
    """Return the folder of a table; with very many tables, several share one."""
    return F.pmod(short_name(name), F.lit(_MOST_FOLDERS))
