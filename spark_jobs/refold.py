"""refold: what a table must hold, from all of its published changes at once, written plainly.

It has to find what is broken in the incremental path, so it shares none of its rules (fold,
resolve, merge, nokey): windows here, aggregates there. In common is the content hash alone, which
by definition settles two events at one position.

A changelog here has the source's columns and `sluice.names.CHANGELOG_METADATA`, and the events of
published batches only; refolded, it has the source's columns, `_op`, `_position` and KNOWN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import ALL_BUT, OP_DELETE, OP_TRUNCATE, quoted
from spark_jobs.fold import content_hash

# No source has columns of these names.
KNOWN: Final = "_sluice_known"
_CONTENT: Final = "_sluice_content"
_TRUNCATED_AT: Final = "_sluice_truncated_at"
_PLACE: Final = "_sluice_place"
_ENDS: Final = "_sluice_ends"
_LAST: Final = "_sluice_last_"
_LIFE: Final = "_sluice_life"
_RANK: Final = "_sluice_rank"
_SURVIVORS: Final = "_sluice_survivors"


def refold(
    changelog: DataFrame, key: Sequence[str], data: Sequence[str], partial: bool
) -> DataFrame:
    """The rows that the target must hold, `_op` not delete, and the deletes to be remembered.

    One row a key. Without a key, the inserts that no delete has taken. `partial`: some event
    left columns out. KNOWN is false for a row of which a column was never carried.
    """
    hashed = _in_force(changelog).withColumn(_CONTENT, content_hash(changelog, data))
    events = hashed.withColumn(KNOWN, F.lit(True))
    if not key:
        found = _surviving(_newest(events, [names.POSITION]), data)
    else:
        found = _newest(_filled_in(events, key, data) if partial else events, key)
    return found.select(*_columns(data), names.OP, names.POSITION, KNOWN)


def rows_of(refolded: DataFrame) -> DataFrame:
    """What the target must hold: the source's columns and `_position`."""
    return refolded.where(F.col(names.OP) != OP_DELETE).drop(names.OP, KNOWN)


def tombstones_of(refolded: DataFrame, changelog: DataFrame, key: Sequence[str]) -> DataFrame:
    """What the tombstones must hold: key and `_position`, NULL keys for the newest TRUNCATE."""
    deleted = refolded.where(F.col(names.OP) == OP_DELETE)
    dead = deleted.select(*_columns(key), names.POSITION)
    types = {f.name: f.dataType for f in changelog.schema}
    nulls = [F.lit(None).cast(types[k]).alias(k) for k in key]
    whole = _truncation(changelog).where(F.col(_TRUNCATED_AT).isNotNull())
    return dead.unionByName(whole.select(*nulls, F.col(_TRUNCATED_AT).alias(names.POSITION)))


def _columns(listed: Sequence[str]) -> list[Column]:
    return [F.col(quoted(c)) for c in listed]


def _truncation(changelog: DataFrame) -> DataFrame:
    """One row: the position of the newest TRUNCATE, or NULL."""
    truncates = changelog.where(F.col(names.OP) == OP_TRUNCATE)
    return truncates.agg(F.max(names.POSITION).alias(_TRUNCATED_AT))


def _in_force(changelog: DataFrame) -> DataFrame:
    """The changes of rows above the newest TRUNCATE."""
    changes = changelog.where(F.col(names.OP) != OP_TRUNCATE)
    marked = changes.crossJoin(F.broadcast(_truncation(changelog)))
    above = F.col(_TRUNCATED_AT).isNull() | (F.col(names.POSITION) > F.col(_TRUNCATED_AT))
    return marked.where(above).drop(_TRUNCATED_AT)


def _newest(events: DataFrame, key: Sequence[str]) -> DataFrame:
    newest_first = Window.partitionBy(*_columns(key)).orderBy(
        F.col(names.POSITION).desc(), F.col(_CONTENT).desc()
    )
    return events.withColumn(_RANK, F.row_number().over(newest_first)).where(F.col(_RANK) == 1)


def _surviving(once: DataFrame, data: Sequence[str]) -> DataFrame:
    """Of equal rows as many stay as were inserted more than deleted, the newest of them."""
    inserted = F.col(names.OP) != OP_DELETE
    equal = Window.partitionBy(*_columns(data))
    survivors = F.sum(F.when(inserted, 1).otherwise(-1)).over(equal)
    newest_first = Window.partitionBy(*_columns(data), inserted).orderBy(F.desc(names.POSITION))
    ranked = once.withColumns({_SURVIVORS: survivors, _RANK: F.row_number().over(newest_first)})
    return ranked.where(inserted & (F.col(_RANK) <= F.col(_SURVIVORS)))


def _filled_in(events: DataFrame, key: Sequence[str], data: Sequence[str]) -> DataFrame:
    """Every event with what it left out, as the row had it then: from its own life alone."""
    lives = _lives(events, key)
    so_far = (
        Window.partitionBy(*_columns(key), F.col(_LIFE))
        .orderBy(names.POSITION, _CONTENT)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    absent = [c for c in data if c not in key]
    last = {f"{_LAST}{c}": _carried_last(c).over(so_far) for c in absent}
    known = F.array_min(F.array(F.lit(True), *(F.col(quoted(c)).isNotNull() for c in last)))
    values = {c: F.col(quoted(f"{_LAST}{c}"))["v"] for c in absent}
    return lives.withColumns(last).withColumns({KNOWN: known, **values})


def _lives(events: DataFrame, key: Sequence[str]) -> DataFrame:
    """Number the lives of a key: a delete ends one and begins the next.

    A delete with an upsert of the same key at the same place is the old half of an update that
    came in two records: nothing ended, and the half says nothing that the new one does not. The
    mark `~` says that it may be at the place before, whose number is behind the mark.
    """
    upserts = F.col(names.OP) != OP_DELETE
    own = F.regexp_replace(names.POSITION, r"\.[0-9]$", "")
    before = F.regexp_replace(own, r"[0-9]+~([0-9]+)$", "$1~")
    place = F.regexp_replace(own, r"~[0-9]+$", "~")
    at_place = Window.partitionBy(*_columns(key), F.col(_PLACE))
    ends = ~upserts & ~F.bool_or(upserts).over(at_place)
    so_far = (
        Window.partitionBy(*_columns(key))
        .orderBy(names.POSITION, _CONTENT)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    spread = events.withColumn(_PLACE, F.explode(F.array_distinct(F.array(place, before))))
    told = spread.withColumn(_ENDS, ends).where(F.col(_PLACE) == place)
    real = told.where(upserts | F.col(_ENDS))
    return real.withColumn(_LIFE, F.count_if(F.col(_ENDS)).over(so_far))


def _carried_last(column: str) -> Column:
    """The last value that an event carried; `_absent` lists what it left out, or all it did not."""
    listed = F.coalesce(F.array_contains(names.ABSENT, F.lit(column)), F.lit(False))
    all_but = F.coalesce(F.array_contains(names.ABSENT, F.lit(ALL_BUT)), F.lit(False))
    value = F.struct(F.col(quoted(column)).alias("v"))
    return F.last(F.when(listed == all_but, value), ignorenulls=True)
