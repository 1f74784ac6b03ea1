"""Compare folded keys with the stored state: which changes apply, are late, or are
stored already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from sluice import names
from sluice.result import Conflicts, Counts
from spark_jobs.folding.fold import (
    CONFLICTS,
    DISTINCT,
    RECORDS,
    content_hash,
    count_distinct,
)
from spark_jobs.folding.key_ranges import KeyRange, extremes, key_ranges
from spark_jobs.position_text import by_source
from spark_jobs.quoting import by_name, quoted
from spark_jobs.row_conditions import is_delete

STATUS: Final = "_sluice_status"
APPLY: Final = "apply"
EQUAL: Final = "equal"
LATE: Final = "late"
CONTRADICTS: Final = "_sluice_contradicts"
ROW: Final = "_sluice_row"
TOMBSTONE: Final = "_sluice_tombstone"
MINE: Final = "_sluice_mine"
_THEIRS: Final = "_sluice_theirs"
_WON: Final = "_sluice_won"
_VERSION: Final = f"struct<{names.POSITION}:string,{names.SOURCE_TS}:timestamp>"


@dataclass(frozen=True)
class StoredState:
    """The content of the tables on which the branch is based; None for a table that has no rows
    yet.

    `truncated_at`, `truncated_by`: position and batch of the newest TRUNCATE, from the table's own
    tombstone. `cut`: the batch itself has a TRUNCATE, which may remove stored rows.
    """

    rows: DataFrame | None
    tombstones: DataFrame | None
    truncated_at: str | None
    cut: bool = False
    truncated_by: str | None = None

    def cut_by(self, truncated: str | None) -> StoredState:
        """Return this state with a TRUNCATE of the batch at position `truncated` (None:
        without one)."""
        if truncated is None:
            return self
        return replace(self, truncated_at=max(self.truncated_at or "", truncated), cut=True)


@dataclass(frozen=True)
class Tally:
    """The outcomes of a table's records; `contradicting`: records that are late by position but
    newer by source time than the stored state of their key."""

    counts: Counts
    contradicting: int = 0
    conflicts: Conflicts = field(default_factory=Conflicts)


@dataclass(frozen=True)
class KeyEnds:
    """How many keys end with a row, how many with a delete, and the ranges of both."""

    rows: int
    deletes: int
    ranges: tuple[KeyRange, ...] = ()


def resolve(folded: DataFrame, stored: StoredState, key: Sequence[str]) -> DataFrame:
    """Add STATUS and CONTRADICTS, by comparing with the newest of row, tombstone and
    TRUNCATE of the key."""
    joined = with_stored(folded, stored, key)
    newest = F.greatest(ROW, TOMBSTONE, _truncation(stored.truncated_at))
    mine, theirs = F.col(names.POSITION), newest[names.POSITION]
    status = (
        F.when(theirs.isNull() | (mine > theirs), F.lit(APPLY))
        .when(mine == theirs, F.lit(EQUAL))
        .otherwise(F.lit(LATE))
    )
    younger = F.col(names.SOURCE_TS) > newest[names.SOURCE_TS]
    # A full load ranks below every change, whenever it was made.
    contradicts = (mine < theirs) & younger & by_source(mine) & by_source(theirs)
    return joined.withColumns({STATUS: status, CONTRADICTS: contradicts}).drop(ROW, TOMBSTONE)


def with_stored(changes: DataFrame, stored: StoredState, key: Sequence[str]) -> DataFrame:
    """Add ROW and TOMBSTONE: position and source time of the key's stored row and tombstone."""
    rows = _versions(stored.rows, key, ROW)
    dead = _versions(stored.tombstones, key, TOMBSTONE)
    return _join(_join(changes, rows, key, ROW), dead, key, TOMBSTONE)


def _versions(table: DataFrame | None, key: Sequence[str], name: str) -> DataFrame | None:
    if table is None:
        return None
    version = F.struct(names.POSITION, names.SOURCE_TS)
    return table.select(*by_name(key), version.alias(name))


def _truncation(position: str | None) -> Column:
    made = F.struct(
        F.lit(position).alias(names.POSITION),
        F.lit(None).cast("timestamp").alias(names.SOURCE_TS),
    )
    return F.lit(None).cast(_VERSION) if position is None else made


def _join(left: DataFrame, right: DataFrame | None, key: Sequence[str], name: str) -> DataFrame:
    if right is None:
        return left.withColumn(name, F.lit(None).cast(_VERSION))
    same_key = [left[quoted(k)] == right[quoted(k)] for k in key]
    return left.join(right, on=same_key, how="left").select(
        *(left[quoted(c)] for c in left.columns), right[name]
    )


