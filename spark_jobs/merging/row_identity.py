"""Rows of files that are read again, if only their place in a file identifies them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.errors import PlanError
from sluice.manifest import Manifest
from spark_jobs.job import Job
from spark_jobs.planning.plan import TablePlan
from spark_jobs.position_text import by_arrival
from spark_jobs.row_conditions import is_partial

_IN_PART: Final = "no order, and rows that are logged in part"


def refuse_unidentifiable_rows(job: Job, plan: TablePlan, changes: DataFrame) -> None:
    """Raise PlanError if rows of a batch that `reads_again` cannot be recognised.

    Without a position from the source, a row or version is identified by its place in a file. That
    changes if the file was changed, and differs when it is reprocessed. The place also decides from
    which earlier row a row that is logged in part takes its missing values.
    """
    lacks, rows = _lacks(plan), changes.where(_by_place(job.manifest))
    if not lacks:
        lacks, rows = _IN_PART, rows.where(is_partial())
    if not rows.isEmpty():
        raise PlanError(
            f"{plan.name}: pipeline {job.pipeline.name} gives it {lacks}, "
            "so that rows read again cannot be distinguished from those loaded before. "
            f"{_instead(job)}"
        )


def _lacks(plan: TablePlan) -> str:
    """Return what the table's rows lack to be read twice; "" if the second reading replaces the
    first, as it does for whole rows with a key."""
    if not plan.keyed:
        return "neither a key nor an order"
    if plan.history or plan.append:
        return f"no order, and it has a {'history' if plan.history else 'table of its events'}"
    return ""


def reads_again(manifest: Manifest) -> bool:
    """Whether the batch has files of which something was loaded before."""
    return manifest.repeats or bool(manifest.changed)


def _by_place(manifest: Manifest) -> Column:
    """Whether a change's position contains its place in a file that is read again.

    The place is the whole position, or a suffix if arrival orders changes at one position of the
    source's log.
    """
    position = F.col(names.POSITION)
    again = manifest.files if manifest.repeats else manifest.changed
    arrivals = F.array(*(F.lit(f".{file.arrival}.") for file in again))
    stands = F.exists(arrivals, lambda at: position.contains(at))
    return by_arrival(position) | stands if manifest.repeats else stands


def _instead(job: Job) -> str:
    manifest = job.manifest
    if manifest.changed:
        loaded = ", ".join(sorted({batch for f in manifest.changed for batch in f.replaces}))
        mine = f" and of {manifest.batch_id}" if job.attempt.id else ""  # a look landed nothing
        return (
            "To have changed files in the place of what was loaded: sluice rollback, then sluice "
            f"release, of batch {loaded}{mine}, and run"
        )
    if manifest.reprocess is None:
        return "Load its files for all tables: sluice run, after sluice release where they are held"
    listed = ", ".join(manifest.reprocess.batches)
    held = job.pipeline.holds_transactions
    completes = "If it completes a transaction, set on_open_transaction: apply. " if held else ""
    return (
        f"{completes}Instead of a reprocess: sluice rollback, then sluice release, of batch "
        f"{listed}, and run"
    )
