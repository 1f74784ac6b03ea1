"""The versions of the keys that a batch concerns, from all that is known of them.

Two things tell of a key: the changelog of what is published and of this batch, and the versions
that are stored. The changelog goes first, for it alone knows which columns a change carried; a
stored version counts where maintenance has expired its event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import is_delete, is_truncate, quoted
from spark_jobs.folding.floor import STOOD_AT
from spark_jobs.folding.moves import beside, completed, moves, tied
from spark_jobs.folding.places import old_halves
from spark_jobs.folding.resolve import Stored
from spark_jobs.folding.versions import begun, ended, versions
from spark_jobs.lake.writer import Writer
from spark_jobs.modes.forgotten import moved_late, remembered

_AT: Final = "_sluice_at"


@dataclass(frozen=True)
class Forgotten:
    """The living rows of the target, which are what events up to the floor made of their keys."""

    living: DataFrame
    floor: str


@dataclass(frozen=True)
class Kept:
    """The versions that a table holds (None: none), and its columns for their times and end.

    `whole`: it has those of all published batches; `forgotten`: what it takes where it has not, if
    maintenance has expired some of their events. `floor`: up to where events have expired, for
    a table that keeps the newest version alone, which may be put together from such events.
    """

    rows: DataFrame | None
    source_ts: str
    ended_at: str
    ended_ts: str
    whole: bool = True
    floor: str | None = None
    forgotten: Forgotten | None = None


def replay(writer: Writer, kept: Kept, newer: bool, stored: Stored) -> DataFrame:
    """The versions, as `versions.versions` gives them, of every key that the batch concerns.

    All keys, where the table is not whole. `newer`: the batch is above everything stored, of
    which the TRUNCATEs are looked at alone.
    """
    key, data = writer.plan.key, writer.plan.data
    log = writer.changelog()
    newer = newer and kept.rows is not None and kept.whole and not _halved(writer, log)
    log = _mine(writer, log) if newer else log
    moved = moves(log.where(~is_truncate()), key) if writer.partial else None
    if kept.rows is None or not kept.whole:
        changes = _of_all_keys(writer, log, kept, moved)
    elif newer:
        changes = _of_open_versions(writer, log, kept, kept.rows)
    else:
        changes = _of_concerned_keys(writer, log, kept, kept.rows, moved, stored.cut)
    truncates = log.where(is_truncate())
    return versions(completed(changes, moved, truncates, key, data), truncates, key, data)


def _of_all_keys(writer: Writer, log: DataFrame, kept: Kept, moved: DataFrame | None) -> DataFrame:
    changes, key = _changes(writer, log), writer.plan.key
    if kept.forgotten is not None:
        states = kept.forgotten.living
        if kept.rows is not None:
            at = [*key, names.POSITION]
            others = kept.rows.join(states.select(*map(quoted, at)), at, "left_anti")
            states = states.unionByName(others, allowMissingColumns=True)
        changes = _remembered(writer, log, changes, states, kept.forgotten.floor, moved)
        changes = _with_living(key, changes, kept, kept.forgotten)
    return changes if kept.rows is None else with_stored(key, changes, kept.rows, kept)


def _remembered(
    writer: Writer,
    log: DataFrame,
    changes: DataFrame,
    states: DataFrame,
    floor: str,
    moved: DataFrame | None,
) -> DataFrame:
    """The changes with what forgotten ones had brought, by the rows' stored states."""
    if not writer.partial:
        return changes
    key, data, lowest = writer.plan.key, writer.plan.data, writer.span.lowest
    late = None
    if moved is not None and lowest is not None:
        late = moved_late(moved, _mine(writer, log), lowest, key)
    truncates, batch_id = log.where(is_truncate()), writer.attempt.batch_id
    return remembered(changes, truncates, states, floor, key, data, batch_id, late)


def _of_open_versions(writer: Writer, mine: DataFrame, kept: Kept, rows: DataFrame) -> DataFrame:
    """The batch's own changes, and of its keys the versions that they end."""
    changes = _changes(writer, mine)
    open_ones = _of(writer, rows.where(F.col(kept.ended_at).isNull()), changes)
    # Of what is above the floor only the batch's own events are looked at.
    return with_stored(writer.plan.key, changes, open_ones, replace(kept, floor=None))


def _of_concerned_keys(
    writer: Writer,
    log: DataFrame,
    kept: Kept,
    rows: DataFrame,
    moved: DataFrame | None,
    cut: bool,
) -> DataFrame:
    """All changes of the keys that the batch has, or whose rows moved to or from one of them."""
    key, mine = writer.plan.key, _mine(writer, log)
    keys = _concerned(writer, mine, kept, rows, cut)
    if moved is not None:
        keys = keys.union(beside(log, mine, key))
        keys = keys.union(tied(keys, moved, key))
    changes, rows = (_of(writer, each, keys) for each in (_changes(writer, log), rows))
    if kept.forgotten is not None:
        changes = _remembered(writer, log, changes, rows, kept.forgotten.floor, moved)
    return with_stored(key, changes, rows, kept)


