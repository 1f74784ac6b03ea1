"""fold: reduce the changes of a batch to one row a key, by aggregation, without a sort.

The newest by (`_position`, content hash) wins; the hash decides between different contents at one
position, whatever the order of arrival.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, FloatType, IntegralType

from sluice import names
from spark_jobs.canonical import ALL_BUT, lists_carried
from spark_jobs.folding.half_matching import ENDED, ends_by_place
from spark_jobs.quoting import by_name, literal, quoted
from spark_jobs.row_conditions import is_delete

RECORDS: Final = "_sluice_records"
DISTINCT: Final = "_sluice_distinct"
CONFLICTS: Final = "_sluice_conflicts"
_WINNER: Final = "_sluice_winner"
_HASH: Final = "_sluice_hash"
_OCCURRENCES: Final = "_sluice_occurrences"
_CONTENT: Final = "_sluice_content"
_AT: Final = "_sluice_at"


def content_hash(frame: DataFrame, columns: Sequence[str]) -> Column:
    """Return a hash of a row that does not depend on NULL columns, widened types or the order of
    columns.

    Each value is hashed with its column's name, so that swapped values differ.
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
    """Return one row a key of a batch: the winning change, and RECORDS, the counted changes."""
    return _fold(changes, batch_id, key, data, {})


def fold_counting(
    changes: DataFrame, batch_id: str, key: Sequence[str], data: Sequence[str]
) -> DataFrame:
    """Return `fold` with two more columns: DISTINCT, the number of different events, and
    CONFLICTS, how many of these share a position with an event of other content. It costs about
    twice as much."""
    events = F.collect_set(F.when(F.col(names.COUNTED), F.struct(*_identity(changes, data, []))))
    # Hashes, because Spark compares structs pairwise.
    contents = F.array_distinct(F.transform(events, lambda t: F.xxhash64(t[_AT], t[_CONTENT])))
    places = F.array_distinct(F.transform(events, lambda t: t[_AT]))
    conflicts = F.size(contents) - F.size(places)
    counts = {DISTINCT: F.size(events), CONFLICTS: conflicts}
    return _fold(changes, batch_id, key, data, counts)


def count_distinct(
    changes: DataFrame, key: Sequence[str], data: Sequence[str], read: int
) -> tuple[int, int]:
    """Return DISTINCT and CONFLICTS over all keys, for `read` counted events.

    If no position repeats, no event does, and nothing else is computed.
    """
    counted = changes.where(F.col(names.COUNTED))
    places = counted.select(F.xxhash64(names.POSITION)).distinct().count()
    if places == read:
        return read, 0
    events = counted.select(*_identity(changes, data, key)).distinct()
    contents = events.groupBy(_AT, _CONTENT).agg(F.count("*").alias(_OCCURRENCES))
    conflicts = F.count("*") - F.count_distinct(_AT)
    sums = contents.agg(F.sum(_OCCURRENCES).alias(DISTINCT), conflicts.alias(CONFLICTS)).first()
    return (0, 0) if sums is None else (sums[DISTINCT] or 0, sums[CONFLICTS])


def _fold(
    changes: DataFrame,
    batch_id: str,
    key: Sequence[str],
    data: Sequence[str],
    more: Mapping[str, Column],
) -> DataFrame:
    """Fold to the greatest (position, hash, change): events that tie are equal in
    every kept column. `more`: counts beside RECORDS."""
    keys, kept = by_name(key), _kept(data, key)
    order = (F.col(names.POSITION), content_hash(changes, data).alias(_HASH))
    winner = F.max(F.struct(*order, *by_name(kept))).alias(_WINNER)
    counts = {RECORDS: F.count_if(F.col(names.COUNTED)), **more}
    folded = changes.groupBy(*keys).agg(winner, *(c.alias(name) for name, c in counts.items()))
    won = [F.col(_WINNER)[c].alias(c) for c in (names.POSITION, *kept)]
    return folded.select(*keys, *won, F.lit(batch_id).alias(names.BATCH_ID), *counts)


