"""What decoders share: reading JSON lines exactly, and giving the envelope's columns in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import NAME
from sluice.manifest import JSON_LINES, SourceFile
from sluice.positions import KIND_ARRIVAL
from spark_jobs.canonical import (
    ALL_BUT,
    ENVELOPE,
    OP_UPDATE,
    OUTCOME_EVENT,
    OUTCOME_IGNORE,
    OUTCOME_REJECT,
    as_landed,
    number,
    place,
)

CORRUPT: Final = "_corrupt_record"
ARRIVAL: Final = "_arrival"
_OBJECT, _LANDED, _FACT = "_object", "_landed", "_fact"
_FEW_FILES: Final = 32
ADDED: Final = (ARRIVAL, _OBJECT, _LANDED)
"""Columns that `with_arrival` adds or needs."""
ZERO: Final = "010"
DIGITS: Final = r"\d{1,99}"  # as many as a position's component may have
LAST_SECOND: Final = 253_402_300_799  # of the year 9999, where calendars end
LAST_MILLISECOND: Final = LAST_SECOND * 1000 + 999
FIRST_MILLISECOND: Final = -62_135_596_800_000  # of the year 1
WHOLE_TEXTS: Final = {
    "maxStringLen": str(2**31 - 1), "maxNumLen": str(2**31 - 1), "allowSingleQuotes": "false",
}  # fmt: skip
"""For all that reads JSON: Spark's own ceilings, of 20 million characters and 1000 digits, would
reject a record; and of a line in quotes that JSON has not it would read the first document."""
_MOMENT: Final = r"^\s*\d{4}-\d\d?-\d\d?[T ]\d"
_NO_TEXT: Final = "\ufffe"
_ARRAYS: Final = frozenset(("key", "absent"))


def read_lines(spark: SparkSession, files: tuple[SourceFile, ...], schema: str) -> DataFrame:
    """Read JSON lines with `schema`, the place of each and, where it does not fit, its raw text.

    The file reader keeps the exact text of numbers and nested values in string fields, which
    `from_json` does not.
    """
    reader = spark.read.schema(f"{schema}, {CORRUPT} string")
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    return reader.options(**WHOLE_TEXTS).json([f.url for f in files]).select("*", *place())


def with_facts(
    spark: SparkSession,
    records: DataFrame,
    files: Sequence[SourceFile],
    tell: Callable[[SourceFile], Mapping[str, Any]],
) -> DataFrame:
    """Add the columns that `tell` gives of the file that a record is in; NULL for another file."""
    told = {f.url: tell(f) for f in files}
    if 0 < len(told) <= _FEW_FILES:
        return _with_few_facts(records, told)
    facts = [{_LANDED: url, **fact} for url, fact in told.items()]
    # From Arrow it is a local relation: no job with Python in it.
    known = spark.createDataFrame(pa.Table.from_pylist(facts))
    landed = as_landed(records["file"]) == known[_LANDED]
    return records.join(F.broadcast(known), landed, "left").drop(_LANDED)


def _with_few_facts(records: DataFrame, told: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    """By a map in the plan: a join is a job of its own, for which the plan is made twice."""
    entries = (
        (F.lit(url), F.struct(*(F.lit(value).alias(name) for name, value in fact.items())))
        for url, fact in told.items()
    )
    known = F.create_map(*chain.from_iterable(entries))
    found = records.withColumn(_FACT, F.try_element_at(known, as_landed(records["file"])))
    names = next(iter(told.values()))
    return found.select("*", *(F.col(_FACT)[name].alias(name) for name in names)).drop(_FACT)


def with_arrival(spark: SparkSession, lines: DataFrame, files: tuple[SourceFile, ...]) -> DataFrame:
    """Add each line's place in the order of arrival, as `decode` gives it to what has none."""
    joined = with_facts(spark, lines, files, lambda file: {_OBJECT: file.arrival})
    place_in_file = (number(F.col(name).cast("string")) for name in ("block", "ordinal"))
    arrival = F.concat_ws(".", F.coalesce(_OBJECT, "file"), *place_in_file)
    return joined.withColumn(ARRIVAL, arrival).drop(_OBJECT)


def arrival_position(*components: Column) -> Column:
    """A record's position by its arrival; `components` tell rows of one record apart."""
    return F.concat_ws(".", F.lit(KIND_ARRIVAL), ARRIVAL, *components)


def union(scans: list[DataFrame]) -> DataFrame:
    """All scans as one, with a column that keeps the envelope above them; see `computed_once`.

    Pushed below the union the envelope would be compiled once a scan: 37 s instead of 6 for 34.
    """
    if len(scans) == 1:
        return scans[0]
    pinned = computed_once(F.col("ordinal"))
    return reduce(DataFrame.unionByName, scans).withColumn("ordinal", pinned)


