"""Versions: turn the changes of keys into one row for every state of a row, with its end.

A version begins at an event other than a delete, and ends at the next event or TRUNCATE of its key,
by position. Columns that an event did not carry keep their value of the version before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from sluice import names
from spark_jobs.canonical import OP_DELETE, OP_INSERT
from spark_jobs.folding.fold import boxed, carried, content_hash
from spark_jobs.folding.half_matching import places, position_place
from spark_jobs.quoting import by_name, quoted
from spark_jobs.row_conditions import is_delete

ENDED_AT: Final = "_sluice_ended_at"
ENDED_TS: Final = "_sluice_ended_ts"
_ERA: Final = "_sluice_era"
_HASH: Final = "_sluice_hash"
_NEXT: Final = "_sluice_next"
_TRUNCATES: Final = "_sluice_truncates"
_PLACE: Final = "_sluice_place"
_RENEWED: Final = "_sluice_renewed"
_KEPT: Final = (names.OP, *names.TARGET_METADATA, _ERA)


def versions(
    changes: DataFrame, truncates: DataFrame, key: Sequence[str], data: Sequence[str]
) -> DataFrame:
    """Return all versions of the keys in `changes`.

    `changes`: `data`, `_op`, `_absent`, `_position`, `_source_ts`, `_batch_id`, without TRUNCATEs.
    `truncates`: `_position`, `_source_ts`. Returns `data`, `_position`, `_source_ts`, `_batch_id`
    and the end, ENDED_AT (a position) and ENDED_TS, both NULL while the version is open. Of
    different events at one position the one with the higher content hash wins, as in fold.
    """
    keys = by_name(key)
    era = F.col(_ERA)[names.POSITION]
    placed = _in_eras(without_renewed(changes, keys), truncates)
    placed = placed.withColumn(_HASH, content_hash(placed, data))
    ordered = Window.partitionBy(*keys, era).orderBy(
        names.POSITION, _HASH, names.SOURCE_TS, names.BATCH_ID
    )
    following = F.lead(names.POSITION).over(ordered)
    values = [F.col(quoted(c)) if c in key else _value(c, ordered) for c in data]
    states = placed.select(*values, *_KEPT, following.alias(_NEXT)).where(
        F.col(_NEXT).isNull() | (F.col(_NEXT) != F.col(names.POSITION))
    )
    return _ended(states, Window.partitionBy(*keys, era).orderBy(names.POSITION), data)


def begun(stored: DataFrame, source_ts: str) -> DataFrame:
    """Return stored versions as the changes that began them; `source_ts`: their time column."""
    return _as_changes(stored, OP_INSERT, names.POSITION, source_ts)


def ended(stored: DataFrame, position: str, source_ts: str) -> DataFrame:
    """Return the ends of stored versions as deletes.

    If another change ended the version, `versions` treats the delete as the old half of that
    change.
    """
    closed = stored.where(F.col(position).isNotNull())
    return _as_changes(closed, OP_DELETE, position, source_ts)


def _as_changes(stored: DataFrame, op: str, position: str, source_ts: str) -> DataFrame:
    return stored.select(
        *(quoted(c) for c in stored.columns if c not in names.RESERVED_COLUMNS),
        F.col(position).alias(names.POSITION),
        F.col(source_ts).alias(names.SOURCE_TS),
        F.lit(op).alias(names.OP),
        names.BATCH_ID,
    )


def without_renewed(changes: DataFrame, keys: list[Column]) -> DataFrame:
    """Return the changes without old halves of updates whose new half has the same key."""
    deleted = is_delete()
    at_place = Window.partitionBy(*keys, _PLACE)
    spread = changes.withColumn(_PLACE, F.explode(places()))
    marked = spread.withColumn(_RENEWED, deleted & (F.count_if(~deleted).over(at_place) > 0))
    once = F.col(_PLACE) == position_place()
    return marked.where(once & ~F.col(_RENEWED)).drop(_RENEWED, _PLACE)


def _in_eras(changes: DataFrame, truncates: DataFrame) -> DataFrame:
    """Add _ERA: the first TRUNCATE at or above the change, which ends its version."""
    mark = F.struct(names.POSITION, names.SOURCE_TS)
    marks = truncates.agg(F.sort_array(F.collect_set(mark)).alias(_TRUNCATES))
    after = F.filter(_TRUNCATES, lambda mark: mark[names.POSITION] >= F.col(names.POSITION))
    placed = changes.crossJoin(F.broadcast(marks)).withColumn(_ERA, F.get(after, F.lit(0)))
    return placed.drop(_TRUNCATES)


def _value(column: str, ordered: WindowSpec) -> Column:
    """Return the value that was carried last.

    A delete carries every column, as it has no `_absent` (see `decode`), and NULL in each.
    """
    value = boxed(F.when(~is_delete(), F.col(quoted(column))))
    newest = F.last(F.when(carried(column), value), ignorenulls=True)
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return newest.over(so_far)["v"].alias(column)


def _ended(states: DataFrame, ordered: WindowSpec, data: Sequence[str]) -> DataFrame:
    following = F.lead(F.struct(names.POSITION, names.SOURCE_TS)).over(ordered)
    ended = states.withColumn(_NEXT, F.coalesce(following, _ERA))
    return ended.where(~is_delete()).select(
        *(quoted(c) for c in data),
        *names.TARGET_METADATA,
        F.col(_NEXT)[names.POSITION].alias(ENDED_AT),
        F.col(_NEXT)[names.SOURCE_TS].alias(ENDED_TS),
    )
