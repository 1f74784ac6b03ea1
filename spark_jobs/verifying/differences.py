"""Compare two states of a table: hashes by buckets of the key, then the keys that differ.

Values compare as by SQL's `<=>`: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType

from sluice.verification import BUCKETS, DIFFERS, MISSING, REPEATED, UNEXPECTED
from spark_jobs.expressions import cut
from spark_jobs.quoting import by_name

BUCKET: Final = "bucket"
ROWS: Final = "rows"
HASH: Final = "hash"
_SHOWN_CHARACTERS: Final = 200
KIND: Final = "kind"
KEY: Final = "key"
COLUMNS: Final = "columns"
EXPECTED: Final = "expected"
FOUND: Final = "found"
_VALUES: Final = "values"
_WANTED: Final = "wanted"


@dataclass(frozen=True)
class Layout:
    """The columns that identify a row (`key`), and those whose values are compared."""

    key: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Key and values."""
        return (*self.key, *self.values)


def by_bucket(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return `bucket`, `rows`, `hash`: the row count and summed hash of every bucket of the key."""
    hashed = rows.select(_bucket(layout).alias(BUCKET), _hash(layout.columns).alias(HASH))
    return hashed.groupBy(BUCKET).agg(F.count("*").alias(ROWS), F.sum(HASH).alias(HASH))


def _bucket(layout: Layout) -> Column:
    return F.pmod(F.xxhash64(*by_name(layout.key)), F.lit(BUCKETS)).cast("int")


def _hash(columns: Sequence[str]) -> Column:
    """Hash a whole row; xxhash64 skips NULLs, so their places are hashed too."""
    parts = [part for c in by_name(columns) for part in (c.isNull(), c)]
    return F.xxhash64(*parts).cast("decimal(20,0)")


def differing_keys(
    expected: DataFrame, found: DataFrame, layout: Layout, buckets: Sequence[int]
) -> DataFrame:
    """Return the keys of some buckets whose rows are not the same in both.

    Columns: `kind` (sluice.verification), `key` as a struct, the `columns` that differ, and the
    rows `expected` and `found` as maps of text, NULL if there is none.
    """
    wanted, sides = F.col(_WANTED), (_side(expected, layout, True), _side(found, layout, False))
    some = sides[0].unionByName(sides[1]).where(F.col(BUCKET).isin(list(buckets)))
    grouped = some.groupBy(KEY).agg(
        F.count_if(wanted).alias("rows_wanted"),
        F.count_if(~wanted).alias("rows_found"),
        F.max(F.when(wanted, F.col(_VALUES))).alias(EXPECTED),
        F.max(F.when(~wanted, F.col(_VALUES))).alias(FOUND),
    )
    compared = grouped.withColumn(COLUMNS, _unlike(layout)).withColumn(KIND, _kind())
    types = {f.name: f.dataType for f in expected.schema}
    return compared.where(F.col(KIND).isNotNull()).select(
        KIND,
        KEY,
        F.when(F.col(KIND) == DIFFERS, F.col(COLUMNS)).alias(COLUMNS),
        *(_texts(layout, types, side).alias(side) for side in (EXPECTED, FOUND)),
    )


def _side(rows: DataFrame, layout: Layout, wanted: bool) -> DataFrame:
    """Return key and values as structs, so that no column collides with the report's own."""
    return rows.select(
        _bucket(layout).alias(BUCKET),
        F.struct(*by_name(layout.key)).alias(KEY),
        F.struct(F.lit(True).alias("there"), *by_name(layout.values)).alias(_VALUES),
        F.lit(wanted).alias(_WANTED),
    )


def _kind() -> Column:
    wanted, found = F.col("rows_wanted"), F.col("rows_found")
    return (
        F.when(found == 0, F.lit(MISSING))
        .when(wanted == 0, F.lit(UNEXPECTED))
        .when(found != wanted, F.lit(REPEATED))
        .when(F.size(COLUMNS) > 0, F.lit(DIFFERS))
    )


def _unlike(layout: Layout) -> Column:
    """Return the names of the value columns that differ."""
    each = (
        F.when(~F.col(EXPECTED)[c].eqNullSafe(F.col(FOUND)[c]), F.lit(c)) for c in layout.values
    )
    return F.array_compact(F.array(*each).cast("array<string>"))


def _texts(layout: Layout, types: dict[str, DataType], side: str) -> Column:
    """Return the row of one side as a map of text by column name."""
    values = {c: F.col(KEY)[c] for c in layout.key} | {c: F.col(side)[c] for c in layout.values}
    pairs = [part for c, value in values.items() for part in (F.lit(c), _text(value, types[c]))]
    return F.when(F.col(side).isNotNull(), F.create_map(*pairs))


def _text(value: Column, kind: DataType) -> Column:
    text = F.hex(value) if isinstance(kind, BinaryType) else value.cast("string")
    return cut(text, _SHOWN_CHARACTERS)
