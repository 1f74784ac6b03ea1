"""Key changes (*moves*) whose new row is partial: its missing values are in the row of the old key.

A key change is two changes, a delete of the old key and an upsert of the new one. They are matched
by place (see `places`), since in many formats they are separate records; halves of one record also
by that record. A place counts only with exactly one old key and one other new key. Otherwise the
pairing is ambiguous, and the new rows stay partial.

A frame of moves has the columns AT (position and key of the old half, which identify a move), TO
(position of the new half), and OLD and NEW (the keys as structs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.folding.floor import BASELINE_AT
from spark_jobs.folding.fold import boxed, carried, content_hash, newest_carried
from spark_jobs.folding.half_matching import ENDED, ends_by_place, meeting_places, places
from spark_jobs.materialize import materialize
from spark_jobs.quoting import by_name, quoted
from spark_jobs.row_conditions import is_delete, is_partial

AT: Final = "_sluice_at"
TO: Final = "_sluice_to"
OLD: Final = "_sluice_old"
NEW: Final = "_sluice_new"
_KEY: Final = "_sluice_key"
_PLACE: Final = "_sluice_place"
_RANK: Final = "_sluice_rank"
_POSITION: Final = "_sluice_position"
_IS_OLD: Final = "_sluice_is_old"
_FIRST: Final = "_sluice_first"
_OLD_LAST: Final = "_sluice_old_last"
_NEW_LAST: Final = "_sluice_new_last"
_MOVE: Final = "_sluice_move"
_FURTHER: Final = "_sluice_further"
_CAME: Final = "_sluice_came"
_FROM: Final = "_sluice_from"
_NEXT: Final = "_sluice_next"
_MARKS: Final = "_sluice_marks"
_MOVED: Final = "_sluice_moved"
_BASELINE: Final = "_sluice_baseline"
_HASH: Final = "_sluice_hash"
# What happens to a key's row, in the order at one position: it leaves before another row of the key
# ends or arrives.
_LEAVES, _ENDS_HERE, _ARRIVES = range(3)


def moves(rows: DataFrame, key: Sequence[str]) -> DataFrame | None:
    """Return the moves among changes without TRUNCATEs; None if no place has both a delete and a
    partial change."""
    deleted = is_delete()
    gone = rows.where(deleted).select(F.explode(meeting_places()).alias(_PLACE))
    partial = rows.where(is_partial()).select(F.explode(meeting_places()).alias(_PLACE))
    both = materialize(partial.join(gone, _PLACE, "left_semi").distinct())
    if both.isEmpty():
        return None
    half = rows.select(
        _ident(key).alias(_KEY), names.POSITION, deleted.alias(_IS_OLD),
        F.posexplode(meeting_places()).alias(_RANK, _PLACE),
    ).join(both, _PLACE, "left_semi")  # fmt: skip
    old = half.where(_IS_OLD).groupBy(_PLACE).agg(
        F.max(names.POSITION).alias(_POSITION), F.min(_KEY).alias(OLD), F.max(_KEY).alias(_OLD_LAST)
    )  # fmt: skip
    pairs = _new_halves(half.where(~F.col(_IS_OLD)).join(old.select(_PLACE), _PLACE)).join(
        old, _PLACE
    )
    single = (F.col(OLD) == F.col(_OLD_LAST)) & (F.col(NEW) == F.col(_NEW_LAST))
    found = pairs.where(single & (F.col(OLD) != F.col(NEW)))
    return materialize(found.select(F.struct(_POSITION, OLD).alias(AT), TO, OLD, NEW).distinct())


def _new_halves(halves: DataFrame) -> DataFrame:
    """Return one row per place: NEW and _NEW_LAST, the lowest and highest key that arrives there
    (equal if there is one), and TO, the highest position.

    A half with two candidate places counts at the first one that has an old half. Where a place is
    the first choice of some halves, those with it as their second choice are ignored.
    """
    first = F.min(F.struct(_RANK, _PLACE)).alias(_FIRST)
    chosen = halves.groupBy(_KEY, names.POSITION).agg(first).select("*", f"{_FIRST}.*")
    ranked = chosen.groupBy(_PLACE, _RANK).agg(
        F.min(_KEY).alias(NEW), F.max(_KEY).alias(_NEW_LAST), F.max(names.POSITION).alias(TO)
    )
    best = F.min(F.struct(_RANK, NEW, _NEW_LAST, TO)).alias(_FIRST)
    return ranked.groupBy(_PLACE).agg(best).select(_PLACE, f"{_FIRST}.*")


def partial_keys_at(rows: DataFrame, brought: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the keys of partial changes that share a place with a change of `brought`.

    Such a change may complete a move, or make one ambiguous.
    """
    there = brought.select(F.explode(places()).alias(_PLACE))
    partial = rows.where(is_partial()).withColumn(_PLACE, F.explode(places()))
    return partial.join(there, _PLACE, "left_semi").select(*(quoted(k) for k in key))