def only_of(files: Sequence[SourceFile], read: DataFrame, lines: Sequence[SourceFile]) -> DataFrame:
    """The records of some of the `lines` that were read, all of which are read in every scan.

    A record's place counts from where its task begins, which hangs on what else there is to read;
    and quarantine knows the records of all lines by their place.
    """
    if len(files) == len(lines):
        return read
    return read.where(as_landed(F.col("file")).isin([f.url for f in files]))


def computed_once(value: Column) -> Column:
    """`value` with a harmless non-deterministic term, which keeps it in its own projection.

    Else Spark puts it in wherever a later step names a part of it, filters among them.
    """
    return F.when(F.monotonically_increasing_id() >= 0, value)


def by_schema(
    files: tuple[SourceFile, ...],
) -> dict[tuple[str, str], tuple[SourceFile, ...]]:
    """The typed files by (container, schema): what one scan can read."""
    groups: dict[tuple[str, str], list[SourceFile]] = defaultdict(list)
    for file in files:
        if file.container != JSON_LINES:
            groups[file.container, file.avro_schema].append(file)
    return {known: tuple(group) for known, group in sorted(groups.items())}


def looked_up(text: Column, meanings: Mapping[str, str]) -> Column:
    """What a text of the source stands for; NULL where it is none of `meanings`."""
    known = F.create_map(*(F.lit(text) for pair in meanings.items() for text in pair))
    return F.try_element_at(known, text)


def repeats(names: Column) -> Column:
    """Whether a list holds a name twice."""
    return F.size(names) != F.size(F.array_distinct(names))


def repeats_column(image: Column) -> Column:
    """Whether an image names a column twice; nobody can say which value is meant."""
    return repeats(F.map_keys(image))


def any_repeats_column(*images: Column) -> Column:
    """Whether one of these images names a column twice; an image that is not there does not.

    To look for what repeats costs much: images mostly have the same names as the first.
    """
    names, *others = map(F.map_keys, images)
    unlike = (F.when(F.equal_null(names, other), None).otherwise(other) for other in others)
    return reduce(or_, (F.coalesce(repeats(each), F.lit(False)) for each in (names, *unlike)))


def overlaid(row: Column, values: Column) -> Column:
    """`row` with `values` over it; NULL where one of them is. Neither may name a column twice.

    A value may be of a column that the row spells in another case.
    """
    names = F.map_keys(values)
    # Nearly always all values are of names that the row has, and need no closer look.
    alike = F.size(F.array_except(names, F.map_keys(row))) == 0
    folded = F.transform(names, F.lower)
    others = F.map_filter(
        row, lambda n, _: F.array_contains(names, n) | ~F.array_contains(folded, F.lower(n))
    )
    joined = F.map_concat(F.when(alike, row).otherwise(others), values)
    return F.when(names == F.map_keys(row), values).otherwise(joined)


def tells_nothing(image: Column) -> Column:
    """Whether an image is missing or has no columns; never NULL."""
    return F.coalesce(F.size(image) <= 0, F.lit(True))


def with_row(records: DataFrame, old: str, sent: str) -> DataFrame:
    """Add `_row`: what a record sends, in an update over what it tells of the old row.

    By its `op`; `_twice` says whether one of both names a column twice, so that they cannot be
    laid over each other.
    """
    before, after = F.col(old), F.col(sent)
    judged = records.withColumn("_twice", any_repeats_column(before, after))
    both = (F.col("op") == OP_UPDATE) & before.isNotNull() & ~F.col("_twice")
    return judged.withColumn("_row", F.when(both, overlaid(before, after)).otherwise(after))


def absent_but(changed: Column, row: Column) -> Column:
    """`absent` of an update that sends what changed: `row` is that over what is known of before.

    A NULL of the old row may be a value that was not logged: it says nothing of the new one.
    Neither may be called like a column of the envelope: in the select that gives the envelope a
    lambda sees the new column of that name, not the old one.
    """
    names = F.map_keys(changed)
    sent = F.map_filter(row, lambda name, v: v.isNotNull() | F.array_contains(names, name))
    # NULL where there are NULLs and no such text: to ask costs less than to look at each value.
    whole = ~F.coalesce(F.array_contains(F.map_values(row), _NO_TEXT), F.lit(True))
    carried = F.when(whole, F.map_keys(row)).otherwise(F.map_keys(sent))
    return F.concat(F.array(F.lit(ALL_BUT)), carried)


def name_parts(dotted: Column) -> Column:
    """The parts of `DATABASE.OWNER.TABLE`, the last one first; dots in quotes are no separators."""
    quoted_parts = F.regexp_extract_all(dotted, F.lit(NAME), F.lit(0))
    plain_parts = F.split(dotted, r"\.")
    return F.reverse(F.when(dotted.contains('"'), quoted_parts).otherwise(plain_parts))


def table_names(parts: Column) -> dict[str, Column]:
    """The envelope's names out of `name_parts`, which should be a column of a step before.

    Quotes are not part of a name.
    """
    return {
        name: F.btrim(F.get(parts, F.lit(from_last)), F.lit('"'))
        for from_last, name in enumerate(("table", "schema", "database"))
    }


