"""The range of a batch's keys: a MERGE need not read files whose keys lie outside of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    TimestampNTZType,
    TimestampType,
)

from spark_jobs.quoting import literal, quoted

# Types that Spark, Iceberg's bounds and Parquet's statistics order alike, and whose text is exact.
# Not floating-point numbers (NaN, -0.0), and not texts, which need not be valid UTF-8.
_ORDERED: Final = (IntegralType, DecimalType, DateType, TimestampType, TimestampNTZType)
_LEAST, _GREATEST = "_sluice_least", "_sluice_greatest"


@dataclass(frozen=True)
class KeyRange:
    """The least and the greatest value of a key column, as SQL."""

    column: str
    least: str
    greatest: str

    def sql(self, alias: str) -> str:
        """Return the condition that a row's key is in the range; NULL is not."""
        return f"{alias}.{quoted(self.column)} BETWEEN {self.least} AND {self.greatest}"


def extremes(rows: DataFrame, key: Sequence[str]) -> list[Column]:
    """Return the aggregates of the rows from which `key_ranges` makes the ranges."""
    return [
        made(quoted(column)).cast("string").alias(f"{name}_{column}")
        for column in _ordered(rows, key)
        for made, name in ((F.min, _LEAST), (F.max, _GREATEST))
    ]


def key_ranges(found: Row, rows: DataFrame, key: Sequence[str]) -> tuple[KeyRange, ...]:
    """Return the ranges of the key columns, from a row with their `extremes`.

    A column without values, or of a type that is not safely ordered, has none.
    """
    texts = ((c, kind, found[f"{_LEAST}_{c}"], found[f"{_GREATEST}_{c}"])
             for c, kind in _ordered(rows, key).items())  # fmt: skip
    return tuple(
        KeyRange(column, _cast(least, kind), _cast(greatest, kind))
        for column, kind, least, greatest in texts
        if least is not None
    )


def _ordered(rows: DataFrame, key: Sequence[str]) -> dict[str, DataType]:
    types = {f.name: f.dataType for f in rows.schema}
    return {c: types[c] for c in key if isinstance(types[c], _ORDERED)}


def _cast(text: str, kind: DataType) -> str:
    return f"CAST({literal(text)} AS {kind.simpleString()})"
