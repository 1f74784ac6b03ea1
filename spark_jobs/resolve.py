"""Folded keys against what is stored: which apply, which are late, which are there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.result import Counts
from spark_jobs.canonical import OP_DELETE, quoted
from spark_jobs.fold import DISTINCT, RECORDS, content_hash, count_distinct

STATUS: Final = "_status"
APPLY: Final = "apply"
EQUAL: Final = "equal"
LATE: Final = "late"
ROW_AT: Final = "_row_at"
TOMBSTONE_AT: Final = "_tombstone_at"


@dataclass(frozen=True)
class Stored:
    """What the branch's base holds; None where a table has no rows yet."""

    rows: DataFrame | None
    tombstones: DataFrame | None
    truncated_at: str | None


def resolve(folded: DataFrame, stored: Stored, key: Sequence[str]) -> DataFrame:
    """Add `_status`: the newest of row, tombstone and truncation decides."""
    joined = with_stored(folded, stored, key)
    truncated = F.lit(stored.truncated_at).cast("string")
    newest = F.greatest(ROW_AT, TOMBSTONE_AT, truncated)
    mine = F.col(names.POSITION)
    status = (
        F.when(newest.isNull() | (mine > newest), F.lit(APPLY))
        .when(mine == newest, F.lit(EQUAL))
        .otherwise(F.lit(LATE))
    )
    return joined.withColumn(STATUS, status).drop(ROW_AT, TOMBSTONE_AT)


def with_stored(changes: DataFrame, stored: Stored, key: Sequence[str]) -> DataFrame:
    """Add `_row_at` and `_tombstone_at`: the stored positions of the key, NULL: there is none."""
    at = _positions(stored.rows, key, ROW_AT)
    dead = _positions(stored.tombstones, key, TOMBSTONE_AT)
    return _join(_join(changes, at, key, ROW_AT), dead, key, TOMBSTONE_AT)


def _positions(table: DataFrame | None, key: Sequence[str], name: str) -> DataFrame | None:
    if table is None:
        return None
    return table.select(*(F.col(quoted(k)) for k in key), F.col(names.POSITION).alias(name))


def _join(left: DataFrame, right: DataFrame | None, key: Sequence[str], name: str) -> DataFrame:
    if right is None:
        return left.withColumn(name, F.lit(None).cast("string"))
    return left.join(right, on=[_on(left, right, k) for k in key], how="left").select(
        *(left[quoted(c)] for c in left.columns), right[name]
    )


def _on(left: DataFrame, right: DataFrame, column: str) -> Column:
    return left[quoted(column)] == right[quoted(column)]


def settle_ties(
    resolved: DataFrame, rows: DataFrame, key: Sequence[str], data: Sequence[str]
) -> DataFrame:
    """Equal position, different content: the higher content hash stays, whichever came first."""
    mine = resolved.where(F.col(STATUS) == EQUAL).select(
        *(F.col(quoted(k)) for k in key), content_hash(resolved, data).alias("_mine")
    )
    # A column that this batch adds is not in the base yet: it would be NULL, which no hash sees.
    stored = [c for c in data if c in rows.columns]
    theirs = rows.select(
        *(F.col(quoted(k)) for k in key), content_hash(rows, stored).alias("_theirs")
    )
    won = (
        mine.join(theirs, list(key))
        .where(F.col("_mine") > F.col("_theirs"))
        .select(*mine.columns[:-1])
    )
    marked = resolved.join(F.broadcast(won.withColumn("_won", F.lit(True))), list(key), "left")
    status = F.when(F.col("_won") & (F.col(names.OP) != OP_DELETE), F.lit(APPLY))
    return marked.withColumn(STATUS, F.coalesce(status, STATUS)).select(
        *(quoted(c) for c in resolved.columns)
    )


def count_newer(folded: DataFrame) -> tuple[int, int]:
    """Counted records, and those that are their key's newest."""
    sums = folded.agg(
        F.sum(RECORDS).alias("read"), F.count_if(F.col(names.COUNTED)).alias("applied")
    ).first()
    return (0, 0) if sums is None else (sums["read"] or 0, sums["applied"])


def tally_newer(read: int, applied: int, changes: DataFrame, data: Sequence[str]) -> Counts:
    """The outcomes where every change is above everything stored: none is late."""
    distinct = applied if read == applied else count_distinct(changes, data, read)
    return Counts(
        read=read, applied=applied, superseded=distinct - applied, duplicate=read - distinct
    )


def tally(resolved: DataFrame) -> Counts:
    """Every counted record of the folded keys under exactly one outcome."""
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
    ).first()
    return (
        Counts() if sums is None else Counts(**{k: int(v or 0) for k, v in sums.asDict().items()})
    )