def resolve_ties(resolved: DataFrame, unlike: DataFrame, key: Sequence[str]) -> DataFrame:
    """Apply the changes of `unlike` that win against the row at their position: the higher
    content hash wins."""
    won = unlike.where(F.col(MINE) > F.col(_THEIRS)).select(*by_name(key))
    marked = resolved.join(F.broadcast(won.withColumn(_WON, F.lit(True))), list(key), "left")
    status = F.when(F.col(_WON) & ~is_delete(), F.lit(APPLY))
    return marked.withColumn(STATUS, F.coalesce(status, STATUS)).select(*by_name(resolved.columns))


def unlike_stored(
    resolved: DataFrame, rows: DataFrame, key: Sequence[str], data: Sequence[str]
) -> DataFrame:
    """Return the changes that have the same position as the stored row of their key and other
    content.

    Columns: the key, `_position`, MINE (content hash of the change) and _THEIRS (of the stored
    row).
    """
    mine = resolved.where(F.col(STATUS) == EQUAL).select(
        *by_name(key), names.POSITION, content_hash(resolved, data).alias(MINE)
    )
    # A column that this batch adds is not in the base; hashes ignore its NULL.
    stored = [c for c in data if c in rows.columns]
    theirs = rows.select(*by_name(key), content_hash(rows, stored).alias(_THEIRS))
    return mine.join(theirs, list(key)).where(F.col(MINE) != F.col(_THEIRS))


def count_newer(folded: DataFrame, key: Sequence[str]) -> tuple[int, int, KeyEnds]:
    """Return the number of counted records, that of keys whose newest record is counted, and how
    the keys end."""
    sums = folded.agg(
        F.sum(RECORDS).alias("read"),
        F.count_if(F.col(names.COUNTED)).alias("applied"),
        *_ends(folded, key),
    ).first()
    if sums is None:
        return 0, 0, KeyEnds(0, 0)
    return sums["read"] or 0, sums["applied"], _key_ends(sums, folded, key)


def count_ends(applied: DataFrame, key: Sequence[str]) -> KeyEnds:
    """Return how the keys of a batch end, regardless of the stored state."""
    found = applied.agg(*_ends(applied, key)).first()
    return KeyEnds(0, 0) if found is None else _key_ends(found, applied, key)


def _ends(rows: DataFrame, key: Sequence[str]) -> list[Column]:
    deleted = is_delete()
    counts = [F.count_if(~deleted).alias("rows"), F.count_if(deleted).alias("deletes")]
    return counts + extremes(rows, key)


def _key_ends(found: Row, rows: DataFrame, key: Sequence[str]) -> KeyEnds:
    return KeyEnds(found["rows"], found["deletes"], key_ranges(found, rows, key))


def tally_newer(
    read: int, applied: int, changes: DataFrame, key: Sequence[str], data: Sequence[str]
) -> Tally:
    """Return the outcomes of a batch whose changes are all above everything stored, so that
    none is late."""
    distinct, conflicts = applied, 0
    if read != applied:
        distinct, conflicts = count_distinct(changes, key, data, read)
    counts = Counts(
        read=read, applied=applied, superseded=distinct - applied, duplicate=read - distinct
    )
    return Tally(counts, conflicts=Conflicts(conflicts))


def tally(resolved: DataFrame) -> Tally:
    """Return the counted records of the folded keys, each under exactly one outcome."""
    won = F.when(F.col(names.COUNTED), F.lit(1)).otherwise(F.lit(0))
    distinct, records, status = F.col(DISTINCT), F.col(RECORDS), F.col(STATUS)
    sums = resolved.agg(
        F.sum(records).alias("read"),
        F.sum(F.when(status == APPLY, won)).alias("applied"),
        F.sum(F.when(status == APPLY, distinct - won)).alias("superseded"),
        F.sum(records - distinct + F.when(status == EQUAL, won).otherwise(F.lit(0))).alias(
            "duplicate"
        ),
        F.sum(F.when(status == LATE, distinct).when(status == EQUAL, distinct - won)).alias("late"),
        F.sum(F.when(F.col(CONTRADICTS), distinct)).alias(CONTRADICTS),
        F.sum(CONFLICTS).alias(CONFLICTS),
    ).first()
    if sums is None:
        return Tally(Counts())
    found = {name: int(value or 0) for name, value in sums.asDict().items()}
    contradicting, conflicts = found.pop(CONTRADICTS), found.pop(CONFLICTS)
    return Tally(Counts(**found), contradicting, Conflicts(conflicts))
