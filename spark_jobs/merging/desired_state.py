"""What a target's tables are computed from: its published changes and, up to the floor, the stored
rows that replace expired ones."""

from __future__ import annotations

from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.manifest import Rebuild
from spark_jobs.folding.floor import Floor, since_floor
from spark_jobs.folding.moves import connected_keys, moves, partial_keys_at
from spark_jobs.folding.truncations import truncation
from spark_jobs.lake.stored import stored_at
from spark_jobs.lake.table_id import TableId, history_id, target_id
from spark_jobs.lake.writer import Writer
from spark_jobs.materialize import materialize
from spark_jobs.merging.before import StateBefore, before_undone, take_back_undone_renames
from spark_jobs.merging.stored_column_updates import rename_stored
from spark_jobs.modes.mode_gaps import has_gap, written_by
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.defaults import as_baseline
from spark_jobs.quoting import by_name
from spark_jobs.row_conditions import is_truncate


class DesiredState:
    """Input for rebuilding a target's tables without some batches (`request.without`): the
    remaining changes, the undone ones, and the stored rows that replace expired changes.

    `from_changes`: everything is rebuilt from changes, since stored rows cannot be read under
    current column names and defaults.
    """

    def __init__(
        self, writer: Writer, request: Rebuild, before: StateBefore, from_changes: bool
    ) -> None:
        self.writer, self.plan, self.lake = writer, writer.plan, writer.lake
        self.floor, self.from_changes = before.floor, from_changes
        self.before, self.versions_before = before.rows, before.versions
        self.stored = stored_at(self.lake, self.plan, writer.bases, self.now)
        self._without, self._log = request.without, writer.changelog()
        self._rows = self._log.where(~is_truncate())
        self.truncates = self._log.where(is_truncate())

    @classmethod
    def open(cls, writer: Writer, request: Rebuild, from_changes: bool = False) -> DesiredState:
        """Read what remains without the undone batches; columns of rows on the branches are
        renamed first."""
        before = before_undone(writer, request)
        from_changes = from_changes or (
            bool(request.without) and take_back_undone_renames(writer, before)
        )
        if not from_changes:
            rename_stored(writer)
        return cls(writer, request, before, from_changes)

    @property
    def now(self) -> ColumnHistory | None:
        """Return the current names and defaults of columns; None if stored rows cannot be
        read by them."""
        return None if self.from_changes else self.writer.now

    @cached_property
    def undone(self) -> DataFrame | None:
        """The changes of the undone batches; None if no batch is undone."""
        if not self._without:
            return None
        return self.writer.now.changes(self.writer.changes_of(*self._without))

    @cached_property
    def cut_at(self) -> str | None:
        """The position of the newest TRUNCATE among the remaining changes."""
        return truncation(self._log).position

    @cached_property
    def truncates_gone(self) -> tuple[str, ...]:
        """The positions of undone TRUNCATEs that no remaining batch has."""
        if self.undone is None:
            return ()
        gone = self.undone.where(is_truncate())
        gone = gone.join(self.truncates, names.POSITION, "left_anti")
        return tuple(row[0] for row in gone.select(names.POSITION).distinct().collect())

    @cached_property
    def truncated_at(self) -> str | None:
        """The position of the newest TRUNCATE that stays, of the remaining changes or of expired
        ones."""
        marked_at = self.stored.truncated_at
        stays = _not_above(marked_at, self.floor) and marked_at not in self.truncates_gone
        forgotten = marked_at if stays else None
        found = (p for p in (self.cut_at, forgotten) if p is not None)
        return max(found, default=None)

    @cached_property
    def moved(self) -> DataFrame | None:
        """The moves among the remaining changes; None if all changes are whole."""
        return moves(self._rows, self.plan.key) if self.writer.partial else None

    @cached_property
    def keys(self) -> DataFrame | None:
        """The keys to rebuild; None for a table without a key."""
        return materialize(self._keys()) if self.plan.keyed else None

    @cached_property
    def changes(self) -> DataFrame:
        """The remaining changes of the keys to rebuild."""
        return self.of_keys(self._rows)

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

    def _keys(self) -> DataFrame:
        """Return the keys that the undone batches changed, or all keys.

        All keys if no batch is undone, an undone one had a TRUNCATE, partial rows have to be folded
        again, or a table of a mode has a gap.
        """
        key = by_name(self.plan.key)
        reinterpreted = self.from_changes or self.writer.needs_fold_again()
        all_of_them = reinterpreted or self._has_gap() or bool(self.truncates_gone)
        if self.undone is not None and not all_of_them:
            return self._tied(self.undone.select(*key)).distinct()
        stored = (self.stored.rows, self.stored.tombstones, self.versions())
        tables = (self._rows, *stored)
        every = [t.select(*key) for t in tables if t is not None]
        return reduce(DataFrame.union, every).distinct()

    def _has_gap(self) -> bool:
        """Whether history or target has a gap (see `mode_gaps`) from before its mode was switched
        on."""
        plan, writer = self.plan, self.writer
        history_lacks = plan.history and has_gap(writer, history_id(plan))
        return history_lacks or (plan.soft_delete and has_gap(writer, target_id(plan)))

    def _tied(self, keys: DataFrame) -> DataFrame:
        """Return the keys together with those that moves connect to them."""
        if self.undone is None or not self.writer.partial:
            return keys
        keys = keys.union(partial_keys_at(self._log, self.undone, self.plan.key))
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
