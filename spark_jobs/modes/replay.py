"""Versions of the keys that a batch may change, from changelog and stored versions.

The changelog takes precedence, since it alone has the columns that each change carried. A stored
version is used if maintenance has expired its event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.folding.floor import BASELINE_AT, Floor
from spark_jobs.folding.half_matching import old_halves
from spark_jobs.folding.moves import connected_keys, moves, partial_keys_at, with_moved_values
from spark_jobs.folding.resolve import StoredState
from spark_jobs.folding.versions import begun, ended, versions
from spark_jobs.lake.reader import Reader
from spark_jobs.modes.expired_values import rows_changed_before_move, with_expired_values
from spark_jobs.quoting import by_name
from spark_jobs.row_conditions import in_batch, is_delete, is_partial, is_truncate

_AT: Final = "_sluice_at"


@dataclass(frozen=True)
class LiveRows:
    """The target's live rows and its floor. The rows replace events that expired."""

    rows: DataFrame
    floor: str


@dataclass(frozen=True)
class StoredVersions:
    """A table's stored versions (`rows`, None: the table is empty) and the names of its columns for
    source time, end position and end time of a version.

    `complete`: the table has the versions of all published batches. `live_rows`: live rows that
    replace expired events. `floor`: set for a table that keeps only the newest version, which may
    have values of expired events.
    """

    rows: DataFrame | None
    source_ts: str
    ended_at: str
    ended_ts: str
    complete: bool = True
    floor: str | None = None
    live_rows: LiveRows | None = None


def replay(reader: Reader, kept: StoredVersions, newer: bool, stored: StoredState) -> DataFrame:
    """Return the versions (see `versions.versions`) of every key that the batch may change.

    All keys, if the table lacks versions of published batches. `newer`: the batch is above
    everything stored; then only its own changes, the open versions and the TRUNCATEs are read.
    """
    key, data = reader.plan.key, reader.plan.data
    log = reader.changelog()
    newer = newer and kept.rows is not None and kept.complete and not _halved(reader, log)
    log = log.where(in_batch(reader.attempt.batch_id)) if newer else log
    moved = moves(log.where(~is_truncate()), key) if reader.partial else None
    replayed = _Replay(reader, log, kept, moved)
    if kept.rows is None or not kept.complete:
        changes = replayed.of_all_keys()
    elif newer:
        changes = replayed.of_open_versions(kept.rows)
    else:
        changes = replayed.of_concerned_keys(kept.rows, stored.cut)
    truncates = log.where(is_truncate())
    return versions(with_moved_values(changes, moved, truncates, key, data), truncates, key, data)


def _halved(reader: Reader, log: DataFrame) -> bool:
    """Whether the old half of an update in the batch may have come in an earlier batch.

    The version that the new half continues is then closed already.
    """
    mine = in_batch(reader.attempt.batch_id)
    before = ~mine & is_delete()
    # Only the batch's first change can follow an old half that is stored.
    first = F.col(names.POSITION).isin(old_halves(reader.span.lowest or ""))
    if not log.where(before & first).isEmpty():
        return True
    partial = log.where(mine).where(is_partial())
    if not reader.partial or partial.isEmpty():
        return False
    return not partial_keys_at(partial, log.where(before), reader.plan.key).isEmpty()


