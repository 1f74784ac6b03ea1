"""The floor: the highest position that maintenance expired from a table's tombstones or changelog.

Above it, every event is known. At or below it, only the stored rows are, each the result of all of
its key's events. Pure functions; only `retention` moves the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import (
    OP_DELETE,
    OP_INSERT,
    OP_TRUNCATE,
    by_name,
    by_source,
    in_batch,
    is_delete,
    is_truncate,
    quoted,
)
from spark_jobs.folding.places import places
from spark_jobs.folding.resolve import ROW, TOMBSTONE, Stored, with_stored
from spark_jobs.folding.versions import ended

BEYOND: Final = "_sluice_beyond"
STOOD_AT: Final = "_sluice_stood_at"
"""The position of a stored row that stands, at the floor, for expired events."""
_HELD: Final = "_sluice_held"
_BEGAN: Final = "_sluice_began"
_ENDED: Final = "_sluice_ended"
_ENDS: Final = "_sluice_ends"
_PLACE: Final = "_sluice_place"
_HALF: Final = "_sluice_half"


@dataclass(frozen=True)
class Floor:
    """A table's floor and key; `batch_id`: a batch that no stored row includes yet."""

    at: str
    key: Sequence[str]
    batch_id: str = ""


def mark_all(changes: DataFrame, floor: str) -> DataFrame:
    """Add BEYOND in a table whose rows consist of several events (no key, or partial rows): any
    event at or below the floor could matter."""
    return changes.withColumn(BEYOND, F.col(names.POSITION) <= floor)


def mark(
    changes: DataFrame, stored: Stored, floor: str, key: Sequence[str], keeps_deleted: bool = False
) -> DataFrame:
    """Add BEYOND: whether an event is at or below the floor and no stored state can judge it.

    A living row of the key can judge it, since no delete came after; so can a tombstone or TRUNCATE
    above the event. A soft-deleted row counts as a tombstone: a later delete may have expired.
    With soft deletes (`keeps_deleted`) a TRUNCATE cannot judge, since a forgotten delete may have
    ended the row first. A TRUNCATE itself applies to rows below it, whenever it arrives.
    """
    stored = _by_life(stored, key)
    position = F.col(names.POSITION)
    judged = F.col(ROW).isNotNull() | (F.col(TOMBSTONE)[names.POSITION] >= position)
    if stored.truncated_at is not None and not keeps_deleted:
        judged |= position <= stored.truncated_at
    beyond = (position <= floor) & ~is_truncate() & ~F.coalesce(judged, F.lit(False))
    marked = with_stored(changes, stored, key).withColumn(BEYOND, beyond)
    return marked.drop(ROW, TOMBSTONE)


def mark_between(
    changes: DataFrame, versions: DataFrame, floor: str, key: Sequence[str]
) -> DataFrame:
    """Extend `mark` to events at or below the floor that lie in no stored version.

    The end of the version that such an event begins may have expired. Within a stored version,
    nothing else happened to the row.
    """
    began, ended = F.col(names.POSITION), F.col(names.POSITION_TO)
    known = versions.select(
        *(F.col(quoted(k)).alias(f"{_HELD}_{i}") for i, k in enumerate(key)),
        began.alias(_BEGAN),
        ended.alias(_ENDED),
    )
    position = F.col(names.POSITION)
    within = (F.col(_BEGAN) <= position) & (F.col(_ENDED).isNull() | (position < F.col(_ENDED)))
    for i, k in enumerate(key):
        within &= F.col(quoted(k)) == F.col(f"{_HELD}_{i}")
    begins = ~F.col(names.OP).isin(OP_DELETE, OP_TRUNCATE)
    between = (position <= floor) & begins & F.col(_BEGAN).isNull()
    held = changes.join(known, within, "left")
    return held.withColumn(BEYOND, F.col(BEYOND) | between).select(*by_name(changes.columns))


