"""The floor: the highest position up to which a table's tombstones or changes expired.

Every event above it is known. At or below it, only the stored rows are known, each the result of
all events of its key. Pure functions; only `retention` moves the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import OP_DELETE, OP_INSERT, OP_TRUNCATE
from spark_jobs.folding.half_matching import places
from spark_jobs.folding.resolve import ROW, TOMBSTONE, StoredState, with_stored
from spark_jobs.folding.versions import ended
from spark_jobs.position_text import by_source
from spark_jobs.quoting import by_name, quoted
from spark_jobs.row_conditions import in_batch, is_delete, is_truncate

BEYOND_FLOOR: Final = "_sluice_beyond_floor"
BASELINE_AT: Final = "_sluice_baseline_at"
"""The position of a stored row that stands, at the floor, for expired events."""
_HELD: Final = "_sluice_held"
_BEGAN: Final = "_sluice_began"
_ENDED: Final = "_sluice_ended"
_ENDS: Final = "_sluice_ends"
_PLACE: Final = "_sluice_place"
_HALF: Final = "_sluice_half"


@dataclass(frozen=True)
class Floor:
    """A table's floor (`at`) and key. `batch_id`: a batch whose changes no stored row
    includes yet."""

    at: str
    key: Sequence[str]
    batch_id: str = ""


def mark_below(changes: DataFrame, floor: str) -> DataFrame:
    """Add the boolean BEYOND_FLOOR to changes of a table whose rows merge several events (no key,
    or partial rows): true for every event at or below the floor."""
    return changes.withColumn(BEYOND_FLOOR, F.col(names.POSITION) <= floor)


def mark_undecidable(
    changes: DataFrame,
    stored: StoredState,
    floor: str,
    key: Sequence[str],
    *,
    keeps_deleted: bool,
) -> DataFrame:
    """Add the boolean BEYOND_FLOOR: the event is at or below the floor, and it is unknown whether
    it applies.

    It is known if its key has a live row (nothing deleted it later), or if a tombstone or TRUNCATE
    lies at or above the event. A soft-deleted row counts as a tombstone, since the tombstone of a
    later delete may have expired. With soft deletes (`keeps_deleted`) a TRUNCATE proves nothing: a
    delete that expired may have ended the row before it. TRUNCATEs are never marked.
    """
    stored = _soft_deletes_as_tombstones(stored, key)
    position = F.col(names.POSITION)
    judged = F.col(ROW).isNotNull() | (F.col(TOMBSTONE)[names.POSITION] >= position)
    if stored.truncated_at is not None and not keeps_deleted:
        judged |= position <= stored.truncated_at
    beyond = (position <= floor) & ~is_truncate() & ~F.coalesce(judged, F.lit(False))
    marked = with_stored(changes, stored, key).withColumn(BEYOND_FLOOR, beyond)
    return marked.drop(ROW, TOMBSTONE)


def mark_between_versions(
    changes: DataFrame, versions: DataFrame, floor: str, key: Sequence[str]
) -> DataFrame:
    """Also mark events at or below the floor that begin a version outside all stored versions.

    The end of such a version may have expired. Within a stored version nothing else happened to the
    row.
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
    return held.withColumn(BEYOND_FLOOR, F.col(BEYOND_FLOOR) | between).select(
        *by_name(changes.columns)
    )


def mark_other_halves(marked: DataFrame) -> DataFrame:
    """Also mark the other half of every update of which one half is marked.

    A delete of the old key must not apply without the row under the new key. Halves are matched by
    `places`, whether they came in one record or in two.
    """
    ordered = marked.where(by_source(F.col(names.POSITION)))
    at = ordered.select(
        names.POSITION,
        BEYOND_FLOOR,
        is_delete().alias(_ENDS),
        F.explode(places()).alias(_PLACE),
    )
    others = at.where(BEYOND_FLOOR).select(_PLACE, (~F.col(_ENDS)).alias(_ENDS)).distinct()
    halves = at.join(others, [_PLACE, _ENDS], "left_semi").select(names.POSITION).distinct()
    halves = halves.withColumn(_HALF, F.lit(True))
    found = marked.join(halves, names.POSITION, "left")
    waits = F.col(BEYOND_FLOOR) | F.coalesce(_HALF, F.lit(False))
    return found.withColumn(BEYOND_FLOOR, waits).select(*by_name(marked.columns))


def _soft_deletes_as_tombstones(stored: StoredState, key: Sequence[str]) -> StoredState:
    """Return the stored state with soft-deleted rows as tombstones; of each key only
    the newest one."""
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


def with_version_ends(stored: StoredState, versions: DataFrame, key: Sequence[str]) -> StoredState:
    """Return the stored state with the version ends of the history as additional tombstones, since
    real tombstones may have expired; of each key only the newest one."""
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
    """Return the changes above the floor, with stored state in place of expired changes.

    The result has the known changes above the floor and all changes of `floor.batch_id`; each
    stored row of `keys` as an insert at the floor, or at its own position if that is lower; and
    each of their tombstones at or below the floor as a delete at its own position. Values that a
    stored row has from above the floor come again with their changes. Adds BASELINE_AT: the
    position of the stored row, NULL for changes.
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
        BASELINE_AT: position,
    }
    return above.unionByName(live.withColumns(stands), allowMissingColumns=True)
