"""Helpers of all decoders: exact reading of JSON lines, and the envelope's columns in order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.manifest import SourceFile
from spark_jobs.canonical import (
    ALL_BUT,
    ENVELOPE,
    IMAGE_TYPE,
    OUTCOME_EVENT,
    OUTCOME_IGNORE,
    OUTCOME_REJECT,
)
from spark_jobs.position_text import number
from spark_jobs.record_places import place

CORRUPT: Final = "_corrupt_record"
ZERO: Final = "010"
DIGITS: Final = r"\d{1,99}"  # as many as a position's component may have
LAST_SECOND: Final = 253_402_300_799  # of the year 9999, where calendars end
LAST_MILLISECOND: Final = LAST_SECOND * 1000 + 999
FIRST_MILLISECOND: Final = -62_135_596_800_000  # of the year 1
WHOLE_TEXTS: Final = {
    "maxStringLen": str(2**31 - 1), "maxNumLen": str(2**31 - 1), "allowSingleQuotes": "false",
}  # fmt: skip
"""Options for every JSON reader: Spark's defaults reject texts beyond 20 million characters or 1000
digits, and read single-quoted text, which is not JSON."""
_DATE: Final = r"^\s*[+-]?\d{4,}-\d"
_MOMENT: Final = r"^\s*\d{4}-\d\d?-\d\d?[T ]\d"
_ARRAYS: Final = frozenset(("key", "absent"))


def as_texts(line: Column) -> Column:
    """Return an object's names and the texts of its values, as the reader takes it; NULL for any
    other text. Quicker functions fail on NaN and on numbers of 1,001 digits."""
    return F.from_json(line, IMAGE_TYPE, WHOLE_TEXTS)


def names_in(line: Column) -> Column:
    """Return the names in an object; NULL for any other text."""
    return F.coalesce(F.json_object_keys(line), F.map_keys(as_texts(line)))


def read_lines(spark: SparkSession, files: tuple[SourceFile, ...], schema: str) -> DataFrame:
    """Read JSON lines with `schema`, their place and, for lines that do not fit, their raw text.

    Unlike `from_json`, the file reader keeps the exact text of numbers and nested values in string
    fields.
    """
    reader = json_reader(spark, f"{schema}, {CORRUPT} string")
    return reader.json([f.url for f in files]).select("*", *place())


def json_reader(
    spark: SparkSession, schema: str | T.StructType, corrupt: str = CORRUPT
) -> DataFrameReader:
    """Return a reader of JSON lines as they are: numbers and long texts exactly, and a line that
    does not fit as text in the column `corrupt` of the schema."""
    reader = spark.read.schema(schema).option("columnNameOfCorruptRecord", corrupt)
    return reader.options(**WHOLE_TEXTS)


def looked_up(text: Column, meanings: Mapping[str, str]) -> Column:
    """The meaning of a text of the source; NULL for a text that is not in `meanings`."""
    entries = F.create_map(*(F.lit(text) for pair in meanings.items() for text in pair))
    return F.try_element_at(entries, text)


def repeats(names: Column) -> Column:
    """Whether a list holds a name twice."""
    return F.size(names) != F.size(F.array_distinct(names))


def repeats_column(image: Column) -> Column:
    """Whether an image names a column twice, so that its value is ambiguous."""
    return repeats(F.map_keys(image))


def any_repeats_column(*images: Column) -> Column:
    """Whether any of these images names a column twice; a missing image does not.

    The search is costly, so images with the names of the first one are skipped.
    """
    names, *others = map(F.map_keys, images)
    unlike = (F.when(F.equal_null(names, other), None).otherwise(other) for other in others)
    return reduce(or_, (F.coalesce(repeats(each), F.lit(False)) for each in (names, *unlike)))


def is_empty_image(image: Column) -> Column:
    """Whether an image is missing or has no columns; never NULL."""
    return F.coalesce(F.size(image) <= 0, F.lit(True))


def carried_key(named: Column, carried: Column) -> Column:
    """The key columns that a record names; NULL if it names none or its row lacks one.

    Names match in any case.
    """
    # Most keys have one column, for which Spark need not build a set.
    alone = F.when(F.size(named) == 1, named)
    single = F.array_contains(carried, F.get(alone, F.lit(0)))
    whole = F.coalesce(single, F.size(F.array_except(named, carried)) == 0)
    folded = (F.transform(names, F.lower) for names in (named, carried))
    alike = F.size(F.array_except(*folded)) == 0
    distinct = F.coalesce(alone, F.array_distinct(named))
    return F.when((F.size(named) > 0) & (whole | alike), distinct)


def spelled_as(names: Column, carried: Column) -> Column:
    """Names of columns in the row's spelling; names that the row lacks stay."""

    def as_carried(name: Column) -> Column:
        alike = F.filter(carried, lambda other: F.lower(other) == F.lower(name))
        exact = F.array_contains(carried, name)
        return F.when(exact, name).otherwise(F.coalesce(F.get(alike, F.lit(0)), name))

    same = F.size(F.array_except(names, carried)) == 0
    return F.when(same, names).otherwise(F.transform(names, as_carried))


