"""One attempt at one batch: decode → fold → merge → audit, for all its tables side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.snapshots import drop_branches
from sluice.config.policies import FAIL
from sluice.config.project import Pipeline
from sluice.config.source_tables import truncate_policy
from sluice.errors import (
    AuditFailedError,
    PlanError,
    ResetSuspectedError,
    TerminalError,
    TransientError,
)
from sluice.faults import Point, reach
from sluice.ledger.quarantine import query_of
from sluice.manifest import Manifest
from sluice.result import BatchResult, Counts, TableResult
from spark_jobs.canonical import by_arrival
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
from spark_jobs.merging.checks import how_to_go_on, refuse_unsound
from spark_jobs.merging.doubled import refuse_doubled
from spark_jobs.merging.fence import nothing_forgotten
from spark_jobs.merging.merge import Merged, merge_table
from spark_jobs.merging.notes import notes
from spark_jobs.planning.discover import Found
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
        raise TerminalError("\n".join(left.error for left in batch.left_out)).in_lines()
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
    _refuse_reset(job.pipeline, plan, merged)
    refuse_unsound(job, plan, merged.staged)
    counts = merged.counts + unmerged(job.pipeline, plan, table.bad) + beyond
    expected = found.records + found.ignored + found.rejected
    if counts.read != expected:
        raise AuditFailedError(
            f"{plan.name}: {expected} records were read, "
            f"but {counts.read} are accounted for: {counts}"
        )
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


def unmerged(pipeline: Pipeline, plan: TablePlan, bad: int) -> Counts:
    """Return the outcomes of a table's records that do not reach the merge; `bad`: the misfits."""
    found = plan.found
    passed = found.ignored + found.passed_over(truncate_policy(pipeline, plan.config))
    lost = bad + found.rejected
    return Counts(read=passed + lost, ignored=passed, quarantined=lost)


def _refuse_reset(pipeline: Pipeline, plan: TablePlan, merged: Merged) -> None:
    """Raise ResetSuspectedError if most records are late by position but newer by time."""
    late, read = merged.contradicting, merged.counts.read
    if pipeline.on_position_reset == FAIL and 2 * late > read:
        raise ResetSuspectedError(
            f"position_reset_suspected: {late} of {read} records of {plan.name} are older by "
            "position than the stored rows of their keys, but newer by the source's time. If the "
            "source counts anew (failover, reset log, restored cluster), run: "
            f"sluice raise-epoch {pipeline.name}, with --full-load where it sends all rows anew; "
            "then load again. If it does not, set "
            f"`on_position_reset: accept` in the pipeline {pipeline.name}"
        )


def without_table(found: list[Found], plans: list[TablePlan]) -> Counts:
    """Return the outcomes of records without a target."""
    planned = {plan.source for plan in plans}
    total = Counts()
    for table in found:
        if table.source not in planned:
            passed = table.ignored + table.records
            total += Counts(
                read=passed + table.rejected, ignored=passed, quarantined=table.rejected
            )
    return total


def refuse_too_many_bad(job: Job, found: list[Found], misfits: int, held: int = 0) -> None:
    """Raise AuditFailedError where more records are bad than the pipeline allows.

    `misfits`: records that do not fit their tables; `held`: rejects of open transactions, which do
    not count.
    """
    read = sum(f.records + f.ignored + f.rejected for f in found)
    lost = sum(f.rejected for f in found) + misfits + len(job.manifest.rejects) - held
    again = job.manifest.reprocess
    if again is not None and lost <= again.records:
        return  # a published batch held them already
    lost += sum(reject.records - 1 for reject in job.manifest.rejects)
    if job.pipeline.too_many_bad(lost, read):
        raise AuditFailedError(
            f"batch {job.manifest.batch_id}: {lost} of {read} records are bad, above the ceiling "
            f"of pipeline {job.pipeline.name} (on_bad_record, max_bad_records, max_bad_share); "
            f'nothing is published. Look: sluice sql "{query_of(job.manifest.batch_id)}". If they '
            f"may be left out, raise the ceiling and run again. {how_to_go_on(job)}"
        )


def _refuse_rows_of_no_identity(job: Job, plans: list[TablePlan]) -> None:
    for plan in plans if _reads_again(job.manifest) else ():
        refuse_by_place(job, plan, _mine(job, plan))


def _reads_again(manifest: Manifest) -> bool:
    return manifest.repeats or bool(manifest.changed)


def refuse_by_place(job: Job, plan: TablePlan, changes: DataFrame) -> None:
    """Raise PlanError where rows read again cannot be recognised.

    Without a source position, a row or version is identified by its place in a file, which changes
    when the file is reprocessed or has changed.
    """
    by_place = plan.history or plan.append or not plan.keyed
    if not (by_place and _reads_again(job.manifest)):
        return
    beside = "history" if plan.history else "table of its events"
    lacks = f"no order, and it has a {beside}" if plan.keyed else "neither a key nor an order"
    if not changes.where(_by_place(job.manifest)).isEmpty():
        raise PlanError(
            f"{plan.name}: pipeline {job.pipeline.name} gives it {lacks}, "
            "so that rows read again cannot be told from those loaded before. "
            f"{_instead(job)}"
        )


def _by_place(manifest: Manifest) -> Column:
    """Whether a change's position contains its place in a file that is read again: as a whole, or
    as a suffix where arrival orders changes at one position of the source's log."""
    position = F.col(names.POSITION)
    again = manifest.files if manifest.repeats else manifest.changed
    arrivals = F.array(*(F.lit(f".{file.arrival}.") for file in again))
    stands = F.exists(arrivals, lambda at: position.contains(at))
    return by_arrival(position) | stands if manifest.repeats else stands


def _instead(job: Job) -> str:
    manifest = job.manifest
    if manifest.changed:
        loaded = ", ".join(sorted({batch for f in manifest.changed for batch in f.replaces}))
        mine = f" and of {manifest.batch_id}" if job.attempt_id else ""  # a look landed nothing
        return (
            "To have changed files in the place of what was loaded: sluice rollback, then sluice "
            f"release, of batch {loaded}{mine}, and run"
        )
    if manifest.reprocess is None:
        return "Load its files for all tables: sluice run, after sluice release where they are held"
    listed = ", ".join(manifest.reprocess.batches)
    return (
        f"Instead of a reprocess: sluice rollback, then sluice release, of batch {listed}, and run"
    )


def drop_older_branches(job: Job, plan: TablePlan) -> None:
    """Drop the branches of earlier attempts of the batch."""
    prefix = names.branch_name(job.manifest.batch_id, "")
    for table in (target_id(plan), tombstone_id(plan), history_id(plan), events_id(plan)):
        drop_branches(job.lake.catalog, table.namespace, table.name, prefix)


def audit(result: BatchResult) -> None:
    """Raise AuditFailedError naming a table whose records do not each have exactly one outcome."""
    for table in result.tables:
        if not table.counts.balanced:
            raise AuditFailedError(f"{table.target}: the counts do not add up: {table.counts}")
    if not result.unassigned.balanced:
        raise AuditFailedError(f"the counts without a table do not add up: {result.unassigned}")
