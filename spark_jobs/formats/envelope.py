"""What decoders share: reading JSON lines exactly, and giving the envelope's columns in order."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import SourceFile
from spark_jobs.canonical import (
    ENVELOPE,
    OUTCOME_EVENT,
    OUTCOME_IGNORE,
    OUTCOME_REJECT,
    number,
    place,
)

CORRUPT: Final = "_corrupt_record"
ZERO: Final = "010"
_PARTIAL: Final = frozenset(("absent",))
_ARRAYS: Final = _PARTIAL | {"key"}


def read_lines(spark: SparkSession, files: tuple[SourceFile, ...], schema: str) -> DataFrame:
    """Read JSON lines with `schema`, the place of each and, where it does not fit, its raw text.

    The file reader keeps the exact text of numbers and nested values in string fields, which
    `from_json` does not.
    """
    reader = spark.read.schema(f"{schema}, {CORRUPT} string")
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    return reader.json([f.url for f in files]).select("*", *place())


def repeats_column(image: Column) -> Column:
    """Whether an image names a column twice; nobody can say which value is meant."""
    names = F.map_keys(image)
    return F.size(names) != F.size(F.array_distinct(names))


def number_or_zero(text: Column) -> Column:
    """A component that some events lack: absent sorts first."""
    return F.coalesce(number(text), F.lit(ZERO))


def outcome(ignored: Column, reason: Column) -> Column:
    """`ignore` where `ignored`, `reject` where there is a reason, else `event`."""
    return (
        F.when(ignored, F.lit(OUTCOME_IGNORE))
        .when(reason.isNotNull(), F.lit(OUTCOME_REJECT))
        .otherwise(F.lit(OUTCOME_EVENT))
    )


def select_envelope(df: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """Select the envelope; what `columns` does not give is a column of `df` or NULL.

    `absent` comes with it where `columns` has it: for formats with partial rows.
    """
    given = {name: columns.get(name) for name in (*ENVELOPE, *(_PARTIAL & columns.keys()))}
    return df.select(
        *(_given(df, name) if c is None else c.alias(name) for name, c in given.items())
    )


def _given(df: DataFrame, name: str) -> Column:
    if name in df.columns:
        return F.col(name)
    return F.lit(None).cast("array<string>" if name in _ARRAYS else "string").alias(name)
