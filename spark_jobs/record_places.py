"""The place of a record: its file, and where it is in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import SourceFile

PLACE: Final = ("file", "block", "ordinal")
PLACED: Final = tuple(f"_sluice_{name}" for name in PLACE)
"""PLACE in a frame with source columns, which may have those names."""


def place() -> tuple[Column, Column, Column]:
    """Return a record's place in its file: file (in Spark's spelling), block and ordinal.

    The reader's `_metadata` has the same, but costs one more copy of every row.
    """
    return (
        F.input_file_name().alias("file"),
        F.call_function("input_file_block_start").alias("block"),
        F.expr(f"monotonically_increasing_id() & {(1 << 33) - 1}L").alias("ordinal"),
    )


def as_place() -> list[Column]:
    """Rename PLACED to PLACE, in a frame without source columns."""
    return [F.col(name).alias(own) for own, name in zip(PLACE, PLACED, strict=True)]


def text_lines(spark: SparkSession, files: Iterable[SourceFile]) -> DataFrame:
    """Return the lines of text files that the JSON reader takes as records, as `value`, with their
    place; it skips lines of white space before it counts, and splits files in the same way."""
    lines = spark.read.text([f.url for f in files])
    return lines.where(F.col("value").rlike(r"[^ \t\r\n]")).select("value", *place())


def as_landed(file: Column) -> Column:
    """Return a file's URL in the manifest's spelling: Spark escapes blanks and drops slashes."""
    local = file.startswith("file:/") & ~file.startswith("file:///")
    slashed = F.when(local, F.concat(F.lit("file://"), F.substring(file, 6, 1 << 20)))
    whole = F.coalesce(slashed, file)
    unescaped = F.url_decode(F.replace(whole, F.lit("+"), F.lit("%2B")))
    return F.when(file.contains("%"), unescaped).otherwise(whole)
