"""Forecast of a load: the same decode, fold and comparison, without writing."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.column_renames import NOWHERE, dropped_since, in_order
from sluice.operations.preview import Forecast, TableForecast
from sluice.result import Counts
from spark_jobs.decoding import beyond_floor
from spark_jobs.decoding.changelog_rows import typed_changes
from spark_jobs.decoding.ddl_columns import statements_of_batch
from spark_jobs.decoding.decode import BAD
from spark_jobs.decoding.early_drops import refuse_rows_below_drop
from spark_jobs.decoding.misfit_counts import misfit_counts, misfits_found
from spark_jobs.decoding.plans import make_plans
from spark_jobs.decoding.record_rules import apply_record_rules
from spark_jobs.decoding.whole_envelope import whole_envelope
from spark_jobs.folding.fold import fold_counting
from spark_jobs.folding.no_key import NoKeyChanges, plan_rows
from spark_jobs.folding.resolve import APPLY, STATUS, StoredState, resolve, tally
from spark_jobs.folding.truncations import truncation
from spark_jobs.job import Job
from spark_jobs.lake.evolution import retyped
from spark_jobs.lake.stored import stored_at
from spark_jobs.lake.table_id import changelog_id, target_id, tombstone_id
from spark_jobs.materialize import materialize
from spark_jobs.merging.audit import unmerged, without_table
from spark_jobs.merging.hint_notes import notes_on_hints
from spark_jobs.merging.notes import notes
from spark_jobs.merging.row_identity import reads_again, refuse_unidentifiable_rows
from spark_jobs.planning import defaults
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.dropped import without_values
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.replaced_columns import changes_as
from spark_jobs.planning.table_columns import target_columns
from spark_jobs.quoting import by_name
from spark_jobs.row_conditions import is_truncate, of_batches


def forecast(job: Job) -> Forecast:
    """Return what a load of the batch would do; raise PlanError if the load would.

    `job.attempt.published`: the batches that count as published.
    """
    envelope, summaries = apply_record_rules(job, whole_envelope(job))
    plans = make_plans(job, summaries, statements_of_batch(job, envelope, summaries), envelope)
    forecasts = [_table(job, envelope, plan) for plan in plans]
    tables = tuple(table for table, _ in forecasts)
    lost = len(job.manifest.rejects)
    unassigned = without_table(summaries, plans) + Counts(read=lost, quarantined=lost)
    made = [plan for plan, table in zip(plans, tables, strict=True) if table.created]
    all_notes = (
        *notes(job, envelope, summaries, made),
        *(note for _, own in forecasts for note in own),
    )
    return Forecast(tables, unassigned, all_notes)


def _table(job: Job, envelope: DataFrame, plan: TablePlan) -> tuple[TableForecast, tuple[str, ...]]:
    """Return a table's forecast, and notes on it."""
    typed = _typed(job, envelope, plan)
    fits = F.col(BAD) == ""
    (counted,) = typed.agg(*misfit_counts(plan, fits)).collect()
    unfit = misfits_found(plan, counted.asDict())
    column_history = _column_history(job, plan)
    outcome = _outcome(job, plan, typed.where(fits), column_history)
    going = _going(job, plan, typed.where(fits), column_history)
    existing = job.lake.columns(target_id(plan))
    added, widened = _schema_changes(plan, existing, going)
    forecast_ = TableForecast(
        source=plan.source.name,
        target=plan.name,
        key=plan.key,
        created=existing is None,
        added=added,
        widened=widened,
        counts=outcome.counts + unmerged(job.pipeline, plan, unfit.bad),
        write_mode=job.lake.write_mode(target_id(plan)) or plan.config.write_mode,
        hit_files=outcome.hit_files,
        hit_bytes=outcome.hit_bytes,
        renamed=_renamed(job, plan),
        nulled=unfit.nulled,
        dropped=tuple(column for column in going if column in (existing or ())),
    )
    return forecast_, tuple(notes_on_hints(job, envelope, plan, unfit))


def _typed(job: Job, envelope: DataFrame, plan: TablePlan) -> DataFrame:
    """Return a table's typed changes; raises as a load does for those that it refuses."""
    # Separate from the fold: in one query Spark's optimizer takes minutes.
    typed = materialize(typed_changes(job, envelope, plan))
    if reads_again(job.manifest):
        refuse_unidentifiable_rows(job, plan, typed)
    refuse_rows_below_drop(job, plan, typed)
    return typed


def _renamed(job: Job, plan: TablePlan) -> tuple[str, ...]:
    """Return the column renames that the target's rows do not have yet, as text."""
    before = job.lake.column_history(target_id(plan)).renames
    known = {(rename.below, *pair) for rename in before for pair in rename.columns}
    pairs = ((one.below, *pair) for one in in_order(before, plan.renames) for pair in one.columns)
    fresh = (pair for pair in pairs if pair not in known)
    return tuple(f"{former} → {now}" for _, former, now in fresh if now != NOWHERE)


