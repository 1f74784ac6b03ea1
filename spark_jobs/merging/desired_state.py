"""A target's tables, computed from its published changes, and the merge that makes them so.

Differences to the stored tables are merged into the batch's branches. Up to the floor, stored rows
replace expired changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.errors import RollbackRefusedError
from sluice.manifest import Rebuild
from spark_jobs.canonical import by_name, is_delete, is_truncate, of_batches
from spark_jobs.folding.floor import Floor, since_floor
from spark_jobs.folding.fold import fold_columns
from spark_jobs.folding.moves import connected_keys, moves, partial_keys_at, with_moved_values
from spark_jobs.folding.no_key import NoKeyChanges, plan_rows
from spark_jobs.folding.truncations import truncation
from spark_jobs.folding.versions import versions
from spark_jobs.lake.stored import stored_at
from spark_jobs.lake.table_id import TableId, history_id, target_id, tombstone_id
from spark_jobs.lake.writer import Writer
from spark_jobs.materialize import materialize
from spark_jobs.merging.before import StateBefore, before_undone, forgets_meaning
from spark_jobs.merging.stored_column_updates import fill_defaults, rename_stored
from spark_jobs.modes import events, history, soft_delete
from spark_jobs.modes.expired_values import with_expired_values
from spark_jobs.modes.gaps import has_gap, written_by
from spark_jobs.modes.replay import StoredVersions, with_stored_versions
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.defaults import as_baseline

_BEFORE: Final = "_sluice_before"
_ENDED: Final = "_sluice_ended"


def rebuild_all(writer: Writer) -> None:
    """Rebuild a target's tables from all published changes and the batch's own, whatever the tables
    hold and whatever their columns are called. No change may have expired."""
    write_desired(DesiredState.open(writer, Rebuild((writer.plan.target,), at=""), misnamed=True))


def write_desired(desired: DesiredState) -> None:
    """Write the rebuilt content of the target's tables to the batch's branches."""
    writer, plan = desired.writer, desired.plan
    replaced = _write_keyed(desired) if plan.keyed else _write_unkeyed(desired)
    if plan.append:
        _write_events(desired)
    marked_at = None if replaced else desired.stored.truncated_at
    fill_defaults(writer, anew=desired.misnamed)
    if desired.truncated_at != marked_at:
        if marked_at is not None:
            writer.unmark()
        if desired.truncated_at is not None:
            writer.mark(desired.truncated_at, _truncated_by(desired, desired.truncated_at))


def _truncated_by(desired: DesiredState, position: str) -> str:
    """Return the batch that brought the TRUNCATE at `position`, from the changelog or the
    stored tombstone."""
    truncates = desired.truncates.where(F.col(names.POSITION) == position)
    first = truncates.agg(F.min(names.BATCH_ID)).first()
    batch = first[0] if first else None
    return batch or desired.stored.truncated_by or desired.writer.attempt.batch_id


class DesiredState:
    """Input for rebuilding a target's tables without some batches (`request.without`): the
    remaining changes, the undone ones, and the stored rows that replace expired changes.

    `keys`: the keys to rebuild. `misnamed`: stored rows cannot be read under current column names
    and defaults, so everything is rebuilt from changes.
    """

    def __init__(
        self, writer: Writer, request: Rebuild, before: StateBefore, misnamed: bool
    ) -> None:
        self.writer, self.plan, self.lake = writer, writer.plan, writer.lake
        self.floor, self.misnamed = before.floor, misnamed
        self.before, self.versions_before = before.rows, before.versions
        self.stored = stored_at(self.lake, self.plan, writer.bases, self.now)
        log = writer.changelog()
        self.truncates = log.where(is_truncate())
        self.cut_at = truncation(log).position
        undone = writer.changes_of(*request.without) if request.without else None
        self.undone = undone if undone is None else writer.now.changes(undone)
        self.truncates_gone = self._truncates_gone()
        self.truncated_at = self._truncated_at()
        rows = log.where(~is_truncate())
        self.moved = moves(rows, self.plan.key) if writer.partial else None
        self.keys = materialize(self._keys(log)) if self.plan.keyed else None
        self.changes = self.of_keys(rows)

    @classmethod
    def open(cls, writer: Writer, request: Rebuild, misnamed: bool = False) -> DesiredState:
        """Read what remains without the undone batches; columns of rows on the branches are
        renamed first."""
        before = before_undone(writer, request)
        misnamed = misnamed or (bool(request.without) and forgets_meaning(writer, before))
        if not misnamed:
            rename_stored(writer)
        return cls(writer, request, before, misnamed)

    @property
    def now(self) -> ColumnHistory | None:
        """Return the current names and defaults of columns; None if stored rows cannot be
        read by them."""
        return None if self.misnamed else self.writer.now

    def write_to(
        self, table: TableId, wanted: DataFrame, there: DataFrame | None, by: tuple[str, ...]
    ) -> bool:
        """Write the difference between `wanted` and the stored rows to the table's branch, by key
        `by`.

        Without undone batches the whole table is compared. Returns whether all of it was replaced.
        """
        if self.undone is None:
            return self.writer.replace(table, wanted, there)
        found = there if there is None else self.of_keys(there)
        self.writer.merge_difference(table, wanted, found, by)
        return False

    def _truncated_at(self) -> str | None:
        marked_at = self.stored.truncated_at
        stays = _not_above(marked_at, self.floor) and marked_at not in self.truncates_gone
        forgotten = marked_at if stays else None
        found = (p for p in (self.cut_at, forgotten) if p is not None)
        return max(found, default=None)

    def _keys(self, log: DataFrame) -> DataFrame:
        """Return the keys that the undone batches changed, or all keys.

        All keys if no batch is undone, an undone one had a TRUNCATE, partial rows have to be folded
        again, or a table of a mode has a gap.
        """
        key = by_name(self.plan.key)
        reinterpreted = self.misnamed or self.writer.needs_fold_again()
        all_of_them = reinterpreted or self._has_gap() or bool(self.truncates_gone)
        if self.undone is not None and not all_of_them:
            return self._tied(log, self.undone.select(*key)).distinct()
        stored = (self.stored.rows, self.stored.tombstones, self.versions())
        tables = (log.where(~is_truncate()), *stored)
        every = [t.select(*key) for t in tables if t is not None]
        return reduce(DataFrame.union, every).distinct()

    def _has_gap(self) -> bool:
        """Whether history or target has a gap from before its mode was switched on (see `gaps`)."""
        plan, writer = self.plan, self.writer
        history_lacks = plan.history and has_gap(writer, history_id(plan))
        return history_lacks or (plan.soft_delete and has_gap(writer, target_id(plan)))

    def _truncates_gone(self) -> tuple[str, ...]:
        """Return the positions of undone TRUNCATEs that no remaining batch has."""
        if self.undone is None:
            return ()
        gone = self.undone.where(is_truncate())
        gone = gone.join(self.truncates, names.POSITION, "left_anti")
        return tuple(row[0] for row in gone.select(names.POSITION).distinct().collect())

    def _tied(self, log: DataFrame, keys: DataFrame) -> DataFrame:
        """Return the keys together with those that moves connect to them."""
        if self.undone is None or not self.writer.partial:
            return keys
        keys = keys.union(partial_keys_at(log, self.undone, self.plan.key))
        return (
            keys
            if self.moved is None
            else keys.union(connected_keys(keys, self.moved, self.plan.key))
        )

    def versions(self) -> DataFrame | None:
        """Return the stored history; None if there is none."""
        if not self.plan.history:
            return None
        table, writer = history_id(self.plan), self.writer
        rows = self.lake.rows(table, writer.bases[table].snapshot)
        if rows is None or self.now is None:
            return rows
        return self.now.rows(rows, written_by(writer, table), writer.types)

    def of_keys(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the keys to rebuild; all rows of a table without a key."""
        if self.keys is None:
            return rows
        return rows.join(self.keys, list(self.plan.key), "left_semi")

    def known(self) -> DataFrame:
        """Return changes above the newest TRUNCATE, with stored rows in place of expired ones."""
        known = self.changes
        if self.truncated_at is not None:
            known = known.where(F.col(names.POSITION) > self.truncated_at)
        if self.floor is None or self.keys is None:
            return known
        rows = self.baseline()
        if rows is not None and not self.writer.partial:
            rows = rows.where(F.col(names.POSITION) <= self.floor)
        if rows is not None and self.cut_at is not None:
            rows = rows.where(F.col(names.POSITION) > self.cut_at)
        return since_floor(known, rows, self.keys, Floor(self.floor, self.plan.key))

    def baseline(self) -> DataFrame | None:
        """Return the stored rows that replace expired changes, from before the undone batches if
        there are any."""
        rows = self.stored.rows if self.undone is None else self.before
        if rows is None or self.floor is None or not self.writer.partial:
            return rows
        return as_baseline(rows, self.writer.now.current_defaults(), self.floor)


