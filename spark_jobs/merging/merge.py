"""merge: write one table's changes of a batch to branches of its target and tombstones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from sluice import names
from sluice.errors import PlanError
from sluice.result import ComparedTable, Conflicts, Counts, StagedTable
from spark_jobs.folding import conflicts
from spark_jobs.folding.floor import Floor, since_floor, with_version_ends
from spark_jobs.folding.fold import fold, fold_columns, fold_counting
from spark_jobs.folding.moves import connected_keys, moves, partial_keys_at, with_moved_values
from spark_jobs.folding.no_key import NoKeyChanges, plan_rows
from spark_jobs.folding.resolve import (
    APPLY,
    EQUAL,
    LATE,
    STATUS,
    KeyEnds,
    StoredState,
    Tally,
    count_ends,
    count_newer,
    resolve,
    resolve_ties,
    tally,
    tally_newer,
    unlike_stored,
)
from spark_jobs.folding.truncations import Truncation, truncation
from spark_jobs.lake.table_id import history_id, target_id
from spark_jobs.lake.writer import Writer
from spark_jobs.materialize import materialize
from spark_jobs.merging import stored_column_updates
from spark_jobs.merging.rebuilt_tables import rebuild_all
from spark_jobs.modes import events, history, soft_delete
from spark_jobs.modes.mode_gaps import mark_gap
from spark_jobs.planning import stale_plan
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import by_name
from spark_jobs.row_conditions import in_batch, is_partial, is_truncate
from spark_jobs.threads import run_concurrently


@dataclass(frozen=True)
class Merged:
    """The staged tables of one merge, the outcomes of its records (see `Tally`), and the columns
    that the target loses."""

    counts: Counts
    contradicting: int
    conflicts: Conflicts
    staged: tuple[StagedTable, ...]
    compared: tuple[ComparedTable, ...]
    dropped: tuple[str, ...]


def merge_table(writer: Writer, accepts_late: bool) -> Merged:
    """Fold the batch's changelog partition and write the result to branches.

    `accepts_late`: the changes may include events at or below the floor.
    """
    plan, mine = writer.plan, writer.batch_changes()
    stale_plan.refuse_other_columns(plan, writer.attempt.batch_id, writer.stored_columns)
    rows = mine.where(~is_truncate())
    mark_gap(writer)
    if why_rebuilt := stored_column_updates.why_not_renamable(writer):
        return _merge_anew(writer, rows, why_rebuilt)
    before = writer.stored()
    stored_column_updates.rename_stored(writer)
    truncated = _truncation(plan, mine, before)
    stored = before.cut_by(truncated.position)
    newer = plan.keyed and truncated.position is None and writer.all_newer()
    tallied = _merge_changes(writer, rows, stored, newer, accepts_late)
    writer.truncate(truncated.position, stored)
    _write_modes(writer, stored, newer and not writer.needs_fold_again())
    stored_column_updates.fill_defaults(writer)
    return _merged(writer, rows, tallied, truncated.counts(stored.truncated_at))


def _merge_changes(
    writer: Writer, rows: DataFrame, stored: StoredState, newer: bool, accepts_late: bool
) -> Tally:
    """Merge the changes into target and tombstones; `newer`: all are above everything stored."""
    if not writer.plan.keyed:
        return Tally(_merge_rows(writer, rows, stored))
    if newer and not writer.partial:
        return _merge_newer(writer, rows, stored)
    with_ends = _with_version_ends(writer, stored) if accepts_late else stored
    return _merge_keyed(writer, rows, stored, with_ends)


def _write_modes(writer: Writer, stored: StoredState, newer: bool) -> None:
    if writer.plan.soft_delete:
        soft_delete.write(writer, stored, newer)
    history.write(writer, stored, newer)
    events.write(writer)


def _merged(writer: Writer, rows: DataFrame, tallied: Tally, truncates: Counts) -> Merged:
    """Return the result of a merge; conflicts get a position, and TRUNCATEs are added
    to the counts."""
    plan = writer.plan
    return Merged(
        counts=tallied.counts + truncates,
        contradicting=tallied.contradicting,
        conflicts=conflicts.located(tallied.conflicts, rows, plan.key, plan.data),
        staged=writer.staged(),
        compared=writer.unchanged_tables(),
        dropped=writer.gone,
    )


def _merge_anew(writer: Writer, rows: DataFrame, why_rebuilt: str) -> Merged:
    """Rebuild the tables from all published changes, since stored rows cannot get their current
    column names. The stored positions still show which records are late.

    Raises PlanError with the text `why_rebuilt` if maintenance has expired changes.
    """
    plan = writer.plan
    if writer.lake.floor(target_id(plan)):
        raise PlanError(why_rebuilt)
    before = writer.stored(as_written=True)
    truncated = _truncation(plan, writer.batch_changes(), before)
    stored = before.cut_by(truncated.position)
    data = plan.data
    if plan.keyed:
        folded = fold_counting(rows, writer.attempt.batch_id, plan.key, data)
        tallied = tally(resolve(folded, stored, plan.key))
    else:
        tallied = Tally(plan_rows(_instances(writer, rows, stored)).counts)
    rebuild_all(writer)
    return _merged(writer, rows, tallied, truncated.counts(stored.truncated_at))


def _truncation(plan: TablePlan, mine: DataFrame, stored: StoredState) -> Truncation:
    """Return the batch's TRUNCATEs, without the opening of an epoch if the table
    already has that."""
    opening = plan.opening
    opened = Truncation(None if opening is None else opening.position, 0)
    found = truncation(mine) if plan.summary.truncates else opened
    again = opening is not None and opening.stored_by(stored.truncated_at)
    return Truncation(None, 0) if again and found == opened else found


def _merge_newer(writer: Writer, rows: DataFrame, stored: StoredState) -> Tally:
    """Merge a batch whose changes are all above everything stored: each key's newest
    change applies."""
    key, data = writer.plan.key, writer.plan.data
    folded = fold(rows, writer.attempt.batch_id, key, data)
    # `materialize` would cost more. The cache is safe here: the count fills it before anything else
    # reads it, and nothing commits to or refreshes the changelog behind it meanwhile.
    folded = folded.persist(StorageLevel.MEMORY_AND_DISK)
    read, newest, ends = count_newer(folded, key)
    tallied: Tally
    tallied, _ = run_concurrently(
        lambda: tally_newer(read, newest, rows, key, data),
        lambda: _write(writer, folded.select(*_columns(data)), stored, ends) if read else None,
    )
    folded.unpersist()
    return tallied


def _with_version_ends(writer: Writer, stored: StoredState) -> StoredState:
    """Return the stored state with which events at or below the floor are compared: also with the
    ends of versions in the history."""
    plan, table = writer.plan, history_id(writer.plan)
    rows = writer.lake.rows(table, writer.bases[table].snapshot) if plan.history else None
    return stored if rows is None else with_version_ends(stored, rows, plan.key)


def _merge_keyed(
    writer: Writer, rows: DataFrame, stored: StoredState, with_ends: StoredState
) -> Tally:
    """Merge keyed rows; `with_ends`: the stored state, with further deletes from the history if
    there are any."""
    plan = writer.plan
    data = plan.data
    folded = fold_counting(rows, writer.attempt.batch_id, plan.key, data)
    resolved = materialize(resolve(folded, with_ends, plan.key))
    tallied = tally(resolved)
    counts = tallied.counts
    if counts.duplicate and stored.rows is not None:
        unlike = materialize(unlike_stored(resolved, stored.rows, plan.key, data))
        resolved = resolve_ties(resolved, unlike, plan.key)
        tallied = replace(tallied, conflicts=tallied.conflicts + _conflicts(writer, unlike))
    applied = resolved.where(F.col(STATUS) == APPLY).select(*_columns(data))
    if writer.partial:
        applied = _with_folded_again(writer, applied, resolved, with_ends)
    if counts.duplicate or writer.partial:
        applied = materialize(applied)
    # The old half of a late update may apply alone, though it is not counted as a record.
    ends = count_ends(applied, plan.key)
    if ends.rows or ends.deletes:
        _write(writer, applied, stored, ends)
    return tallied


def _conflicts(writer: Writer, unlike: DataFrame) -> Conflicts:
    """Return the conflicts with published changes, for changes that differ from the row at
    their position."""
    if unlike.isEmpty():
        return Conflicts()
    plan, mine = writer.plan, in_batch(writer.attempt.batch_id)
    published = writer.changelog().where(~mine & ~is_truncate())
    return conflicts.with_published(unlike, published, plan.key, plan.data)


def _write(writer: Writer, applied: DataFrame, stored: StoredState, ends: KeyEnds) -> None:
    run_concurrently(
        lambda: writer.apply(applied, stored, ends),
        lambda: writer.write_tombstones(applied, stored, ends),
    )


def _columns(data: list[str]) -> list[Column]:
    return by_name((*data, names.OP, *names.TARGET_METADATA))


def _with_folded_again(
    writer: Writer, applied: DataFrame, resolved: DataFrame, stored: StoredState
) -> DataFrame:
    """Return the applied rows; keys with partial or late changes are folded again from the
    whole changelog."""
    plan = writer.plan
    data = plan.data
    changelog = writer.changelog()
    rows = changelog.where(~is_truncate())
    if stored.truncated_at is not None:
        rows = rows.where(F.col(names.POSITION) > stored.truncated_at)
    mine = rows.where(in_batch(writer.attempt.batch_id))
    again = _to_fold_again(writer, applied, resolved, stored, changelog)
    moved = _moves(writer, rows, mine, stored)
    if moved is not None:
        again = again.union(partial_keys_at(rows, mine, plan.key))
        seen = again.union(mine.select(*by_name(plan.key)))
        again = again.union(connected_keys(seen, moved, plan.key)).distinct()
    known = rows.join(again, list(plan.key), "left_semi")
    floor = writer.lake.floor(target_id(plan))
    if floor and (stored.truncated_at or "") <= floor:
        at = Floor(floor, plan.key, writer.attempt.batch_id)
        baseline = None if stored.rows is None else writer.baseline_rows(stored.rows, floor)
        known = since_floor(known, baseline, again, at, stored.tombstones)
    folded = fold_columns(with_moved_values(known, moved, None, plan.key, data), plan.key, data)
    columns = _columns(data)
    kept = applied.join(again, list(plan.key), "left_anti")
    return kept.select(*columns).unionByName(folded.select(*columns))


def _moves(
    writer: Writer, rows: DataFrame, mine: DataFrame, stored: StoredState
) -> DataFrame | None:
    """Return the table's moves; None if the batch cannot affect any, as it only has complete rows
    above everything stored."""
    above_all = writer.all_newer() and not _affects_all_keys(stored, writer)
    if above_all and mine.where(is_partial()).isEmpty():
        return None
    return moves(rows, writer.plan.key)


def _to_fold_again(
    writer: Writer,
    applied: DataFrame,
    resolved: DataFrame,
    stored: StoredState,
    changelog: DataFrame,
) -> DataFrame:
    """Return the keys that the batch may change and that have partial, late or equal changes."""
    keys = by_name(writer.plan.key)
    mine = changelog.where(in_batch(writer.attempt.batch_id))
    partial = mine.where(is_partial())
    late = resolved.where(F.col(STATUS).isin(LATE, EQUAL))
    touched = partial.select(*keys).union(late.select(*keys))
    ever = changelog.where(is_partial()).select(*keys).distinct()
    # A late TRUNCATE or default may change how any partial row was completed.
    everywhere = _affects_all_keys(stored, writer)
    more = ever if everywhere else applied.select(*keys).join(ever, list(writer.plan.key))
    return touched.union(more).distinct()


def _affects_all_keys(stored: StoredState, writer: Writer) -> bool:
    """Whether stored changes of any key may read differently after this batch, by a
    TRUNCATE or by DDL."""
    return stored.cut or writer.reinterprets_changes()


def _merge_rows(writer: Writer, rows: DataFrame, stored: StoredState) -> Counts:
    """Merge a table without a key: count rows by content, and identify each one by its position."""
    changes = _instances(writer, rows, stored)
    outcome = plan_rows(changes)
    if outcome.anew:
        plan = writer.plan
        writer.merge_difference(target_id(plan), outcome.living(), stored.rows, by=plan.row_key)
    # The old half of an update may be new alone, though it is not counted as a record: another
    # update at the same place may have the same new half.
    elif outcome.counts.applied or not outcome.instances.isEmpty():
        append = outcome.append_only and not writer.published_before()
        writer.apply(outcome.instances, stored, append=append)
    return outcome.counts


def _instances(writer: Writer, rows: DataFrame, stored: StoredState) -> NoKeyChanges:
    return NoKeyChanges(
        rows=rows,
        others=writer.changelog().where(~in_batch(writer.attempt.batch_id)),
        data=tuple(writer.plan.data),
        truncated_at=stored.truncated_at,
        anew=_affects_all_keys(stored, writer),
    )
