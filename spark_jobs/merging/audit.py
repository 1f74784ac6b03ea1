"""audit: every record that was read has exactly one outcome, and not too many have a bad one."""

from __future__ import annotations

from sluice.config.pipeline import Pipeline
from sluice.config.policies import FAIL
from sluice.config.source_tables import truncate_policy
from sluice.counting import are, counted
from sluice.errors import AuditFailedError, ResetSuspectedError
from sluice.ledger.quarantine import query_of
from sluice.result import BatchResult, Counts
from spark_jobs.failures import NOTHING
from spark_jobs.job import Job, how_to_give_up, how_to_go_on, unpublished
from spark_jobs.merging.checks import look_at
from spark_jobs.merging.merge import Merged
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.table_summary import TableSummary


def audit(job: Job, result: BatchResult) -> None:
    """Raise AuditFailedError naming a table whose records do not each have exactly one outcome."""
    for table in result.tables:
        if not table.counts.balanced:
            found = f"the counts do not add up: {table.counts}; {NOTHING}"
            raise _miscounted(job, table.target, found)
    if not result.unassigned.balanced:
        found = f"the counts do not add up: {result.unassigned}; {NOTHING}"
        raise _miscounted(job, "records without a table", found)


def refuse_lost(job: Job, plan: TablePlan, counts: Counts) -> None:
    """Raise AuditFailedError unless as many records have an outcome as were read."""
    read, accounted = plan.summary.total, counts.read
    if accounted != read:
        found = f"of {counted(read, 'record')} {accounted:,} {are(accounted)} accounted for"
        raise _miscounted(job, plan.name, f"{found}: {counts}; {unpublished(job.pipeline)}")


def _miscounted(job: Job, subject: str, found: str) -> AuditFailedError:
    return AuditFailedError(
        f"{subject}: batch {job.manifest.batch_id}: {found}. This is a "
        f"mistake of Sluice's: report it, and keep the batch's files. {how_to_give_up(job)}"
    )


def unmerged(pipeline: Pipeline, plan: TablePlan, bad: int) -> Counts:
    """Return the outcomes of a table's records that are not merged; `bad`: the
    number of misfits."""
    summary = plan.summary
    passed = summary.ignored + summary.passed_over(truncate_policy(pipeline, plan.config))
    lost = bad + summary.rejected
    return Counts(read=passed + lost, ignored=passed, quarantined=lost)


def without_table(summaries: list[TableSummary], plans: list[TablePlan]) -> Counts:
    """Return the outcomes of records without a target."""
    planned = {plan.source for plan in plans}
    total = Counts()
    for summary in summaries:
        if summary.source not in planned:
            passed = summary.ignored + summary.records
            total += Counts(
                read=passed + summary.rejected, ignored=passed, quarantined=summary.rejected
            )
    return total


def refuse_reset(job: Job, plan: TablePlan, merged: Merged) -> None:
    """Raise ResetSuspectedError if most records are late by position but newer by time."""
    pipeline, late, read = job.pipeline, merged.contradicting, merged.counts.read
    if pipeline.on_position_reset == FAIL and 2 * late > read:
        raise ResetSuspectedError(
            f"position_reset_suspected: {late:,} of {counted(read, 'record')} of {plan.name} "
            f"{are(late)} older by position than the stored rows of the same keys, but newer by "
            "the source's time. "
            f"{look_at(job, plan)}. If the source restarted its positions (failover, reset log, "
            f"restored cluster), run: sluice raise-epoch {pipeline.name}, with --full-load "
            "where it sends all rows again; then load again. If it does not, set "
            f"`on_position_reset: accept` in the pipeline {pipeline.name}"
        )


def refuse_too_many_bad(job: Job, summaries: list[TableSummary], misfits: int, held: int) -> None:
    """Raise AuditFailedError if more records are bad than the pipeline allows.

    `misfits`: the number of records that do not fit their tables; `held`: that of rejects because
    of open transactions, which are not counted as bad.
    """
    read = sum(summary.total for summary in summaries)
    bad = sum(summary.rejected for summary in summaries) + misfits - held
    landing, again = job.manifest.rejects, job.manifest.reprocess
    if again is not None and bad + len(landing) <= again.records:
        return  # a published batch had them already
    lost = sum(reject.records for reject in landing)
    read, bad = read + lost, bad + lost
    if job.pipeline.too_many_bad(bad, read):
        raise AuditFailedError(
            f"batch {job.manifest.batch_id}: {bad:,} of {counted(read, 'record')} {are(bad)} bad, "
            "above the limit "
            f"of pipeline {job.pipeline.name} (on_bad_record, max_bad_records, max_bad_share); "
            f'nothing is published. Look: sluice sql "{query_of(job.manifest.batch_id)}". If they '
            f"may be left out, raise the limit and run again. {how_to_go_on(job)}"
        )