def _not_above(position: str | None, floor: str | None) -> bool:
    return position is not None and floor is not None and position <= floor


def _write_unkeyed(desired: DesiredState) -> bool:
    """Write a table without a key: count its rows again from all changes. Returns False."""
    data = tuple(desired.plan.data)
    changes = NoKeyChanges(
        desired.changes, desired.changes.limit(0), data, desired.truncated_at, anew=True
    )
    wanted = plan_rows(changes).living()
    desired.write_to(target_id(desired.plan), wanted, desired.stored.rows, by=(names.POSITION,))
    return False


def _write_keyed(desired: DesiredState) -> bool:
    """Write target, tombstones and history; return whether all tombstones were replaced."""
    plan = desired.plan
    _refuse_expired(desired)
    data = plan.data
    known = with_moved_values(desired.known(), desired.moved, desired.truncates, plan.key, data)
    folded = materialize(fold_columns(known, plan.key, data))
    deleted = is_delete()
    tombstones = folded.where(deleted).select(*_columns(plan.key))
    if desired.stored.tombstones is not None and desired.floor is not None:
        forgotten = _up_to_floor(desired, desired.stored.tombstones, desired.floor)
        forgotten = forgotten.join(folded, list(plan.key), "left_anti")
        tombstones = tombstones.unionByName(forgotten.select(*_columns(plan.key)))
    there = desired.stored.tombstones
    replaced = desired.write_to(tombstone_id(plan), tombstones, there, by=plan.key)
    rows = folded.where(~deleted).select(*_columns(data))
    if plan.history or plan.soft_delete:
        rows = _write_versions(desired, data, rows)
    desired.write_to(target_id(plan), rows, desired.stored.rows, by=plan.key)
    return replaced