def carried_key(named: Column, carried: Column) -> Column:
    """The key columns that a record names; NULL where it names none or its row lacks one.

    Either may have them in another case.
    """
    # Of one column, which most keys have, Spark need not make a set.
    alone = F.when(F.size(named) == 1, named)
    single = F.array_contains(carried, F.get(alone, F.lit(0)))
    whole = F.coalesce(single, F.size(F.array_except(named, carried)) == 0)
    folded = (F.transform(names, F.lower) for names in (named, carried))
    alike = F.size(F.array_except(*folded)) == 0
    distinct = F.coalesce(alone, F.array_distinct(named))
    return F.when((F.size(named) > 0) & (whole | alike), distinct)


def spelled_as(names: Column, carried: Column) -> Column:
    """Names of columns in the case that a row has them in; those that it has not as they are."""

    def as_carried(name: Column) -> Column:
        alike = F.filter(carried, lambda other: F.lower(other) == F.lower(name))
        exact = F.array_contains(carried, name)
        return F.when(exact, name).otherwise(F.coalesce(F.get(alike, F.lit(0)), name))

    same = F.size(F.array_except(names, carried)) == 0
    return F.when(same, names).otherwise(F.transform(names, as_carried))


def lacking(names: Column, carried: Column) -> Column:
    """Those of `names` that are not carried, NULL for none; a message's rows may differ in case."""
    lacking, folded = F.array_except(names, carried), F.transform(carried, F.lower)
    # A name of nothing would say that all but the listed ones are lacking.
    absent = F.filter(
        lacking, lambda name: ~F.array_contains(folded, F.lower(name)) & (name != ALL_BUT)
    )
    return F.when(F.size(lacking) > 0, F.when(F.size(absent) > 0, absent))


def name_of(row: Column, told: str) -> Column:
    """The name that a row has a column by which a person told, maybe in another case.

    NULL where it has none, or several that differ in case, of which nobody can say which is meant.
    """
    names = F.map_keys(row)
    alike = F.filter(names, lambda name: F.lower(name) == told.lower())
    exact = F.array_contains(names, told)
    return F.when(exact, F.lit(told)).when(F.size(alike) == 1, F.get(alike, F.lit(0)))


def column_of(row: Column, told: str) -> Column:
    """The value of such a column; NULL where the row has none."""
    return F.try_element_at(row, name_of(row, told))


def with_numbers(records: DataFrame, texts: Mapping[str, Column]) -> DataFrame:
    """Add the `number` of each text under its name.

    In two steps: `number` names its text several times, and would have it computed each time.
    """
    named = records.select("*", *(text.alias(name) for name, text in texts.items()))
    return named.withColumns({name: number(F.col(name)) for name in texts})


def number_or_zero(text: Column) -> Column:
    """A component that some events lack: absent sorts first."""
    return or_zero(number(text))


def or_zero(number: str | Column) -> Column:
    """The same of a number that `with_numbers` gave."""
    return F.coalesce(number, F.lit(ZERO))


def instant(millis: Column) -> Column:
    """The time of an event; NULL for what is in no calendar, on which Spark may end the batch."""
    return F.when(millis.between(FIRST_MILLISECOND, LAST_MILLISECOND), F.timestamp_millis(millis))


def instant_of_micros(micros: Column) -> Column:
    """The same from microseconds."""
    first, last = FIRST_MILLISECOND * 1000, LAST_MILLISECOND * 1000 + 999
    return F.when(micros.between(first, last), F.timestamp_micros(micros))


def instant_of_text(text: Column) -> Column:
    """The same from a date and a time of day in ISO 8601; a time alone would be of today."""
    whole = F.when(text.rlike(_MOMENT), text)
    return instant_of_micros(F.unix_micros(whole.try_cast("timestamp")))


def outcome(ignored: Column, reason: Column) -> Column:
    """`ignore` where `ignored`, `reject` where there is a reason, else `event`."""
    return (
        F.when(ignored, F.lit(OUTCOME_IGNORE))
        .when(reason.isNotNull(), F.lit(OUTCOME_REJECT))
        .otherwise(F.lit(OUTCOME_EVENT))
    )


def line_or(*fields: str | Column) -> Column:
    """The line itself, or the record as JSON of its fields where the line could be read."""
    return F.coalesce(F.col(CORRUPT), F.to_json(F.struct(*fields)))


def select_envelope(df: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """Select the envelope; what `columns` does not give is a column of `df` or NULL.

    `columns` may give more: `absent` of a format with partial rows, `transaction` and `ends`.
    """
    given = dict.fromkeys(ENVELOPE) | columns
    return df.select(
        *(_given(df, name) if c is None else c.alias(name) for name, c in given.items())
    )


def _given(df: DataFrame, name: str) -> Column:
    if name in df.columns:
        return F.col(name)
    return F.lit(None).cast("array<string>" if name in _ARRAYS else "string").alias(name)