def _going(
    job: Job, plan: TablePlan, changes: DataFrame, column_history: ColumnHistory
) -> tuple[str, ...]:
    """Return the columns that would leave the target, as `Reader.going` does."""
    if not plan.may_go:
        return ()
    aside = dropped_since(job.lake.column_history(target_id(plan)).renames, column_history.renames)
    stored = _stored(job, plan, column_history).rows if job.lake.floor(target_id(plan)) else None
    left = without_values(plan.may_go, column_history.changes(changes), stored, aside)
    if not left or job.lake.load(changelog_id(plan)) is None:
        return left
    return without_values(left, _published(job, plan, column_history))


def _published(job: Job, plan: TablePlan, column_history: ColumnHistory) -> DataFrame:
    changes = job.spark.table(changelog_id(plan).sql()).where(of_batches(job.attempt.published))
    return column_history.changes(changes_as(changes, plan.types))


def _schema_changes(
    plan: TablePlan, existing: dict[str, str] | None, going: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return columns to add (of a new table all that are the source's) and columns to widen."""
    if existing is None:
        own = (column for column in plan.columns if column.name not in going)
        return tuple(f"{column.name} {column.stored.spark}" for column in own), ()
    columns = target_columns(plan)
    added = (c for c in columns if c.name not in existing and c.name not in going)
    widened = retyped(columns, existing)
    return (
        tuple(f"{column.name} {column.type}" for column in added),
        tuple(f"{change.column} {change.before} → {change.after}" for change in widened),
    )


@dataclass(frozen=True)
class _Outcome:
    """The counts of a table's events, and the data files that the batch would rewrite."""

    counts: Counts
    hit_files: int | None = None
    hit_bytes: int | None = None


def _outcome(
    job: Job, plan: TablePlan, changes: DataFrame, column_history: ColumnHistory
) -> _Outcome:
    changes, lost = beyond_floor.drop_beyond_floor(job, plan, changes)
    truncated = truncation(changes)
    rows = column_history.changes(changes.where(~is_truncate()))
    stored = _stored(job, plan, column_history).cut_by(truncated.position)
    more = truncated.counts(stored.truncated_at) + Counts(read=lost, quarantined=lost)
    if not plan.keyed:
        return _Outcome(_count_rows(job, plan, rows, stored, column_history) + more)
    data = plan.data
    folded = fold_counting(rows, job.manifest.batch_id, plan.key, data)
    resolved = materialize(resolve(folded, stored, plan.key))
    applied = resolved.where(F.col(STATUS) == APPLY)
    return _Outcome(tally(resolved).counts + more, *_hit(job, plan, applied, stored))


def _column_history(job: Job, plan: TablePlan) -> ColumnHistory:
    before = job.lake.column_history(target_id(plan))
    of_events = defaults.merged(before.defaults, plan.defaults)
    renames = in_order(before.renames, plan.renames)
    return before.known(of_events, renames, plan.additions, plan.types)


def _stored(job: Job, plan: TablePlan, column_history: ColumnHistory) -> StoredState:
    tables = (target_id(plan), tombstone_id(plan))
    if any(job.lake.load(table) is None for table in tables):
        return StoredState(None, None, None)
    return stored_at(job.lake, plan, {t: job.lake.base(t) for t in tables}, column_history)


def _count_rows(
    job: Job, plan: TablePlan, rows: DataFrame, stored: StoredState, column_history: ColumnHistory
) -> Counts:
    others = rows.where(F.lit(False))
    if job.lake.load(changelog_id(plan)) is not None:
        others = _published(job, plan, column_history)
    data = tuple(plan.data)
    changes = NoKeyChanges(rows, others, data, stored.truncated_at, stored.cut)
    return plan_rows(changes).counts


def _hit(job: Job, plan: TablePlan, applied: DataFrame, stored: StoredState) -> tuple[int, int]:
    """Return the number and size of the target's data files that hold the keys."""
    if stored.rows is None:
        return 0, 0
    target = target_id(plan).sql()
    keys = by_name(plan.key)
    rows = job.spark.table(target).select(*keys, F.col("_file").alias("file_path"))
    hit = rows.join(applied.select(*keys), list(plan.key), "left_semi").select("file_path")
    files = job.spark.table(f"{target}.files").select("file_path", "file_size_in_bytes")
    total = files.join(hit.distinct(), "file_path", "left_semi").agg(
        F.count("*").alias("files"), F.sum("file_size_in_bytes").alias("bytes")
    )
    found = total.first()
    return (0, 0) if found is None else (found["files"], found["bytes"] or 0)
