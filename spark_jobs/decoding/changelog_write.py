"""A batch's partition of a changelog, which replaces that of an earlier attempt."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.snapshots import head
from sluice.faults import Point, reach
from spark_jobs.canonical import OP_TRUNCATE
from spark_jobs.job import Job
from spark_jobs.lake.table_id import TableId
from spark_jobs.planning.opening import Opening
from spark_jobs.quoting import quoted
from spark_jobs.row_conditions import in_batch


def snapshot_before(job: Job, changelog: TableId) -> int | None:
    """Return the changelog's snapshot, for `overwrite_batch`; to be read before checking who owns
    the batch."""
    table = job.lake.load(changelog)
    return None if table is None else head(table)


def overwrite_batch(job: Job, changelog: TableId, rows: DataFrame, since: int | None) -> None:
    """Write the batch's changes, unless its partition changed since the snapshot `since`.

    A whole Spark job runs between the check of who owns the batch and the commit. If a later
    attempt writes the partition meanwhile, the commit is refused and its rows stay. Other batches
    write other partitions and do not conflict. Raises LeaseHeldError if another attempt owns the
    batch.
    """
    job.require_current()
    writer = rows.writeTo(changelog.sql()).option("isolation-level", "serializable")
    if since is not None:
        writer = writer.option("validate-from-snapshot-id", str(since))
    try:
        writer.overwrite(in_batch(job.manifest.batch_id))
    except Exception:  # Spark wraps the refusal in whatever its job died of; a lost batch says why
        job.require_current()
        raise
    reach(Point.LOAD_CHANGES)


def append_opening(
    spark: SparkSession, changelog: TableId, opening: Opening, batch_id: str
) -> None:
    """Append the opening to a batch's partition of a changelog; it is not counted as a record."""
    row = _opening_row(spark, opening, batch_id)
    as_stored(spark, changelog, row).writeTo(changelog.sql()).append()
    reach(Point.LOAD_CHANGES)


def as_stored(spark: SparkSession, changelog: TableId, rows: DataFrame) -> DataFrame:
    """Return rows with the changelog's columns alone; those that they lack are NULL."""
    stored, there = spark.table(changelog.sql()).columns, set(rows.columns)
    return rows.select(*(quoted(c) if c in there else F.lit(None).alias(c) for c in stored))


def _opening_row(spark: SparkSession, opening: Opening, batch_id: str) -> DataFrame:
    values = {
        names.OP: F.lit(OP_TRUNCATE),
        names.POSITION: F.lit(opening.position),
        names.SOURCE_TS: F.lit(opening.at).cast("timestamp"),
        names.BATCH_ID: F.lit(batch_id),
        names.COUNTED: F.lit(False),
    }
    return spark.range(1).select(*(value.alias(name) for name, value in values.items()))
