"""One attempt at one batch: decode → fold → merge → audit, for all its tables side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.snapshots import drop_branches
from sluice.errors import PlanError, TerminalError, TransientError
from sluice.faults import Point, reach
from sluice.result import BatchResult, Counts, TableResult
from spark_jobs.decoding import apart, drops_before, rejected
from spark_jobs.decoding.beyond import quarantine_beyond
from spark_jobs.decoding.decode_batch import Decoded, DecodedBatch, decode_batch
from spark_jobs.decoding.transactions import count_held
from spark_jobs.job import Job
from spark_jobs.lake.tables import (
    changelog_id,
    events_id,
    history_id,
    target_id,
    tombstone_id,
)
from spark_jobs.merging.audit import (
    audit,
    refuse_lost,
    refuse_reset,
    refuse_too_many_bad,
    unmerged,
    without_table,
)
from spark_jobs.merging.by_place import reads_again, refuse_by_place
from spark_jobs.merging.checks import refuse_unsound
from spark_jobs.merging.doubled import refuse_doubled
from spark_jobs.merging.fence import nothing_forgotten
from spark_jobs.merging.merge import merge_table
from spark_jobs.merging.notes import notes
from spark_jobs.planning.plan import TablePlan
from spark_jobs.telling import tell


def load(job: Job, hold_lease: Callable[[], tuple[str, ...]], retried: bool) -> BatchResult:
    """Decode into the changelogs, take the lease, merge into branches, audit.

    `hold_lease` returns the pipeline's published batches once the lease is held.

    Raises PlanError, AuditFailedError, LeaseHeldError. `main` of a target never moves here.
    """
    started = time.monotonic()
    if job.pipeline.holds_transactions:  # which events wait depends on what is published
        job = _take_lease(job, hold_lease)
    batch = decode_batch(job)
    if batch.left_out and not batch.tables:
        # A line that begins with an error's name would be taken for the driver's last words.
        wrong = "".join(f"\n- {left.error}" for left in batch.left_out)
        raise TerminalError(f"no table of the batch can be loaded:{wrong}").in_lines()
    reach(Point.LOAD_DECODED)
    unassigned = _set_apart(job, batch, retried)
    made = [table.plan for table in batch.tables if table.created]
    told = notes(job, batch.envelope, batch.found, made)
    for note in told:
        tell(note)
    # The lease stops other publishers, so the set of published batches is final.
    job = _take_lease(job, hold_lease)
    reach(Point.LOAD_LEASED)
    drops_before.refuse_made_since(job, batch.found, [table.plan for table in batch.tables])
    tables = _merge_all(job, batch)
    result = BatchResult(
        pipeline=job.pipeline.name,
        batch_id=job.manifest.batch_id,
        attempt=job.attempt_id,
        tables=tables,
        unassigned=unassigned,
        seconds=round(time.monotonic() - started, 2),
        epoch=job.pipeline.epoch,
        left_out=batch.left_out,
        completed=job.manifest.reprocess.batches if job.manifest.reprocess else (),
        notes=told,
    )
    audit(result)
    return result


def _set_apart(job: Job, batch: DecodedBatch, retried: bool) -> Counts:
    """Write the quarantine and refuse a batch with too many bad records; return the outcomes of
    records without a target."""
    found, plans = batch.found, [table.plan for table in batch.tables]
    misfits = sum(table.bad for table in batch.tables)
    unassigned = without_table(found, plans)
    unassigned += rejected.write(job, batch, retried)
    held = count_held(job, batch.envelope)
    refuse_too_many_bad(job, found, misfits, held)
    _refuse_rows_of_no_identity(job, plans)
    return unassigned


def _merge_all(job: Job, batch: DecodedBatch) -> tuple[TableResult, ...]:
    for table in batch.tables:
        drop_older_branches(job, table.plan)
    merged = apart.each(
        job.pipeline,
        batch.tables,
        lambda table: table.plan.source.name,
        lambda table: _merge(job, batch.envelope, table),
    )
    return tuple(merged)


def _take_lease(job: Job, hold_lease: Callable[[], tuple[str, ...]]) -> Job:
    return replace(job, attempt=replace(job.attempt, published=hold_lease()))


def _merge(job: Job, envelope: DataFrame, table: Decoded) -> TableResult:
    try:
        return _merge_and_count(job, envelope, table)
    except (TransientError, PlanError):
        raise
    except Exception as error:  # duplicate keys may fail in Spark too
        refuse_doubled(job, table.plan, error)
        raise


def _merge_and_count(job: Job, envelope: DataFrame, table: Decoded) -> TableResult:
    plan, found = table.plan, table.plan.found
    accepted = job.manifest.accepts_late
    drops_before.refuse_from_before(job, plan, _mine(job, plan))
    with nothing_forgotten(job.lake, plan):
        beyond = quarantine_beyond(job, envelope, table)
        merged = merge_table(job.lake, plan, job.attempt, table.span, table.created, accepted)
    reach(Point.LOAD_MERGED)
    refuse_reset(job.pipeline, plan, merged)
    refuse_unsound(job, plan, merged.staged)
    counts = merged.counts + unmerged(job.pipeline, plan, table.bad) + beyond
    refuse_lost(plan, counts)
    return TableResult(
        source=found.source.name,
        target=plan.name,
        counts=counts,
        staged=merged.staged,
        newest_source_ts=found.newest_source_ts,
        compared=merged.compared,
        conflicts=merged.conflicts,
        nulled=table.nulled,
    )


def _mine(job: Job, plan: TablePlan) -> DataFrame:
    changes = job.spark.table(changelog_id(plan).sql())
    return changes.where(F.col(names.BATCH_ID) == job.manifest.batch_id)


def _refuse_rows_of_no_identity(job: Job, plans: list[TablePlan]) -> None:
    for plan in plans if reads_again(job.manifest) else ():
        refuse_by_place(job, plan, _mine(job, plan))


def drop_older_branches(job: Job, plan: TablePlan) -> None:
    """Drop the branches of earlier attempts of the batch."""
    prefix = names.branch_name(job.manifest.batch_id, "")
    for table in (target_id(plan), tombstone_id(plan), history_id(plan), events_id(plan)):
        drop_branches(job.lake.catalog, table.namespace, table.name, prefix)
