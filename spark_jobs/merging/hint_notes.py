"""Notes on hints that may be wrong: no record of a table fits them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.decoding.changelog_rows import typed_changes
from spark_jobs.decoding.decode import BAD
from spark_jobs.job import Job
from spark_jobs.materialize import optimizer_barrier
from spark_jobs.planning.plan import TablePlan


def none_read(job: Job, envelope: DataFrame, plan: TablePlan, records: int) -> str:
    """Return a note on a table none of whose records fits, with what one of them has."""
    typed = optimizer_barrier(typed_changes(job, envelope, plan, with_values=True))
    misfits = typed.where(names.COUNTED).where(F.col(BAD) != "").select(BAD)
    first = misfits.first()
    return unread(job.pipeline.name, plan, records, "" if first is None else first[BAD])


def unread(pipeline: str, plan: TablePlan, records: int, why: str) -> str:
    """Return the note; `why`: the misfits of one record, as the quarantine has them."""
    hinted = any(f"{name}: '" in why for name in plan.config.columns)
    asks = "is its hint right? " if hinted else ""
    return (
        f"none of {records:,} records of {plan.source.name} was read: {why}; {asks}After a "
        f"change: sluice reprocess {pipeline}"
    )