def _write_events(desired: DesiredState) -> None:
    writer, log = desired.writer, desired.writer.changelog()
    if desired.misnamed:
        events.replace(writer, events.once(log, desired.plan.data), None)
    else:
        events.rebuild(writer, log, desired.undone, desired.floor)


def _columns(data: Sequence[str]) -> list[Column]:
    return by_name((*data, *names.TARGET_METADATA))


def _write_versions(desired: DesiredState, data: list[str], rows: DataFrame) -> DataFrame:
    """Write the history; return the target's rows, which with soft deletes are versions too."""
    plan, there = desired.plan, desired.versions()
    if plan.history:
        old = None if there is None else _expired_versions(desired, there)
        kept = StoredVersions(old, names.VALID_FROM, names.POSITION_TO, names.VALID_TO)
        found = _versions(desired, data, kept, there)
        by = (*plan.key, names.POSITION)
        desired.write_to(history_id(plan), history.rows_of(found, data), there, by)
    if not plan.soft_delete:
        return rows
    return soft_delete.newest(_versions(desired, data, _baseline_versions(desired)), plan.key, data)


def _baseline_versions(desired: DesiredState) -> StoredVersions:
    """Return the target's rows up to the floor, in place of expired changes.

    With partial changes also rows above the floor, since they may have values of expired changes.
    """
    rows = desired.baseline()
    if rows is None or desired.floor is None:
        return soft_delete.stored_versions(None)
    if desired.writer.partial:
        return soft_delete.stored_versions(desired.of_keys(rows), desired.floor)
    # They may be from before soft_delete was switched on.
    rows = soft_delete.with_marks(rows)
    return soft_delete.stored_versions(_below(desired, rows, desired.floor, names.DELETED_POSITION))


def _expired_versions(desired: DesiredState, there: DataFrame) -> DataFrame | None:
    """Return stored versions and their ends that may come from expired events, without undone ones;
    None if the table has no floor."""
    if desired.floor is None:
        return None
    if desired.undone is not None:
        by = [*desired.plan.key, names.POSITION]
        there = there.join(
            _undone_versions(desired, desired.undone, names.POSITION), by, "left_anti"
        )
        there = _reopened(
            desired, _undone_versions(desired, desired.undone, names.POSITION_TO), there
        )
    return _below(desired, there, desired.floor, names.POSITION_TO)