def mark_halves(marked: DataFrame) -> DataFrame:
    """Extend BEYOND to the other half of a marked half.

    The delete of an old key, which its row could judge, must not apply without the new key's row.
    Halves share one of their `places`, whether in one record or two.
    """
    ordered = marked.where(by_source(F.col(names.POSITION)))
    at = ordered.select(
        names.POSITION,
        BEYOND,
        is_delete().alias(_ENDS),
        F.explode(places()).alias(_PLACE),
    )
    others = at.where(BEYOND).select(_PLACE, (~F.col(_ENDS)).alias(_ENDS)).distinct()
    halves = at.join(others, [_PLACE, _ENDS], "left_semi").select(names.POSITION).distinct()
    halves = halves.withColumn(_HALF, F.lit(True))
    found = marked.join(halves, names.POSITION, "left")
    waits = F.col(BEYOND) | F.coalesce(_HALF, F.lit(False))
    return found.withColumn(BEYOND, waits).select(*by_name(marked.columns))


def _by_life(stored: Stored, key: Sequence[str]) -> Stored:
    """Return the stored state with soft-deleted rows as tombstones, the newest of each key."""
    if stored.rows is None or names.IS_DELETED not in stored.rows.columns:
        return stored
    deleted, columns = F.coalesce(names.IS_DELETED, F.lit(False)), [*key, names.SOURCE_TS]
    ends = F.col(names.DELETED_POSITION).alias(names.POSITION)
    tombstones = stored.rows.where(deleted).select(*by_name(columns), ends)
    if stored.tombstones is not None:
        others = stored.tombstones.select(*by_name(tombstones.columns))
        tombstones = tombstones.unionByName(others)
    newest = [F.max(name).alias(name) for name in (names.POSITION, names.SOURCE_TS)]
    tombstones = tombstones.groupBy(*by_name(key)).agg(*newest)
    return replace(stored, rows=stored.rows.where(~deleted), tombstones=tombstones)


def remembering(stored: Stored, versions: DataFrame, key: Sequence[str]) -> Stored:
    """Return the stored state with version ends of the history as tombstones, the newest of each
    key, since real tombstones may have expired."""
    columns = by_name([*key, *names.TARGET_METADATA])
    tombstones = ended(versions, names.POSITION_TO, names.VALID_TO).select(*columns)
    if stored.tombstones is not None:
        tombstones = tombstones.unionByName(stored.tombstones.select(*columns))
    newest = F.max(F.struct(*names.TARGET_METADATA)).alias(TOMBSTONE)
    tombstones = tombstones.groupBy(*by_name(key)).agg(newest)
    return replace(stored, tombstones=tombstones.select(*by_name(key), f"{TOMBSTONE}.*"))


def since_floor(
    known: DataFrame,
    rows: DataFrame | None,
    keys: DataFrame,
    floor: Floor,
    tombstones: DataFrame | None = None,
) -> DataFrame:
    """Return the changes above the floor, with the stored state of `keys` in place of those below.

    The changelog has every event above the floor, so a stored row stands at the floor: its values
    from above come again with their events. A tombstone keeps its position, since accepted events
    of the floor's batch lie below it too. Adds STOOD_AT.
    """
    position, key = F.col(names.POSITION), list(floor.key)
    above = known.where((position > floor.at) | in_batch(floor.batch_id))
    if tombstones is not None:
        dead = tombstones.where(position <= floor.at).join(keys, key, "left_semi")
        ends = dead.withColumns({names.OP: F.lit(OP_DELETE), names.COUNTED: F.lit(False)})
        above = above.unionByName(ends, allowMissingColumns=True)
    if rows is None:
        return above
    live = rows.join(keys, key, "left_semi")
    stands = {
        names.OP: F.lit(OP_INSERT),
        names.POSITION: F.least(position, F.lit(floor.at)),
        names.ABSENT: F.lit(None).cast("array<string>"),
        names.COUNTED: F.lit(False),
        STOOD_AT: position,
    }
    return above.unionByName(live.withColumns(stands), allowMissingColumns=True)
