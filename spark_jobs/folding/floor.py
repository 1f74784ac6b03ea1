"""The floor: the highest position that maintenance expired from a table's tombstones or changelog.

Above it everything is remembered. At or below it only the stored rows are: each is what all of its
key's events made of it. Pure functions; the floor moves in `retention`, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    is_delete,
    is_truncate,
    quoted,
)
from spark_jobs.folding.places import places
from spark_jobs.folding.resolve import ROW, TOMBSTONE, Stored, with_stored
from spark_jobs.folding.versions import ended

BEYOND: Final = "_sluice_beyond"
STOOD_AT: Final = "_sluice_stood_at"
"""Of a stored row that stands at the floor for what is forgotten, its own position."""
_HELD: Final = "_sluice_held"
_BEGAN: Final = "_sluice_began"
_ENDED: Final = "_sluice_ended"
_ENDS: Final = "_sluice_ends"
_PLACE: Final = "_sluice_place"
_HALF: Final = "_sluice_half"


def mark_all(changes: DataFrame, floor: str) -> DataFrame:
    """Add BEYOND for a table whose rows are put together from several events (it has no key,
    or partial rows): whatever is not above the floor could matter."""
    return changes.withColumn(BEYOND, F.col(names.POSITION) <= floor)


def mark(
    changes: DataFrame, stored: Stored, floor: str, key: Sequence[str], keeps_deleted: bool = False
) -> DataFrame:
    """Add BEYOND: the event is not above the floor, and nothing that is stored can judge it.

    A live row of the key can: no delete came after it. So can a tombstone or a TRUNCATE above the
    event; a row that is kept though deleted is a tombstone, for a delete of it may be forgotten.
    Where such rows are kept a TRUNCATE can't: a delete below it may have ended the row before.
    A TRUNCATE itself takes away the rows below it, whenever it comes.
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
    """Add to what `mark` marked the events at or below the floor that no stored version holds.

    What ended the version that such an event begins may be forgotten, whoever outlived it since.
    Within a version of the history nothing else happened to its row.
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
    return held.withColumn(BEYOND, F.col(BEYOND) | between).select(*map(quoted, changes.columns))


def mark_halves(marked: DataFrame) -> DataFrame:
    """The other half of what `mark` marked waits with it: of a key's change the end of the old key,
    which its row can judge, is not without the row of the new one. They are at one of the `places`
    in the source's log, whether in one record or two."""
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
    return found.withColumn(BEYOND, waits).select(*map(quoted, marked.columns))


def _by_life(stored: Stored, key: Sequence[str]) -> Stored:
    """The living rows, and soft-deleted ones among the tombstones, the newest of each key."""
    if stored.rows is None or names.IS_DELETED not in stored.rows.columns:
        return stored
    deleted, columns = F.coalesce(names.IS_DELETED, F.lit(False)), [*key, names.SOURCE_TS]
    ends = F.col(names.DELETED_POSITION).alias(names.POSITION)
    tombstones = stored.rows.where(deleted).select(*map(quoted, columns), ends)
    if stored.tombstones is not None:
        others = stored.tombstones.select(*map(quoted, tombstones.columns))
        tombstones = tombstones.unionByName(others)
    newest = [F.max(name).alias(name) for name in (names.POSITION, names.SOURCE_TS)]
    tombstones = tombstones.groupBy(*map(quoted, key)).agg(*newest)
    return replace(stored, rows=stored.rows.where(~deleted), tombstones=tombstones)


def remembering(stored: Stored, versions: DataFrame, key: Sequence[str]) -> Stored:
    """With the ends that a history still has among the tombstones, of each key the newest: the
    tombstones of some may be forgotten."""
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
    floor: str,
    key: Sequence[str],
    batch_id: str = "",
    tombstones: DataFrame | None = None,
) -> DataFrame:
    """The changes above the floor, and what is stored of each of `keys` for all that was below.

    Every event above the floor is in the changelog still, so the row stands at the floor: what it
    has from above comes again with the event itself. A tombstone stands where it is, for below
    the floor are those events of `batch_id` that an operator accepted. Adds STOOD_AT.
    """
    above = known.where((F.col(names.POSITION) > floor) | (F.col(names.BATCH_ID) == batch_id))
    if tombstones is not None:
        dead = tombstones.where(F.col(names.POSITION) <= floor).join(keys, list(key), "left_semi")
        ends = dead.withColumns({names.OP: F.lit(OP_DELETE), names.COUNTED: F.lit(False)})
        above = above.unionByName(ends, allowMissingColumns=True)
    if rows is None:
        return above
    live = rows.join(keys, list(key), "left_semi")
    stands = {
        names.OP: F.lit(OP_INSERT),
        names.POSITION: F.least(F.col(names.POSITION), F.lit(floor)),
        names.ABSENT: F.lit(None).cast("array<string>"),
        names.COUNTED: F.lit(False),
        STOOD_AT: F.col(names.POSITION),
    }
    return above.unionByName(live.withColumns(stands), allowMissingColumns=True)
