"""Flat rows of JSON lines, which landing also makes of CSV files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.containers import csv_rows
from sluice.manifest import SourceFile
from sluice.source_names import is_column_name
from spark_jobs.formats.common.envelope import CORRUPT, json_reader
from spark_jobs.formats.common.scans import union
from spark_jobs.formats.common.tabular_columns import META, REPEATS, ROW, Meta, parts
from spark_jobs.formats.common.tabular_names import (
    ColumnNames,
    all_names,
    has_twice,
    line_keys,
    names_of,
)
from spark_jobs.quoting import quoted
from spark_jobs.record_places import PLACE, as_landed, place, text_lines


def read_json_rows(
    spark: SparkSession, files: tuple[SourceFile, ...], meta: Meta, table: str
) -> DataFrame:
    """Read the JSON lines in one scan, and CSV files in one for each header.

    A CSV file's header says which columns its rows have, whatever other files have.
    """
    listed = names_of(spark, files, meta, table)
    of_file = {f.url: all_names(n for (url, _), n in listed.items() if url == f.url) for f in files}
    lines = [f for f in files if not csv_rows.is_csv(f.key)]
    of_lines = all_names(of_file[f.url] for f in lines)
    groups: dict[ColumnNames, list[SourceFile]] = {}
    for file in files:
        names = of_file[file.url] if csv_rows.is_csv(file.key) else of_lines
        groups.setdefault(names, []).append(file)
    scans = union([_scan(spark, names, group, meta) for names, group in groups.items()])
    return _own_columns(scans, listed, meta, table)


def _own_columns(
    rows: DataFrame, listed: Mapping[tuple[str, str], ColumnNames], meta: Meta, table: str
) -> DataFrame:
    """Leave every row the columns of its table, in the table's own spelling.

    The reader gave every row the columns of all tables, in a spelling common to them. A name that
    no column may have comes from one damaged line, and stays in that row only.
    """
    owned: dict[str, ColumnNames] = {}
    for (url, named), names in listed.items():
        owner = named if table else url
        owned[owner] = owned.get(owner, ColumnNames()) + names
    fit = {owner: list(filter(is_column_name, names.names)) for owner, names in owned.items()}
    shapes = [*map(tuple, fit.values()), *(names.names for names in owned.values())]
    if len(set(shapes)) < 2:
        return rows
    spellings = _spellings(fit, meta)
    by_owner = F.from_json(F.lit(json.dumps(spellings)), "map<string,map<string,string>>")
    of_row = F.coalesce(F.col(META)[table], F.lit("")) if table else as_landed(F.col("file"))
    own = by_owner[of_row]
    kept = F.map_filter(ROW, lambda name, value: value.isNotNull() | own[name].isNotNull())
    if any(name != spelled for one in spellings.values() for name, spelled in one.items()):
        kept = F.transform_keys(kept, lambda name, _: F.coalesce(own[name], name))
    return rows.withColumn(ROW, kept)


def _spellings(owned: Mapping[str, Sequence[str]], meta: Meta) -> dict[str, dict[str, str]]:
    """Return for each owner: spelling in the batch → the owner's own, the greatest of several."""
    every = {name for names in owned.values() for name in names}
    data = every.difference(meta.spelled(every).values())
    chosen = {
        owner: {name.lower(): name for name in sorted(data.intersection(names))}
        for owner, names in owned.items()
    }
    return {
        owner: {name: own[name.lower()] for name in data if name.lower() in own}
        for owner, own in chosen.items()
    }


def _scan(
    spark: SparkSession, has: ColumnNames, files: Sequence[SourceFile], meta: Meta
) -> DataFrame:
    names, corrupt = has.names, CORRUPT
    if not names:
        return _nameless(spark, files, meta)
    while corrupt in names:
        corrupt += "_"
    about = meta.spelled(names)
    wanted = sorted({*names, *about.values()})
    schema = T.StructType([T.StructField(n, T.StringType()) for n in (*wanted, corrupt)])
    lines = json_reader(spark, schema, corrupt).json([f.url for f in files])
    rows = lines.select(
        *parts(_values(wanted, about.values()), set(names), about),
        F.lit(None).cast("string").alias("types"),
        F.col(quoted(corrupt)).alias(CORRUPT),
        *place(),
    )
    if has.twice:
        return _with_repeats(rows, spark, files, meta)
    return rows.withColumn(REPEATS, F.lit(False))


def _values(names: Sequence[str], meta: Collection[str]) -> dict[str, Column]:
    """Return the texts of all columns; several spellings of a data column become the greatest."""
    alike: dict[tuple[bool, str], list[str]] = {}
    for name in sorted(names, reverse=True):
        alike.setdefault((name in meta, name if name in meta else name.lower()), []).append(name)
    groups = sorted(alike.values())
    return {group[0]: F.coalesce(*(F.col(quoted(n)) for n in group)) for group in groups}


def _nameless(spark: SparkSession, files: Sequence[SourceFile], meta: Meta) -> DataFrame:
    """Read files of only broken lines and empty objects, which the JSON reader would refuse."""
    return text_lines(spark, files).select(
        *parts({}, set(), meta.spelled(())),
        F.lit(None).cast("string").alias("types"),
        F.when(line_keys().isNull(), F.col("value")).alias(CORRUPT),
        *PLACE,
        F.lit(False).alias(REPEATS),
    )


def _with_repeats(
    rows: DataFrame, spark: SparkSession, files: Sequence[SourceFile], meta: Meta
) -> DataFrame:
    """Mark lines that have a column twice, of which the reader shows only the last value."""
    placed = text_lines(spark, files).select(line_keys().alias("keys"), *PLACE)
    marks = placed.where(has_twice(F.col("keys"), meta)).select(*PLACE, F.lit(True).alias(REPEATS))
    joined = rows.join(F.broadcast(marks), list(PLACE), "left")
    return joined.withColumn(REPEATS, F.coalesce(REPEATS, F.lit(False)))
