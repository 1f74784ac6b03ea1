"""Keys that have several rows in a target, which only another writer can have caused.

Sluice's writes keep keys unique, so a batch is not checked for this in advance. Duplicate keys make
a batch fail: counts do not add up, or a MERGE finds two rows for one change.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as F

from sluice.errors import AuditFailedError
from spark_jobs.job import Job, unpublished
from spark_jobs.lake.table_id import target_id
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import by_name

_SHOWN: Final = 3


def refuse_duplicate_keys(job: Job, plan: TablePlan, error: Exception) -> None:
    """Raise AuditFailedError if `main` of the target has keys with several rows, which may have
    caused `error`."""
    try:
        shown = _doubled(job, plan)
    except Exception:  # report the first error, which may have caused this one
        return
    if shown:
        raise AuditFailedError(
            f"{target_id(plan).full_name}: key_not_unique: it holds more than one row of a key, "
            f"which somebody else wrote: {', '.join(shown)}; {unpublished(job.pipeline)}. "
            f"Rebuild it from its changelog: sluice rollback {job.pipeline.name} --rebuild "
            f"--table {plan.name}, then run again"
        ) from error


def _doubled(job: Job, plan: TablePlan) -> list[str]:
    target = target_id(plan)
    rows = job.lake.rows(target, job.lake.base(target).snapshot) if plan.keyed else None
    if rows is None:
        return []
    key = by_name(plan.key)
    found = rows.groupBy(*key).agg(F.count("*").alias("_rows")).where(F.col("_rows") > 1)
    return [row[0] for row in found.select(F.to_json(F.struct(*key))).limit(_SHOWN).collect()]