def event_hash(changes: DataFrame, data: Sequence[str]) -> Column:
    """Return what distinguishes an event from others at its position: a hash of
    operation and content."""
    return F.xxhash64(content_hash(changes, data), F.col(names.OP))


def _identity(changes: DataFrame, data: Sequence[str], key: Sequence[str]) -> list[Column]:
    """Return the identity of an event: position with key, content and op."""
    return [
        F.xxhash64(names.POSITION, *by_name(key)).alias(_AT),
        content_hash(changes, data).alias(_CONTENT),
        F.col(names.OP),
    ]


def _kept(data: Sequence[str], key: Sequence[str]) -> list[str]:
    return [c for c in (names.OP, names.SOURCE_TS, names.COUNTED, *data) if c not in key]


def fold_columns(changes: DataFrame, key: Sequence[str], data: Sequence[str]) -> DataFrame:
    """Fold keys with partial changes column by column, from all known changes.

    A column takes the newest value carried by an event since the key's last delete.
    """
    keys = by_name(key)
    position, ended = F.col(names.POSITION), F.col(ENDED)
    changed = ~is_delete() & (ended.isNull() | (position > ended))
    alive = changes.join(_ends(changes, keys), list(key)).where(changed | (position == ended))
    values = [c for c in data if c not in key]
    order = F.struct(F.col(names.POSITION), content_hash(changes, data))
    picked = [newest_carried(c, order)["v"].alias(c) for c in values]
    metadata = (names.OP, *names.TARGET_METADATA, names.COUNTED)
    newest = F.max_by(F.struct(*metadata), order)
    folded = alive.groupBy(*keys).agg(*picked, newest.alias(_WINNER))
    return folded.select(*keys, *by_name(values), *(F.col(_WINNER)[c].alias(c) for c in metadata))


def _ends(changes: DataFrame, keys: list[Column]) -> DataFrame:
    """Return the position of each key's last delete, ENDED; NULL for none.

    The old half of an update that keeps the key is none: columns that the new half does not carry
    keep their values.
    """
    return ends_by_place(changes, keys).groupBy(*keys).agg(F.max(ENDED).alias(ENDED))


def carried(column: str) -> Column:
    """Whether a change sets the column, NULL included.

    True for complete changes and for the columns that a partial change names. A change that lists
    its carried columns also sets one that was added later and has a default: the default is filled
    in already, as in a complete change.
    """
    listed = lists_carried(F.col(names.ABSENT))
    default = F.coalesce(listed & F.col(quoted(column)).isNotNull(), F.lit(False))
    return F.expr(listed_as_carried(column)) | default


def listed_as_carried(column: str, row: str = "") -> str:
    """Return SQL for whether `_absent` says that an event carries the column; `row`: an
    alias with a dot."""
    absent = f"{row}{names.ABSENT}"
    named = f"array_contains({absent}, {literal(column)})"
    carried_listed = f"array_contains({absent}, {literal(ALL_BUT)})"
    return f"coalesce(CASE WHEN {carried_listed} THEN {named} ELSE NOT {named} END, true)"


def listed(columns: Sequence[str]) -> Column:
    """Return the names of the columns that a change does not carry; NULL for a complete change."""
    left_out = F.filter(
        F.array(*(F.when(~carried(c), F.lit(c)) for c in columns)), lambda name: name.isNotNull()
    )
    absent = F.col(names.ABSENT)
    return F.when(lists_carried(absent), left_out).otherwise(absent)


def boxed(value: Column) -> Column:
    """Return a value in a struct of `v`: aggregates skip NULL, which is a value where a change
    carries it."""
    return F.struct(value.alias("v"))


def newest_carried(column: str, order: Column) -> Column:
    """Return, `boxed`, what the greatest change in an order that carries the column has there;
    NULL if none carries it."""
    return F.max_by(boxed(F.col(quoted(column))), F.when(carried(column), order))