def _up_to_floor(desired: DesiredState, rows: DataFrame, floor: str) -> DataFrame:
    """Return stored tombstones up to the floor, without those of undone events."""
    rows = desired.of_keys(rows).where(F.col(names.POSITION) <= floor)
    if desired.undone is None:
        return rows
    return rows.join(desired.undone, [*desired.plan.key, names.POSITION], "left_anti")


def _below(desired: DesiredState, rows: DataFrame, floor: str, ended_at: str) -> DataFrame:
    """Return stored versions and ends up to the floor; later ones are made again from
    their events."""
    rows = desired.of_keys(rows).where(F.col(names.POSITION) <= floor)
    return rows.withColumn(ended_at, F.when(F.col(ended_at) <= floor, F.col(ended_at)))


def _undone_versions(desired: DesiredState, undone: DataFrame, place: str) -> DataFrame:
    """Return key and position (as column `place`) of the undone events that began or ended a
    version.

    Positions that the history had before the undone batches are left out: another batch brought the
    same event.
    """
    key = by_name(desired.plan.key)
    found = undone.select(*key, F.col(names.POSITION).alias(place)).distinct()
    before = desired.versions_before
    return found if before is None else found.join(before, [*desired.plan.key, place], "left_anti")


def _reopened(desired: DesiredState, ends: DataFrame, rows: DataFrame) -> DataFrame:
    """Return stored versions without the ends that undone events made."""
    ended_at = names.POSITION_TO
    rows = rows.join(ends.withColumn(_ENDED, F.lit(True)), [*desired.plan.key, ended_at], "left")
    gone = F.col(_ENDED).isNotNull() | F.col(ended_at).isin(*desired.truncates_gone)
    return rows.withColumn(ended_at, F.when(~gone, F.col(ended_at))).drop(_ENDED)


def _versions(
    desired: DesiredState, data: list[str], kept: StoredVersions, states: DataFrame | None = None
) -> DataFrame:
    """Return the versions of the keys to rebuild; `states`: stored versions, to complete
    partial changes."""
    changes = desired.changes.select(
        *by_name((*data, names.OP, names.ABSENT, *names.TARGET_METADATA))
    )
    key, truncates, floor = desired.plan.key, desired.truncates, desired.floor
    if states is not None and floor is not None and desired.writer.partial:
        states = desired.of_keys(states)
        changes = with_expired_values(changes, truncates, states, Floor(floor, key), data)
    if kept.rows is not None:
        changes = with_stored_versions(key, changes, kept.rows, kept)
    changes = with_moved_values(changes, desired.moved, truncates, key, data)
    return versions(changes, truncates, key, data)


def _refuse_undone(desired: DesiredState, before: DataFrame, floor: str) -> None:
    """Raise RollbackRefusedError if the snapshot from before has rows of batches undone since."""
    counted = of_batches(desired.writer.attempt.published)
    if not before.where((F.col(names.POSITION) <= floor) & ~counted).isEmpty():
        raise RollbackRefusedError(
            f"{desired.plan.name}: the snapshot from before the batch, which replaces what "
            f"maintenance has forgotten up to {floor}, has rows that were undone since: it is "
            "unknown what their keys held without the batch"
        )


def _refuse_expired(desired: DesiredState) -> None:
    """Raise RollbackRefusedError if rows from before the undone batches cannot replace
    expired events."""
    floor, plan = desired.floor, desired.plan
    if desired.undone is None or floor is None:
        return
    if desired.writer.partial:
        raise RollbackRefusedError(
            f"{plan.name}: its rows are put together from changes of which maintenance has "
            f"forgotten those up to {floor}: a batch that others followed cannot be undone"
        )
    known = desired.changes.where(F.col(names.POSITION) <= floor)
    keys = by_name(plan.key)
    if desired.before is not None:
        _refuse_undone(desired, desired.of_keys(desired.before), floor)
        before = desired.before.select(*keys, F.col(names.POSITION).alias(_BEFORE))
        known = known.join(before, list(plan.key), "left")
        known = known.where(F.col(_BEFORE).isNull() | (F.col(names.POSITION) > F.col(_BEFORE)))
    if not known.isEmpty():
        raise RollbackRefusedError(
            f"{plan.name}: some keys have late changes that came up to the floor {floor}, where "
            "deletes are forgotten: without the batch it is unknown whether they apply"
        )
