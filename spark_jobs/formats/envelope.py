"""What decoders share: reading JSON lines exactly, and giving the envelope's columns in order."""

from __future__ import annotations

from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import SourceFile
from sluice.positions import KIND_ARRIVAL
from spark_jobs.canonical import (
    ALL_BUT,
    ENVELOPE,
    OUTCOME_EVENT,
    OUTCOME_IGNORE,
    OUTCOME_REJECT,
    as_landed,
    number,
    place,
)

CORRUPT: Final = "_corrupt_record"
ARRIVAL: Final = "_arrival"
ZERO: Final = "010"
NAME: Final = r'"[^"]+"|[^".]+'
TABLE_NAME: Final = rf"^({NAME})(\.({NAME})){{0,2}}$"
_ARRAYS: Final = frozenset(("key", "absent"))


def read_lines(spark: SparkSession, files: tuple[SourceFile, ...], schema: str) -> DataFrame:
    """Read JSON lines with `schema`, the place of each and, where it does not fit, its raw text.

    The file reader keeps the exact text of numbers and nested values in string fields, which
    `from_json` does not.
    """
    reader = spark.read.schema(f"{schema}, {CORRUPT} string")
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    return reader.json([f.url for f in files]).select("*", *place())


def with_arrival(spark: SparkSession, lines: DataFrame, files: tuple[SourceFile, ...]) -> DataFrame:
    """Add each line's place in the order of arrival, as `decode` gives it to what has none."""
    # From Arrow it is a local relation: no job with Python in it.
    rows = [{"_landed": f.url, "_object": f.arrival} for f in files]
    columns = pa.schema([("_landed", pa.string()), ("_object", pa.string())])
    arrivals = spark.createDataFrame(pa.Table.from_pylist(rows, columns))
    landed = as_landed(lines["file"]) == arrivals["_landed"]
    joined = lines.join(F.broadcast(arrivals), landed, "left")
    place_in_file = (number(F.col(name).cast("string")) for name in ("block", "ordinal"))
    arrival = F.concat_ws(".", F.coalesce("_object", "file"), *place_in_file)
    return joined.withColumn(ARRIVAL, arrival).drop("_landed", "_object")


def arrival_position(*components: Column) -> Column:
    """A record's position by its arrival; `components` tell rows of one record apart."""
    return F.concat_ws(".", F.lit(KIND_ARRIVAL), ARRIVAL, *components)


def union(scans: list[DataFrame]) -> DataFrame:
    """All scans as one, with a harmless non-deterministic term that keeps the envelope above them.

    Pushed below the union the envelope would be compiled once a scan: 37 s instead of 6 for 34.
    """
    if len(scans) == 1:
        return scans[0]
    pinned = F.col("ordinal") + F.monotonically_increasing_id().bitwiseAND(F.lit(0))
    return reduce(DataFrame.unionByName, scans).withColumn("ordinal", pinned)


def repeats_column(image: Column) -> Column:
    """Whether an image names a column twice; nobody can say which value is meant."""
    names = F.map_keys(image)
    return F.size(names) != F.size(F.array_distinct(names))


def overlaid(row: Column, values: Column) -> Column:
    """`row` with `values` over it; NULL where one of them is. Neither may name a column twice."""
    left = F.map_filter(row, lambda name, _: ~F.array_contains(F.map_keys(values), name))
    return F.map_concat(left, values)


def absent_but(changed: Column, row: Column) -> Column:
    """`absent` of an update that sends what changed: `row` is that over what is known of before.

    A NULL of the old row may be a value that was not logged: it says nothing of the new one.
    Neither may be called like a column of the envelope: in the select that gives the envelope a
    lambda sees the new column of that name, not the old one.
    """
    names = F.map_keys(changed)
    sent = F.map_filter(row, lambda name, v: v.isNotNull() | F.array_contains(names, name))
    return F.concat(F.array(F.lit(ALL_BUT)), F.map_keys(sent))


def name_part(dotted: Column, number_from_last: int) -> Column:
    """A part of `DATABASE.OWNER.TABLE`, 1 for the last; quotes are not part of a name."""
    parts = F.reverse(F.regexp_extract_all(dotted, F.lit(NAME), F.lit(0)))
    return F.btrim(F.get(parts, F.lit(number_from_last - 1)), F.lit('"'))


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

    `columns` may give `absent` besides, where the format has partial rows.
    """
    given = dict.fromkeys(ENVELOPE) | columns
    return df.select(
        *(_given(df, name) if c is None else c.alias(name) for name, c in given.items())
    )


def _given(df: DataFrame, name: str) -> Column:
    if name in df.columns:
        return F.col(name)
    return F.lit(None).cast("array<string>" if name in _ARRAYS else "string").alias(name)
