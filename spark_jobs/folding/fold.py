"""fold: the changes of a batch → one row a key, by aggregation, without a sort.

The newest by (`_position`, content hash) wins: the hash settles equal positions with different
content the same way in every order of arrival.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, FloatType, IntegralType

from sluice import names
from spark_jobs.canonical import ALL_BUT, by_name, is_delete, literal, quoted
from spark_jobs.folding.places import places

RECORDS: Final = "_sluice_records"
DISTINCT: Final = "_sluice_distinct"
CONFLICTS: Final = "_sluice_conflicts"
WINNER: Final = "_sluice_winner"
_HASH: Final = "_sluice_hash"
_TOLD: Final = "_sluice_told"
_CONTENT: Final = "_sluice_content"
_AT: Final = "_sluice_at"
_PLACE: Final = "_sluice_place"
_DELETED: Final = "_sluice_deleted"
_RENEWED: Final = "_sluice_renewed"
_ENDED: Final = "_sluice_ended"


def content_hash(frame: DataFrame, columns: Sequence[str]) -> Column:
    """A hash that a NULL column, a wider type or another order of the columns leaves alone.

    Each value goes in with its column's name, or a value would weigh the same in any column.
    """
    types = {f.name: f.dataType for f in frame.schema}
    named = ((F.col(quoted(c)), zlib.crc32(c.encode()), types[c]) for c in sorted(columns))
    return F.xxhash64(
        *chain.from_iterable(
            (F.when(value.isNotNull(), F.lit(name)), _canonical(value, kind))
            for value, name, kind in named
        )
    )


def _canonical(column: Column, kind: DataType) -> Column:
    if isinstance(kind, IntegralType):
        return column.cast("bigint")
    if isinstance(kind, FloatType):
        return column.cast("double")
    if isinstance(kind, DecimalType):
        return column.cast("string")
    return column


def fold(changes: DataFrame, batch_id: str, key: Sequence[str], data: Sequence[str]) -> DataFrame:
    """One row a key of a batch: its winning change and RECORDS, the number of counted ones."""
    return _fold(changes, batch_id, key, data, [])


def fold_counting(
    changes: DataFrame, batch_id: str, key: Sequence[str], data: Sequence[str]
) -> DataFrame:
    """The same with DISTINCT, the number of different events, and CONFLICTS, of how many of them
    another content stands at their position; it costs about as much again."""
    told = F.collect_set(F.when(F.col(names.COUNTED), F.struct(*_told(changes, data, []))))
    # Of numbers, for Spark compares structs each with each.
    contents = F.array_distinct(F.transform(told, lambda t: F.xxhash64(t[_AT], t[_CONTENT])))
    places = F.array_distinct(F.transform(told, lambda t: t[_AT]))
    conflicts = F.size(contents) - F.size(places)
    more = [F.size(told).alias(DISTINCT), conflicts.alias(CONFLICTS)]
    return _fold(changes, batch_id, key, data, more)


def count_distinct(
    changes: DataFrame, key: Sequence[str], data: Sequence[str], read: int
) -> tuple[int, int]:
    """Of `read` counted events DISTINCT and CONFLICTS, of all keys.

    Where no position repeats none is twice there, and nothing else has to be looked at.
    """
    counted = changes.where(F.col(names.COUNTED))
    places = counted.select(F.xxhash64(names.POSITION)).distinct().count()
    if places == read:
        return read, 0
    told = counted.select(*_told(changes, data, key)).distinct()
    contents = told.groupBy(_AT, _CONTENT).agg(F.count("*").alias(_TOLD))
    conflicts = F.count("*") - F.count_distinct(_AT)
    sums = contents.agg(F.sum(_TOLD).alias(DISTINCT), conflicts.alias(CONFLICTS)).first()
    return (0, 0) if sums is None else (sums[DISTINCT] or 0, sums[CONFLICTS])


def _fold(
    changes: DataFrame,
    batch_id: str,
    key: Sequence[str],
    data: Sequence[str],
    more: list[Column],
) -> DataFrame:
    """The greatest (position, hash, change): whatever ties is alike in all that is kept."""
    keys, kept = by_name(key), _kept(data, key)
    order = (F.col(names.POSITION), content_hash(changes, data).alias(_HASH))
    winner = F.max(F.struct(*order, *by_name(kept))).alias(WINNER)
    folded = changes.groupBy(*keys).agg(
        winner, F.count_if(F.col(names.COUNTED)).alias(RECORDS), *more
    )
    won = [F.col(WINNER)[c].alias(c) for c in (names.POSITION, *kept)]
    counts = [c for c in folded.columns if c in (RECORDS, DISTINCT, CONFLICTS)]
    return folded.select(*keys, *won, F.lit(batch_id).alias(names.BATCH_ID), *counts)


def event_hash(changes: DataFrame, data: Sequence[str]) -> Column:
    """What tells an event from others at its position: its op, and what it says of the row."""
    return F.xxhash64(content_hash(changes, data), F.col(names.OP))


def _told(changes: DataFrame, data: Sequence[str], key: Sequence[str]) -> list[Column]:
    """What tells an event from others: its position, in that of its key, what it says of the row,
    and its op."""
    return [
        F.xxhash64(names.POSITION, *by_name(key)).alias(_AT),
        content_hash(changes, data).alias(_CONTENT),
        F.col(names.OP),
    ]


def _kept(data: Sequence[str], key: Sequence[str]) -> list[str]:
    return [c for c in (names.OP, names.SOURCE_TS, names.COUNTED, *data) if c not in key]


def fold_columns(changes: DataFrame, key: Sequence[str], data: Sequence[str]) -> DataFrame:
    """Fold keys that have partial rows, column by column, from everything known of them.

    A column holds the newest value that some event since the key's last delete carried.
    """
    keys = by_name(key)
    position, ended = F.col(names.POSITION), F.col(_ENDED)
    changed = ~is_delete() & (ended.isNull() | (position > ended))
    alive = changes.join(_ends(changes, keys), list(key)).where(changed | (position == ended))
    values = [c for c in data if c not in key]
    order = F.struct(F.col(names.POSITION), content_hash(changes, data))
    picked = [_newest_carried(c, order) for c in values]
    newest = F.max_by(F.struct(names.OP, *names.TARGET_METADATA, names.COUNTED), order)
    folded = alive.groupBy(*keys).agg(*picked, newest.alias(WINNER))
    metadata = (names.OP, *names.TARGET_METADATA, names.COUNTED)
    return folded.select(*keys, *by_name(values), *(F.col(WINNER)[c].alias(c) for c in metadata))


def _ends(changes: DataFrame, keys: list[Column]) -> DataFrame:
    """Where each key's row was last deleted: _ENDED, NULL where it never was.

    An update in two records begins with a delete of its old half; where the new half has the
    same key nothing was deleted, and the columns that it does not carry live on.
    """
    deleted = is_delete()
    spread = changes.withColumn(_PLACE, F.explode(places()))
    halves = spread.groupBy(*keys, _PLACE).agg(
        F.max(F.when(deleted, F.col(names.POSITION))).alias(_DELETED),
        F.count_if(~deleted).alias(_RENEWED),
    )
    last = F.max(F.when(F.col(_RENEWED) == 0, F.col(_DELETED)))
    return halves.groupBy(*keys).agg(last.alias(_ENDED))


def carried(column: str) -> Column:
    """True where a change carries a value of the column, NULL values among them.

    Of the columns that it does not list, one that lists what it carries has nothing but the default
    of one that came later, which the row holds since, as it would by a change that is whole.
    """
    all_but = F.array_contains(names.ABSENT, F.lit(ALL_BUT))
    default = F.coalesce(all_but & F.col(quoted(column)).isNotNull(), F.lit(False))
    return F.expr(listed_as_carried(column)) | default


def listed_as_carried(column: str, row: str = "") -> str:
    """In SQL whether an event says itself that it carries the column; `row` stands before its
    columns."""
    absent = f"{row}{names.ABSENT}"
    listed = f"array_contains({absent}, {literal(column)})"
    all_but = f"array_contains({absent}, {literal(ALL_BUT)})"
    return f"coalesce(CASE WHEN {all_but} THEN {listed} ELSE NOT {listed} END, true)"


def listed(columns: Sequence[str]) -> Column:
    """What a change does not carry of the columns, each by its name; NULL where it is whole."""
    left_out = F.filter(
        F.array(*(F.when(~carried(c), F.lit(c)) for c in columns)), lambda name: name.isNotNull()
    )
    return F.when(F.array_contains(names.ABSENT, F.lit(ALL_BUT)), left_out).otherwise(
        F.col(names.ABSENT)
    )


def _newest_carried(column: str, order: Column) -> Column:
    value = F.max_by(F.struct(F.col(quoted(column)).alias("v")), F.when(carried(column), order))
    return value["v"].alias(column)
