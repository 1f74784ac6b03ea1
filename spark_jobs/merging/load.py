"""One attempt at one batch: decode → fold → merge → audit, for all its tables side by side."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import DataFrame

from sluice import names
from sluice.catalog.snapshots import drop_branches
from sluice.errors import PlanError, TerminalError, TransientError
from sluice.faults import Point, reach
from sluice.result import BatchResult, Counts, TableResult
from spark_jobs.decoding import batch_quarantine, early_drops, table_isolation
from spark_jobs.decoding.beyond_floor import quarantine_beyond_floor
from spark_jobs.decoding.changelog_rows import Decoded
from spark_jobs.decoding.decode_batch import DecodedBatch, decode_batch
from spark_jobs.decoding.transactions import count_held
from spark_jobs.driver_messages import emit
from spark_jobs.job import Job
from spark_jobs.lake.table_id import changelog_id, events_id, history_id, target_id, tombstone_id
from spark_jobs.lake.writer import Writer
from spark_jobs.merging.audit import (
    audit,
    refuse_lost,
    refuse_reset,
    refuse_too_many_bad,
    unmerged,
    without_table,
)
from spark_jobs.merging.checks import refuse_unsound
from spark_jobs.merging.duplicate_keys import refuse_duplicate_keys
from spark_jobs.merging.floor_guard import floor_unchanged
from spark_jobs.merging.hint_notes import notes_on_hints
from spark_jobs.merging.merge import merge_table
from spark_jobs.merging.notes import notes
from spark_jobs.merging.row_identity import reads_again, refuse_unidentifiable_rows
from spark_jobs.planning.plan import TablePlan
from spark_jobs.row_conditions import in_batch


def load(job: Job, take_lease: Callable[[], tuple[str, ...]], retried: bool) -> BatchResult:
    """Decode into the changelogs, take the lease, merge into branches, audit.

    `take_lease` returns the pipeline's published batches once the lease is held. `retried`: whether
    an earlier attempt may have written quarantine rows. `main` of a target never moves here.

    Raises PlanError, AuditFailedError, LeaseHeldError; TerminalError if no table can be loaded.
    """
    started = time.monotonic()
    if job.pipeline.holds_transactions:  # which events wait depends on what is published
        job = job.counting(take_lease())
    batch = decode_batch(job)
    _refuse_if_nothing_is_left(batch)
    reach(Point.LOAD_DECODED)
    unassigned = _write_quarantine(job, batch, retried)
    note_lines = _emit_notes(job, batch)
    # The lease stops other publishers, so the set of published batches is final.
    job = job.counting(take_lease())
    reach(Point.LOAD_LEASED)
    early_drops.refuse_made_since(job, batch.summaries, [table.plan for table in batch.tables])
    tables = _merge_all(job, batch)
    result = BatchResult(
        pipeline=job.pipeline.name,
        batch_id=job.manifest.batch_id,
        attempt=job.attempt.id,
        tables=tables,
        unassigned=unassigned,
        seconds=round(time.monotonic() - started, 2),
        epoch=job.pipeline.epoch,
        left_out=batch.left_out,
        completed=job.manifest.reprocess.batches if job.manifest.reprocess else (),
        notes=note_lines,
    )
    audit(job, result)
    return result


def _refuse_if_nothing_is_left(batch: DecodedBatch) -> None:
    if batch.left_out and not batch.tables:
        # A line that begins with an error's name would be taken for the driver's last words.
        wrong = "".join(f"\n- {left.error}" for left in batch.left_out)
        raise TerminalError(f"no table of the batch can be loaded:{wrong}").in_lines()


def _write_quarantine(job: Job, batch: DecodedBatch, retried: bool) -> Counts:
    """Write the quarantine, and refuse a batch that has too many bad records; return the outcomes
    of records without a target."""
    summaries, plans = batch.summaries, [table.plan for table in batch.tables]
    misfits = sum(table.misfits.bad for table in batch.tables)
    unassigned = without_table(summaries, plans)
    unassigned += batch_quarantine.write(job, batch, retried)
    held = count_held(job, batch.envelope)
    refuse_too_many_bad(job, summaries, misfits, held)
    if reads_again(job.manifest):
        for plan in plans:
            refuse_unidentifiable_rows(job, plan, _batch_changes(job, plan))
    return unassigned


def _emit_notes(job: Job, batch: DecodedBatch) -> tuple[str, ...]:
    made = [table.plan for table in batch.tables if table.created]
    note_lines = notes(job, batch.envelope, batch.summaries, made)
    note_lines += tuple(
        note
        for table in batch.tables
        for note in notes_on_hints(job, batch.envelope, table.plan, table.misfits)
    )
    for note in note_lines:
        emit(note)
    return note_lines


def _merge_all(job: Job, batch: DecodedBatch) -> tuple[TableResult, ...]:
    for table in batch.tables:
        drop_older_branches(job, table.plan)
    merged = table_isolation.for_each_table(
        job.pipeline,
        batch.tables,
        lambda table: table.plan.source.name,
        lambda table: _merge(job, batch.envelope, table),
    )
    return tuple(merged)


def _merge(job: Job, envelope: DataFrame, table: Decoded) -> TableResult:
    try:
        return _merge_and_count(job, envelope, table)
    except (TransientError, PlanError):
        raise
    except Exception as error:  # duplicate keys may fail in Spark too
        refuse_duplicate_keys(job, table.plan, error)
        raise


def _merge_and_count(job: Job, envelope: DataFrame, table: Decoded) -> TableResult:
    plan, summary = table.plan, table.plan.summary
    early_drops.refuse_rows_below_drop(job, plan, _batch_changes(job, plan))
    with floor_unchanged(job.lake, plan):
        beyond = quarantine_beyond_floor(job, envelope, table)
        writer = Writer(job.lake, plan, job.attempt, table.span, table.created)
        writer.mark_partials()
        merged = merge_table(writer, job.manifest.accepts_late)
    reach(Point.LOAD_MERGED)
    refuse_reset(job, plan, merged)
    refuse_unsound(job, plan, merged.staged)
    counts = merged.counts + unmerged(job.pipeline, plan, table.misfits.bad) + beyond
    refuse_lost(job, plan, counts)
    return TableResult(
        source=summary.source.name,
        target=plan.name,
        counts=counts,
        staged=merged.staged,
        newest_source_ts=summary.newest_source_ts,
        compared=merged.compared,
        conflicts=merged.conflicts,
        nulled=table.misfits.nulled,
        dropped=() if table.created else merged.dropped,
    )


def _batch_changes(job: Job, plan: TablePlan) -> DataFrame:
    changes = job.spark.table(changelog_id(plan).sql())
    return changes.where(in_batch(job.manifest.batch_id))


def drop_older_branches(job: Job, plan: TablePlan) -> None:
    """Drop the branches of earlier attempts of the batch."""
    prefix = names.branch_name(job.manifest.batch_id, "")
    for table in (target_id(plan), tombstone_id(plan), history_id(plan), events_id(plan)):
        drop_branches(job.lake.catalog, table.namespace, table.name, prefix)