def connected_keys(keys: DataFrame, moved: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the keys that moves connect to `keys`, directly or through others, together with those
    of `keys` that take part in a move."""
    there = moved.select(F.col(OLD).alias(_KEY), F.col(NEW).alias(_NEXT))
    ties = materialize(there.union(moved.select(NEW, OLD)).distinct())
    wanted = keys.select(_ident(key).alias(_KEY)).distinct()
    found = new = materialize(wanted.join(ties, _KEY, "left_semi"))
    while not new.isEmpty():
        more = ties.join(new, _KEY, "left_semi").select(F.col(_NEXT).alias(_KEY)).distinct()
        new = materialize(more.join(found, _KEY, "left_anti"))
        found = materialize(found.union(new))
    return found.select(*(F.col(_KEY)[k].alias(k) for k in key))


def with_moved_values(
    changes: DataFrame,
    moved: DataFrame | None,
    truncates: DataFrame | None,
    key: Sequence[str],
    data: Sequence[str],
) -> DataFrame:
    """Return the changes with the first changes of moved rows completed from the row under the old
    key.

    A column that such a change leaves out gets the last value of the old key's row, or NULL if no
    change of that row carried it: earlier values of the new key belong to another row. Nothing is
    filled where no row of the old key is known, or it was deleted.

    `changes` must have all known changes of all keys that moves connect. `truncates`: the
    TRUNCATEs, with `_position`; None if every change is above them. Same columns as `changes`.
    """
    values = [c for c in data if c not in key]
    if moved is None or not values or moved.isEmpty():
        return changes
    rows = _rows(changes, key, values)
    lives = _row_spans(changes, moved, truncates, key)
    real = materialize(moved.join(_changes_in_span(rows, lives).select(AT), AT, "left_semi"))
    given = _moved_values(rows, _lineage(_row_spans(changes, real, truncates, key)), values)
    given = moved.join(given, AT, "left").select(F.col(NEW).alias(_KEY), TO, _MOVED)
    given = materialize(_filled_from_baseline(given, rows, values))
    to = (F.col(_KEY) == _ident(key)) & (F.col(TO) == F.col(names.POSITION))
    joined = changes.join(given.where(F.col(_MOVED).isNotNull()), to, "left")
    return joined.select(*(_with_moved_value(c, values) for c in changes.columns))


def _rows(changes: DataFrame, key: Sequence[str], values: Sequence[str]) -> DataFrame:
    """Return upserts with the columns `values`, `_absent`, `_position`, BASELINE_AT,
    _KEY and _HASH."""
    baseline = F.col(BASELINE_AT) if BASELINE_AT in changes.columns else F.lit(None).cast("string")
    return changes.where(~is_delete()).select(
        *(quoted(c) for c in values), names.ABSENT, names.POSITION, _ident(key).alias(_KEY),
        baseline.alias(BASELINE_AT), content_hash(changes, [*key, *values]).alias(_HASH),
    )  # fmt: skip


def _changes_in_span(rows: DataFrame, lives: DataFrame) -> DataFrame:
    """Return the changes in each move's span (see `_row_spans`), with the stored row that replaces
    the expired ones.

    That row stands at the floor, but its own position says which of its key's rows it is.
    """
    at = F.coalesce(BASELINE_AT, names.POSITION)
    within = (at < F.col(AT)[_POSITION]) & (F.col(ENDED).isNull() | (at > F.col(ENDED)))
    return rows.join(lives, _KEY).where(within)


def _filled_from_baseline(given: DataFrame, rows: DataFrame, values: Sequence[str]) -> DataFrame:
    """Fill columns that no change of the moved row carried from a stored row of the new key, if
    that is from after the move."""
    each = (boxed(F.col(quoted(c))).alias(c) for c in values)
    baseline = rows.where(F.col(BASELINE_AT).isNotNull())
    joined = given.join(
        baseline.select(_KEY, BASELINE_AT, F.struct(*each).alias(_BASELINE)), _KEY, "left"
    )
    moved, stands = F.col(_MOVED), F.col(BASELINE_AT) >= F.col(TO)
    either = (F.coalesce(moved[c], F.when(stands, F.col(_BASELINE)[c])).alias(c) for c in values)
    found = F.when(moved.isNotNull() | stands, F.struct(*either))
    return joined.withColumn(_MOVED, found).drop(BASELINE_AT, _BASELINE)


def _with_moved_value(column: str, values: Sequence[str]) -> Column:
    own, moved = F.col(quoted(column)), F.col(TO).isNotNull()
    if column == names.ABSENT:  # a moved row is complete
        return F.when(~moved, own).alias(column)
    if column not in values:
        return own
    given = F.col(_MOVED)[column]["v"]
    return F.when(moved & ~carried(column), given).otherwise(own).alias(column)


def _row_spans(
    changes: DataFrame, moved: DataFrame, truncates: DataFrame | None, key: Sequence[str]
) -> DataFrame:
    """Return one row per move: AT, its old key _KEY, and where that key began to hold the moved
    row.

    ENDED: position of the last delete or TRUNCATE of the key before the move, where an earlier row
    of it ended. _FROM and _NEXT: position (TO) and id (AT) of the earlier move that brought the row
    to the key. Each may be NULL.
    """
    events = (
        moved.select(F.col(OLD).alias(_KEY), AT, F.col(AT)[_POSITION], F.lit(_LEAVES)),
        _ends(changes, moved, key).select(_KEY, F.lit(None), ENDED, F.lit(_ENDS_HERE)),
        moved.select(NEW, AT, TO, F.lit(_ARRIVES)),
    )
    happened = events[0].union(events[1]).union(events[2]).toDF(_KEY, AT, _POSITION, _RANK)
    before = Window.partitionBy(_KEY).orderBy(_POSITION, _RANK)
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    rank, came = F.col(_RANK), F.struct(_POSITION, AT)
    marked = happened.withColumns(
        {
            ENDED: F.max(F.when(rank == _ENDS_HERE, F.col(_POSITION))).over(before),
            _CAME: F.last(F.when(rank == _ARRIVES, came), ignorenulls=True).over(before),
        }
    ).where(rank == _LEAVES)
    parts = _ended_by_truncate(marked, truncates)
    mine = F.col(ENDED).isNull() | (F.col(_CAME)[_POSITION] > F.col(ENDED))
    arrived = F.when(mine, F.col(_CAME))
    return parts.select(AT, _KEY, ENDED, arrived[_POSITION].alias(_FROM), arrived[AT].alias(_NEXT))


def _ends(changes: DataFrame, moved: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the deletes of old keys' rows, as _KEY and ENDED, without the old halves of updates
    that keep the key."""
    rows = changes.select(_ident(key).alias(_KEY), names.OP, names.POSITION)
    ends = rows.join(moved.select(F.col(OLD).alias(_KEY)), _KEY, "left_semi")
    return ends_by_place(ends, [F.col(_KEY)]).where(F.col(ENDED).isNotNull())


def _ended_by_truncate(parts: DataFrame, truncates: DataFrame | None) -> DataFrame:
    if truncates is None:
        return parts
    marks = truncates.agg(F.collect_set(names.POSITION).alias(_MARKS))
    below = F.array_max(F.filter(_MARKS, lambda mark: mark < F.col(AT)[_POSITION]))
    marked = parts.crossJoin(F.broadcast(marks))
    return marked.withColumn(ENDED, F.greatest(ENDED, below)).drop(_MARKS)


def _lineage(parts: DataFrame) -> DataFrame:
    """Return for every move, as _MOVE, its own span (see `_row_spans`) and those of the moves
    before it.

    The length of steps doubles in each round, so a row that moved a thousand times takes ten
    rounds.
    """
    parts = materialize(parts)
    steps = parts.where(F.col(_NEXT).isNotNull()).select(AT, _NEXT)
    reached = parts.select(F.col(AT).alias(_MOVE), AT)
    while not (steps := materialize(steps)).isEmpty():
        further = reached.join(steps, AT).select(_MOVE, F.col(_NEXT).alias(AT))
        reached = materialize(reached.union(further))
        twice = steps.select(F.col(AT).alias(_NEXT), F.col(_NEXT).alias(_FURTHER))
        steps = steps.join(twice, _NEXT).select(AT, F.col(_FURTHER).alias(_NEXT))
    return reached.join(parts, AT)


def _moved_values(rows: DataFrame, lineage: DataFrame, values: Sequence[str]) -> DataFrame:
    """Return for every move AT and _MOVED: per column a struct of `v`, the newest value that a
    change of the moved row carried under any of its earlier keys.

    Values of a key from before the row moved to it belong to another row and are ignored. Where no
    change carried a column, a stored row from after that move is used: it has the values of expired
    changes.
    """
    own = F.col(_FROM).isNull() | (F.col(names.POSITION) >= F.col(_FROM))
    from_baseline = F.coalesce(F.col(BASELINE_AT) >= F.col(_FROM), F.lit(False))
    order = F.struct(own, names.POSITION, _HASH)
    newest = (newest_carried(c, order).alias(c) for c in values)
    within = _changes_in_span(rows, lineage).where(own | from_baseline)
    given = within.groupBy(F.col(_MOVE).alias(AT)).agg(*newest)
    return given.select(AT, F.struct(*(quoted(c) for c in values)).alias(_MOVED))


def _ident(key: Sequence[str]) -> Column:
    return F.struct(*by_name(key))