@dataclass(frozen=True)
class _Replay:
    """The changes (`log`), stored versions and moves from which versions are computed."""

    reader: Reader
    log: DataFrame
    kept: StoredVersions
    moved: DataFrame | None

    def of_all_keys(self) -> DataFrame:
        changes, key, kept = self._changes(self.log), self.reader.plan.key, self.kept
        if kept.live_rows is not None:
            states = kept.live_rows.rows
            if kept.rows is not None:
                at = [*key, names.POSITION]
                others = kept.rows.join(states.select(*by_name(at)), at, "left_anti")
                states = states.unionByName(others, allowMissingColumns=True)
            changes = self._with_expired_values(changes, states, kept.live_rows.floor)
            changes = _with_live_rows(key, changes, kept, kept.live_rows)
        return with_stored_versions(key, changes, kept)

    def of_open_versions(self, rows: DataFrame) -> DataFrame:
        """Return the batch's own changes and the open versions of their keys."""
        changes, kept = self._changes(self.log), self.kept
        open_ones = self._of(rows.where(F.col(kept.ended_at).isNull()), changes)
        # Other changes above the floor are not read here, so the versions keep their positions.
        kept = replace(kept, rows=open_ones, floor=None)
        return with_stored_versions(self.reader.plan.key, changes, kept)

    def of_concerned_keys(self, rows: DataFrame, cut: bool) -> DataFrame:
        """Return all changes and versions of the keys that the batch may change and of those that
        moves connect to them."""
        key, kept = self.reader.plan.key, self.kept
        keys = self._concerned(rows, cut)
        if self.moved is not None:
            keys = keys.union(partial_keys_at(self.log, self._batch_changes(), key))
            keys = keys.union(connected_keys(keys, self.moved, key))
        changes, rows = self._of(self._changes(self.log), keys), self._of(rows, keys)
        if kept.live_rows is not None:
            changes = self._with_expired_values(changes, rows, kept.live_rows.floor)
        return with_stored_versions(key, changes, replace(kept, rows=rows))

    def _with_expired_values(self, changes: DataFrame, states: DataFrame, floor: str) -> DataFrame:
        """Return the changes completed with values of expired changes, taken from stored
        states of the rows."""
        reader = self.reader
        if not reader.partial:
            return changes
        key, data, lowest = reader.plan.key, reader.plan.data, reader.span.lowest
        late = None
        if self.moved is not None and lowest is not None:
            late = rows_changed_before_move(self.moved, self._batch_changes(), lowest, key)
        at, truncates = Floor(floor, key, reader.attempt.batch_id), self.log.where(is_truncate())
        return with_expired_values(changes, truncates, states, at, data, late)

    def _batch_changes(self) -> DataFrame:
        return self.log.where(in_batch(self.reader.attempt.batch_id))

    def _changes(self, log: DataFrame) -> DataFrame:
        columns = (*self.reader.plan.data, names.OP, names.ABSENT, *names.TARGET_METADATA)
        return log.where(~is_truncate()).select(*by_name(columns))

    def _of(self, rows: DataFrame, keys: DataFrame) -> DataFrame:
        key = self.reader.plan.key
        return rows.join(keys.select(*by_name(key)).distinct(), list(key), "left_semi")

    def _concerned(self, rows: DataFrame, cut: bool) -> DataFrame:
        """Return the keys with a change in the batch, or with a version that a TRUNCATE of the
        batch ends.

        If the batch has a TRUNCATE (`cut`) or a late default, all keys with partial changes are
        included, since their versions may have been completed in another way.
        """
        reader, mine = self.reader, self._batch_changes()
        keys = by_name(reader.plan.key)
        changed = self._changes(mine).select(*keys)
        if reader.partial and (cut or reader.reinterprets_changes()):
            partial = reader.changelog().where(is_partial())
            changed = changed.union(partial.select(*keys))
        if not cut:
            return changed
        truncates = mine.where(is_truncate()).select(F.col(names.POSITION).alias(_AT))
        end = F.col(self.kept.ended_at)
        ends = (F.col(names.POSITION) <= F.col(_AT)) & (end.isNull() | (end > F.col(_AT)))
        return changed.union(rows.join(F.broadcast(truncates), ends, "left_semi").select(*keys))


def _with_live_rows(
    key: Sequence[str], changes: DataFrame, kept: StoredVersions, forgotten: LiveRows
) -> DataFrame:
    """Add changes that expired while the mode was off: an insert for each live row that no change
    explains, and a delete for each open version whose row is gone.

    The true position of such a delete is unknown, so it is put at the floor.
    """
    keys = by_name(key)
    known = changes.select(*keys, names.POSITION)
    begins = begun(forgotten.rows, names.SOURCE_TS)
    ends = []
    if kept.rows is not None:
        known = known.union(kept.rows.select(*keys, names.POSITION))
        gone = kept.rows.where(F.col(kept.ended_at).isNull())
        for others in (forgotten.rows, changes):
            gone = gone.join(others.select(*keys), list(key), "left_anti")
        at = {kept.ended_at: F.lit(forgotten.floor), kept.ended_ts: F.lit(None).cast("timestamp")}
        below = gone.where(F.col(names.POSITION) <= forgotten.floor)
        ends = [ended(below.withColumns(at), kept.ended_at, kept.ended_ts)]
    for stored in (begins.join(known, known.columns, "left_anti"), *ends):
        changes = changes.unionByName(stored, allowMissingColumns=True)
    return changes


def with_stored_versions(key: Sequence[str], changes: DataFrame, kept: StoredVersions) -> DataFrame:
    """Return the changes together with the stored versions that replace expired changes."""
    if kept.rows is None:
        return changes
    known = changes.select(*by_name(key), names.POSITION)
    begins = begun(kept.rows, kept.source_ts)
    if kept.floor is not None:  # below every known event
        begins = begins.withColumn(BASELINE_AT, F.col(names.POSITION))
        begins = begins.withColumn(names.POSITION, F.least(names.POSITION, F.lit(kept.floor)))
        known = known.where(F.col(names.POSITION) > kept.floor)
    begins = begins.join(known, known.columns, "left_anti")
    for stored in (begins, ended(kept.rows, kept.ended_at, kept.ended_ts)):
        changes = changes.unionByName(stored, allowMissingColumns=True)
    return changes
