"""A batch's own partition of a changelog, written in the place of an earlier attempt's."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.snapshots import head
from spark_jobs.job import Job
from spark_jobs.lake.tables import TableId


def seen(job: Job, changelog: TableId) -> int | None:
    """The snapshot of a changelog before the look at whose the batch is; see `put`."""
    table = job.lake.load(changelog)
    return None if table is None else head(table)


def put(job: Job, changelog: TableId, rows: DataFrame, since: int | None) -> None:
    """Write the batch's changes, unless somebody wrote there since the snapshot `since`.

    The look at whose the batch is lies before a whole Spark job: what a later attempt puts there
    meanwhile stays, for the commit is refused. Other batches write partitions of their own, and
    stand in no way. Raises LeaseHeld where the batch is another attempt's now.
    """
    job.require_mine()
    writer = rows.writeTo(changelog.sql()).option("isolation-level", "serializable")
    if since is not None:
        writer = writer.option("validate-from-snapshot-id", str(since))
    try:
        writer.overwrite(F.col(names.BATCH_ID) == job.manifest.batch_id)
    except Exception:  # Spark wraps the refusal in whatever its job died of; a lost batch says why
        job.require_mine()
        raise
