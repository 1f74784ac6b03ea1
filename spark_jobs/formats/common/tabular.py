"""Rows of JSON lines, CSV, Parquet and Avro files as column name → exact text.

For formats that are a flat row with a few extra columns about the change. Landing has turned CSV
files into JSON lines. If a JSON line lacks a column that another line of its table has in this
batch, the column is NULL.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.containers import csv_rows
from sluice.containers.parquet_file import INT96, refuse_unread
from sluice.errors import TerminalError
from sluice.manifest import AVRO, JSON_LINES, PARQUET, SourceFile
from sluice.source_names import is_column_name
from spark_jobs.canonical import IMAGE_TYPE, PLACE, as_landed, holds_record, place, quoted
from spark_jobs.formats.base import SourceColumn
from spark_jobs.formats.common import avro
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    WHOLE_TEXTS,
    as_texts,
    by_schema,
    names_in,
    repeats,
    union,
)
from spark_jobs.formats.common.first_lines import first_lines

META: Final = "meta"
ROW: Final = "row"
REPEATS: Final = "repeats"
_NUMBER: Final = r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?"
_FLAT: Final = rf'(?:"[^"\\\x00-\x1f]*+"|{_NUMBER}|null|true|false)'
_MOST_IN_PATTERN: Final = 100


@dataclass(frozen=True)
class Meta:
    """Names of the columns that describe the change: `fixed` ones match exactly, `any_case`
    ones in any case."""

    fixed: tuple[str, ...] = ()
    any_case: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return (*self.fixed, *self.any_case)

    def spelled(self, columns: Collection[str]) -> dict[str, str]:
        """Return each name as a file with these columns spells it.

        If several columns differ from it only by case, none of them is used.
        """
        return {n: _spelled(n, columns) if n in self.any_case else n for n in self.names}


def _spelled(name: str, columns: Collection[str]) -> str:
    alike = [column for column in columns if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 and name not in columns else name


def read_rows(
    spark: SparkSession, files: tuple[SourceFile, ...], meta: Meta, table: str = ""
) -> DataFrame:
    """Read rows lazily: one scan for the JSON lines and one for each schema of typed files.

    `table` is the column of `meta` that names a row's table; without one each file is a table.

    Returns `meta` (a struct of texts, NULL if a file lacks the column), `row` (the other columns),
    `types` (a record's schema; NULL for JSON lines), `repeats` (a column comes twice), the text of
    a line that is no JSON, and the place. A first pass over JSON lines finds their columns.
    """
    lines = tuple(f for f in files if f.container == JSON_LINES)
    scans = [_read_typed(spark, *schema, group, meta) for schema, group in by_schema(files).items()]
    if lines or not scans:
        scans.append(_read_lines(spark, lines, meta, table))
    return union(scans)


def columns_of(types: str) -> list[SourceColumn]:
    """Return the data columns of a typed file, from the `types` of `read_rows`."""
    fields = avro.fields_of(json.loads(types))
    return [
        SourceColumn(name, avro.column_type(field), typed=True) for name, field in fields.items()
    ]


# JSON lines


@dataclass(frozen=True)
class _Names:
    """The columns of all lines of some files, and whether a line has one of them twice."""

    names: tuple[str, ...] = ()
    twice: bool = False

    def __add__(self, other: _Names) -> _Names:
        return _Names(tuple(sorted({*self.names, *other.names})), self.twice or other.twice)


def _read_lines(
    spark: SparkSession, files: tuple[SourceFile, ...], meta: Meta, table: str
) -> DataFrame:
    """Read the JSON lines in one scan, and CSV files in one for each header.

    A CSV file's header says which columns its rows have, whatever other files have.
    """
    listed = _names(spark, files, meta, table)
    of_file = {f.url: _all(n for (url, _), n in listed.items() if url == f.url) for f in files}
    lines = [f for f in files if not csv_rows.is_csv(f.key)]
    of_lines = _all(of_file[f.url] for f in lines)
    groups: dict[_Names, list[SourceFile]] = {}
    for file in files:
        names = of_file[file.url] if csv_rows.is_csv(file.key) else of_lines
        groups.setdefault(names, []).append(file)
    scans = union([_scan(spark, names, group, meta) for names, group in groups.items()])
    return _own_columns(scans, listed, meta, table)


def _names(
    spark: SparkSession, files: tuple[SourceFile, ...], meta: Meta, table: str
) -> dict[tuple[str, str], _Names]:
    """Return the columns of the lines, by file and by the value in the column `table`.

    If all lines have the same columns, their tables are not read, which would cost another pass.
    """
    lines = spark.read.text([f.url for f in files])
    samples = list(filter(None, map(_keys_of, first_lines(spark, files))))
    keys = _keys_like(samples[0]) if samples else _keys()
    if table and len(set(map(frozenset, samples))) == 1:
        names, alike = _shapes(lines, F.lit(""), keys, meta)
        if alike:
            return names
    value = _value_of(table) if table else F.lit(None)
    return _shapes(lines, F.coalesce(value, F.lit("")), keys, meta)[0]


def _value_of(name: str) -> Column:
    """Return a line's value in this column, whose name may be in any case."""
    alike = F.get(F.filter(_keys(), lambda key: F.lower(key) == name.lower()), F.lit(0))
    paths = (F.lit(f"$['{name}']"), F.concat(F.lit("$['"), alike, F.lit("']")))
    quick = (F.call_function("get_json_object", F.col("value"), path) for path in paths)
    return F.coalesce(*quick, F.try_element_at(as_texts(F.col("value")), alike))


def _keys() -> Column:
    return names_in(F.col("value"))


def _keys_like(names: Sequence[str]) -> Column:
    """Return the names in a line, for lines that mostly have these in this order.

    A pattern recognises such lines faster than a parser if no value is nested or has an escape. It
    matches only JSON, and only with these names.
    """
    if len(names) > _MOST_IN_PATTERN or not all(map(_is_never_escaped, names)):
        return _keys()
    fields = (rf' ?"{re.escape(name)}" ?: ?{_FLAT}' for name in names)
    alike = F.col("value").rlike(rf"^\{{{','.join(fields)} ?\}}\r?\z")
    return F.when(alike, F.array(*map(F.lit, names))).otherwise(_keys())


def _is_never_escaped(name: str) -> bool:
    """Whether JSON writes the name as it is; an escaped character has several spellings."""
    return name.isprintable() and not {'"', "\\"} & set(name)


def _keys_of(line: str) -> tuple[str, ...]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    return tuple(record) if isinstance(record, dict) else ()


def _shapes(
    lines: DataFrame, table: Column, keys: Column, meta: Meta
) -> tuple[dict[tuple[str, str], _Names], bool]:
    """Return the columns of the lines by file and table, and whether each line has all of them."""
    named = (table.alias("table"), keys.alias("keys"))
    shapes = lines.select(F.input_file_name().alias("file"), *named).distinct()
    name, many = F.explode("keys").alias("name"), F.size(F.array_distinct("keys")).alias("many")
    each = shapes.select("file", "table", name, many, _twice(F.col("keys"), meta).alias("twice"))
    grouped = each.groupBy(as_landed(F.col("file")).alias("url"), "table").agg(
        F.sort_array(F.collect_set("name")).alias("names"),
        F.max("twice").alias("twice"),
        F.min("many").alias("fewest"),
    )
    rows = grouped.collect()
    listed = {tuple(row["names"]) for row in rows}
    alike = len(listed) < 2 and all(row["fewest"] == len(row["names"]) for row in rows)
    names = {(row["url"], row["table"]): _Names(tuple(row["names"]), row["twice"]) for row in rows}
    return names, alike


def _twice(keys: Column, meta: Meta) -> Column:
    """Whether a line has a column twice; a data column also in two spellings."""
    data = F.filter(keys, lambda name: ~name.isin(*meta.names)) if meta.names else keys
    return repeats(keys) | repeats(F.transform(data, F.lower))


def _all(names: Iterable[_Names]) -> _Names:
    return sum(names, _Names())


def _own_columns(
    rows: DataFrame, listed: Mapping[tuple[str, str], _Names], meta: Meta, table: str
) -> DataFrame:
    """Leave every row the columns of its table, in the table's own spelling.

    The reader gave every row the columns of all tables, in a spelling common to them. A name that
    no column may have comes from one damaged line, and stays in that row only.
    """
    owned: dict[str, _Names] = {}
    for (url, named), names in listed.items():
        owner = named if table else url
        owned[owner] = owned.get(owner, _Names()) + names
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


def _scan(spark: SparkSession, has: _Names, files: Sequence[SourceFile], meta: Meta) -> DataFrame:
    names, corrupt = has.names, CORRUPT
    if not names:
        return _nameless(spark, files, meta)
    while corrupt in names:
        corrupt += "_"
    about = meta.spelled(names)
    wanted = sorted({*names, *about.values()})
    schema = T.StructType([T.StructField(n, T.StringType()) for n in (*wanted, corrupt)])
    reader = spark.read.schema(schema).option("mode", "PERMISSIVE")
    reader = reader.option("columnNameOfCorruptRecord", corrupt).options(**WHOLE_TEXTS)
    lines = reader.json([f.url for f in files])
    rows = lines.select(
        *_parts(_values(wanted, about.values()), set(names), about),
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
    lines = spark.read.text([f.url for f in files]).where(holds_record(F.col("value")))
    return lines.select(
        *_parts({}, set(), meta.spelled(())),
        F.lit(None).cast("string").alias("types"),
        F.when(_keys().isNull(), F.col("value")).alias(CORRUPT),
        *place(),
        F.lit(False).alias(REPEATS),
    )


def _with_repeats(
    rows: DataFrame, spark: SparkSession, files: Sequence[SourceFile], meta: Meta
) -> DataFrame:
    """Mark lines that have a column twice, of which the reader shows only the last value."""
    lines = spark.read.text([f.url for f in files]).where(holds_record(F.col("value")))
    placed = lines.select(_keys().alias("keys"), *place())
    marks = placed.where(_twice(F.col("keys"), meta)).select(*PLACE, F.lit(True).alias(REPEATS))
    joined = rows.join(F.broadcast(marks), list(PLACE), "left")
    return joined.withColumn(REPEATS, F.coalesce(REPEATS, F.lit(False)))


def _parts(
    values: Mapping[str, Column], carried: set[str], meta: Mapping[str, str]
) -> list[Column]:
    """Return `meta` and `row` from the texts of all columns."""
    none = F.lit(None).cast("string")
    about = [values.get(spelled, none).alias(name) for name, spelled in meta.items()]
    data = [name for name in values if name in carried and name not in meta.values()]
    names = F.array(*map(F.lit, data)).cast("array<string>")
    texts = F.array(*(values[name] for name in data)).cast("array<string>")
    return [
        F.struct(*about).alias(META),
        F.map_from_arrays(names, texts).cast(IMAGE_TYPE).alias(ROW),
    ]


# Avro and Parquet


def _read_typed(
    spark: SparkSession,
    container: str,
    schema: str,
    files: tuple[SourceFile, ...],
    meta: Meta,
) -> DataFrame:
    """Read files of one schema in one scan; the columns are those of `_read_lines`."""
    fields = _fields(schema, files[0])
    struct = T.StructType(
        [T.StructField(n, _read_as(f)) for n, f in fields.items() if _has_type(f)]
    )
    reader = spark.read.format(container).schema(struct)
    if container == AVRO and (plain := avro.reader_schema(schema)):
        reader = reader.option("avroSchema", plain)
    values = {name: _text(name, node) for name, node in fields.items()}
    about = meta.spelled(fields)
    data = [{"name": n, "type": f} for n, f in fields.items() if n not in about.values()]
    types = json.dumps({"type": "record", "name": ROW, "fields": data})
    return reader.load([f.url for f in files]).select(
        *_parts(values, set(fields), about),
        F.lit(types).alias("types"),
        F.lit(None).cast("string").alias(CORRUPT),
        *place(),
        F.lit(False).alias(REPEATS),
    )


def _fields(schema: str, example: SourceFile) -> dict[str, avro.Node]:
    try:
        if example.container == PARQUET:
            refuse_unread(schema)
        return _once(avro.parse(schema))
    except (KeyError, ValueError) as error:
        raise TerminalError(
            f"{example.key} is no file of rows that can be read ({error}); take it out of the "
            "pipeline's landing pattern, or have it written in another way"
        ) from error


def _once(record: avro.Node) -> dict[str, avro.Node]:
    """Return the fields by name; ValueError for an empty or repeated name.

    Parquet allows both; Spark fails on them or reads only one of two.
    """
    names = Counter(field["name"] for field in record["fields"])
    if "" in names:
        raise ValueError("it has a column without a name")
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"it has the column {twice[0]!r} more than once")
    return avro.fields_of(record)


def _has_type(node: avro.Node) -> bool:
    """Whether a column has a type to be read as; one of only nulls has none."""
    return bool(avro.value_of(node)["type"] != "null")


def _read_as(node: avro.Node) -> T.DataType:
    return T.TimestampType() if INT96 in avro.value_of(node) else avro.spark_type(node)


def _text(name: str, node: avro.Node) -> Column:
    if not _has_type(node):
        return F.lit(None).cast("string")
    value = F.col(quoted(name))
    return avro.text(F.unix_micros(value) if INT96 in avro.value_of(node) else value, node)
