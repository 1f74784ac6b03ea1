"""Scans of a batch's files: those of one schema, what is known of a record's file and its place in
the order of arrival, and the union of all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import JSON_LINES, SourceFile
from sluice.positions import KIND_ARRIVAL
from spark_jobs.evaluated_once import in_own_projection
from spark_jobs.position_text import number
from spark_jobs.record_places import as_landed

ARRIVAL: Final = "_arrival"
_OBJECT, _LANDED, _FACT = "_object", "_landed", "_fact"
_FEW_FILES: Final = 32


def with_facts(
    spark: SparkSession,
    records: DataFrame,
    files: Sequence[SourceFile],
    facts_of: Callable[[SourceFile], Mapping[str, Any]],
) -> DataFrame:
    """Add the columns that `facts_of` returns for a record's file; NULL for any other file."""
    facts = {f.url: facts_of(f) for f in files}
    if 0 < len(facts) <= _FEW_FILES:
        return _with_few_facts(records, facts)
    rows = [{_LANDED: url, **fact} for url, fact in facts.items()]
    # From Arrow it is a local relation, which needs no job with Python in it.
    by_file = spark.createDataFrame(pa.Table.from_pylist(rows))
    landed = as_landed(records["file"]) == by_file[_LANDED]
    return records.join(F.broadcast(by_file), landed, "left").drop(_LANDED)


def _with_few_facts(records: DataFrame, facts: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    """Look the facts up in a map in the plan: a join is a job of its own and plans twice."""
    entries = (
        (F.lit(url), F.struct(*(F.lit(value).alias(name) for name, value in fact.items())))
        for url, fact in facts.items()
    )
    by_file = F.create_map(*chain.from_iterable(entries))
    joined = records.withColumn(_FACT, F.try_element_at(by_file, as_landed(records["file"])))
    names = next(iter(facts.values()))
    return joined.select("*", *(F.col(_FACT)[name].alias(name) for name in names)).drop(_FACT)


def with_arrival(spark: SparkSession, lines: DataFrame, files: tuple[SourceFile, ...]) -> DataFrame:
    """Add each line's place in the order of arrival, in the form that `decode` gives to
    other records."""
    joined = with_facts(spark, lines, files, lambda file: {_OBJECT: file.arrival})
    place_in_file = (number(F.col(name).cast("string")) for name in ("block", "ordinal"))
    arrival = F.concat_ws(".", F.coalesce(_OBJECT, "file"), *place_in_file)
    return joined.withColumn(ARRIVAL, arrival).drop(_OBJECT)


def arrival_position(*components: Column) -> Column:
    """The position of a record by arrival; `components` distinguish rows of one record."""
    return F.concat_ws(".", F.lit(KIND_ARRIVAL), ARRIVAL, *components)


def union(scans: list[DataFrame]) -> DataFrame:
    """Union all scans, with a column that keeps the envelope above them; see `in_own_projection`.

    Pushed below the union, the envelope would be compiled for each scan: for 34 scans 37 s, not 6.
    """
    if len(scans) == 1:
        return scans[0]
    pinned = in_own_projection(F.col("ordinal"))
    return reduce(DataFrame.unionByName, scans).withColumn("ordinal", pinned)


def only_of(files: Sequence[SourceFile], read: DataFrame, lines: Sequence[SourceFile]) -> DataFrame:
    """Keep the records of `files`, which are some of the `lines` read.

    Every scan must read all lines: a record's place depends on how Spark splits everything that is
    read, and quarantine finds records by their place.
    """
    if len(files) == len(lines):
        return read
    return read.where(as_landed(F.col("file")).isin([f.url for f in files]))


def by_schema(
    files: tuple[SourceFile, ...],
) -> dict[tuple[str, str], tuple[SourceFile, ...]]:
    """Group the typed files by (container, schema): one scan can read a group."""
    groups: dict[tuple[str, str], list[SourceFile]] = defaultdict(list)
    for file in files:
        if file.container != JSON_LINES:
            groups[file.container, file.avro_schema].append(file)
    return {kind: tuple(group) for kind, group in sorted(groups.items())}