def lacking(names: Column, carried: Column) -> Column:
    """The `names` that are not carried in any case; NULL for none."""
    lacking, folded = F.array_except(names, carried), F.transform(carried, F.lower)
    # An empty name would read as ALL_BUT.
    absent = F.filter(
        lacking, lambda name: ~F.array_contains(folded, F.lower(name)) & (name != ALL_BUT)
    )
    return F.when(F.size(lacking) > 0, F.when(F.size(absent) > 0, absent))


def name_of(row: Column, configured: str) -> Column:
    """The row's spelling of a configured column name.

    NULL if the row has no such column, or several that differ in case alone.
    """
    names = F.map_keys(row)
    alike = F.filter(names, lambda name: F.lower(name) == configured.lower())
    exact = F.array_contains(names, configured)
    return F.when(exact, F.lit(configured)).when(F.size(alike) == 1, F.get(alike, F.lit(0)))


def column_of(row: Column, configured: str) -> Column:
    """The value of a configured column; NULL if `name_of` is NULL."""
    return F.try_element_at(row, name_of(row, configured))


def with_numbers(records: DataFrame, texts: Mapping[str, Column]) -> DataFrame:
    """Add the `number` of each text under its name.

    In two steps: `number` uses its text several times, and Spark would compute it each time.
    """
    named = records.select("*", *(text.alias(name) for name, text in texts.items()))
    return named.withColumns({name: number(F.col(name)) for name in texts})


def number_or_zero(text: Column) -> Column:
    """A component of a position; a missing one is zero and sorts first."""
    return or_zero(number(text))


def or_zero(number: str | Column) -> Column:
    """A number of `with_numbers`; zero where it is missing."""
    return F.coalesce(number, F.lit(ZERO))


def instant(millis: Column) -> Column:
    """The time of an event; NULL outside of the calendar's years, for which Spark may fail."""
    return F.when(millis.between(FIRST_MILLISECOND, LAST_MILLISECOND), F.timestamp_millis(millis))


def instant_of_micros(micros: Column) -> Column:
    """The time of an event in microseconds; see `instant`."""
    first, last = FIRST_MILLISECOND * 1000, LAST_MILLISECOND * 1000 + 999
    return F.when(micros.between(first, last), F.timestamp_micros(micros))


def dated(text: Column) -> Column:
    """A text that begins with a date; NULL for any other, as a time of day alone, which Spark would
    take as one of the day on which it is read."""
    return F.when(text.rlike(_DATE), text)


def instant_of_text(text: Column) -> Column:
    """The time of an event as date and time in ISO 8601; NULL for a time of day alone."""
    whole = F.when(text.rlike(_MOMENT), text)
    return instant_of_micros(F.unix_micros(whole.try_cast("timestamp")))


def outcome(ignored: Column, reason: Column) -> Column:
    """The outcome: `ignore` where `ignored`, `reject` where there is a reason, else `event`."""
    return (
        F.when(ignored, F.lit(OUTCOME_IGNORE))
        .when(reason.isNotNull(), F.lit(OUTCOME_REJECT))
        .otherwise(F.lit(OUTCOME_EVENT))
    )


def line_or(*fields: str | Column) -> Column:
    """The raw line where it could not be read, else the record's fields as JSON."""
    return F.coalesce(F.col(CORRUPT), F.to_json(F.struct(*fields)))


def select_envelope(df: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """Select the envelope: from `columns`, else the column of `df`, else NULL.

    `columns` may have more: `absent` of a format with partial rows, `transaction` and `ends`.
    """
    chosen = dict.fromkeys(ENVELOPE) | columns
    return df.select(
        *(_existing(df, name) if c is None else c.alias(name) for name, c in chosen.items())
    )


def _existing(df: DataFrame, name: str) -> Column:
    if name in df.columns:
        return F.col(name)
    return F.lit(None).cast("array<string>" if name in _ARRAYS else "string").alias(name)