def _halved(writer: Writer, log: DataFrame) -> bool:
    """Whether a change of the batch may be the new half of one whose old half came before: then
    the version that it goes on from is not open any more."""
    before = (F.col(names.BATCH_ID) != writer.attempt.batch_id) & is_delete()
    # Above all that is stored only the batch's first change can be one whose old half is.
    first = F.col(names.POSITION).isin(old_halves(writer.span.lowest or ""))
    if not log.where(before & first).isEmpty():
        return True
    partial = _mine(writer, log).where(F.col(names.ABSENT).isNotNull())
    if not writer.partial or partial.isEmpty():
        return False
    return not beside(partial, log.where(before), writer.plan.key).isEmpty()


def _mine(writer: Writer, log: DataFrame) -> DataFrame:
    return log.where(F.col(names.BATCH_ID) == writer.attempt.batch_id)


def _changes(writer: Writer, log: DataFrame) -> DataFrame:
    columns = (*writer.plan.data, names.OP, names.ABSENT, *names.TARGET_METADATA)
    return log.where(~is_truncate()).select(*(quoted(c) for c in columns))


def _of(writer: Writer, rows: DataFrame, keys: DataFrame) -> DataFrame:
    keys = keys.select(*(quoted(k) for k in writer.plan.key)).distinct()
    return rows.join(keys, list(writer.plan.key), "left_semi")


def _concerned(
    writer: Writer, mine: DataFrame, kept: Kept, rows: DataFrame, cut: bool
) -> DataFrame:
    """Keys with a change in the batch, or with a version that a TRUNCATE of the batch ends.

    Where the batch has a TRUNCATE (`cut`), or tells a default, those too whose versions may have
    been completed with what it changes.
    """
    keys = [quoted(k) for k in writer.plan.key]
    changed = _changes(writer, mine).select(*keys)
    if writer.partial and (cut or writer.retells()):
        partial = writer.changelog().where(F.col(names.ABSENT).isNotNull())
        changed = changed.union(partial.select(*keys))
    if not cut:
        return changed
    truncates = mine.where(is_truncate()).select(F.col(names.POSITION).alias(_AT))
    end = F.col(kept.ended_at)
    ends = (F.col(names.POSITION) <= F.col(_AT)) & (end.isNull() | (end > F.col(_AT)))
    return changed.union(rows.join(F.broadcast(truncates), ends, "left_semi").select(*keys))


def _with_living(
    key: Sequence[str], changes: DataFrame, kept: Kept, forgotten: Forgotten
) -> DataFrame:
    """Changes, and living rows in the place of those that have expired since the table was whole.

    An open version whose row is gone ended at a position that is forgotten: the floor stands for
    it.
    """
    keys = [quoted(k) for k in key]
    known = changes.select(*keys, names.POSITION)
    begins = begun(forgotten.living, names.SOURCE_TS)
    ends = []
    if kept.rows is not None:
        known = known.union(kept.rows.select(*keys, names.POSITION))
        gone = kept.rows.where(F.col(kept.ended_at).isNull())
        for others in (forgotten.living, changes):
            gone = gone.join(others.select(*keys), list(key), "left_anti")
        at = {kept.ended_at: F.lit(forgotten.floor), kept.ended_ts: F.lit(None).cast("timestamp")}
        below = gone.where(F.col(names.POSITION) <= forgotten.floor)
        ends = [ended(below.withColumns(at), kept.ended_at, kept.ended_ts)]
    for stored in (begins.join(known, known.columns, "left_anti"), *ends):
        changes = changes.unionByName(stored, allowMissingColumns=True)
    return changes


def with_stored(key: Sequence[str], changes: DataFrame, rows: DataFrame, kept: Kept) -> DataFrame:
    """Changes, and stored versions in the place of those of them that have expired."""
    known = changes.select(*(quoted(k) for k in key), names.POSITION)
    begins = begun(rows, kept.source_ts)
    if kept.floor is not None:  # there it is below every event that the changelog still has
        begins = begins.withColumn(STOOD_AT, F.col(names.POSITION))
        begins = begins.withColumn(names.POSITION, F.least(names.POSITION, F.lit(kept.floor)))
        known = known.where(F.col(names.POSITION) > kept.floor)
    begins = begins.join(known, known.columns, "left_anti")
    for stored in (begins, ended(rows, kept.ended_at, kept.ended_ts)):
        changes = changes.unionByName(stored, allowMissingColumns=True)
    return changes
