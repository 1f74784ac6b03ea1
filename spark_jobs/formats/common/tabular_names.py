"""Which columns JSON lines have, by file and table: a first pass over them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import SourceFile
from spark_jobs.formats.common.envelope import as_texts, names_in, repeats
from spark_jobs.formats.common.first_lines import first_lines
from spark_jobs.formats.common.tabular_columns import Meta
from spark_jobs.record_places import as_landed

_NUMBER: Final = r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?"
_FLAT: Final = rf'(?:"[^"\\\x00-\x1f]*+"|{_NUMBER}|null|true|false)'
_MOST_IN_PATTERN: Final = 100


@dataclass(frozen=True)
class ColumnNames:
    """The columns of all lines of some files, and whether a line has one of them twice."""

    names: tuple[str, ...] = ()
    twice: bool = False

    def __add__(self, other: ColumnNames) -> ColumnNames:
        return ColumnNames(tuple(sorted({*self.names, *other.names})), self.twice or other.twice)


def names_of(
    spark: SparkSession, files: tuple[SourceFile, ...], meta: Meta, table: str
) -> dict[tuple[str, str], ColumnNames]:
    """Return the columns of the lines, by file and by the value in the column `table`.

    If all lines have the same columns, their tables are not read, which would cost another pass.
    """
    lines = spark.read.text([f.url for f in files])
    samples = list(filter(None, map(_keys_of, first_lines(spark, files))))
    keys = _keys_like(samples[0]) if samples else line_keys()
    if table and len(set(map(frozenset, samples))) == 1:
        names, alike = _shapes(lines, F.lit(""), keys, meta)
        if alike:
            return names
    value = _value_of(table) if table else F.lit(None)
    return _shapes(lines, F.coalesce(value, F.lit("")), keys, meta)[0]


def _value_of(name: str) -> Column:
    """Return a line's value in this column, whose name may be in any case."""
    alike = F.get(F.filter(line_keys(), lambda key: F.lower(key) == name.lower()), F.lit(0))
    paths = (F.lit(f"$['{name}']"), F.concat(F.lit("$['"), alike, F.lit("']")))
    quick = (F.call_function("get_json_object", F.col("value"), path) for path in paths)
    return F.coalesce(*quick, F.try_element_at(as_texts(F.col("value")), alike))


def line_keys() -> Column:
    """Return the names in a line of text; NULL for one that is no object."""
    return names_in(F.col("value"))


def _keys_like(names: Sequence[str]) -> Column:
    """Return the names in a line, for lines that mostly have these in this order.

    A pattern recognises such lines faster than a parser if no value is nested or has an escape. It
    matches only JSON, and only with these names.
    """
    if len(names) > _MOST_IN_PATTERN or not all(map(_is_never_escaped, names)):
        return line_keys()
    fields = (rf' ?"{re.escape(name)}" ?: ?{_FLAT}' for name in names)
    alike = F.col("value").rlike(rf"^\{{{','.join(fields)} ?\}}\r?\z")
    return F.when(alike, F.array(*map(F.lit, names))).otherwise(line_keys())


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
) -> tuple[dict[tuple[str, str], ColumnNames], bool]:
    """Return the columns of the lines by file and table, and whether each line has all of them."""
    named = (table.alias("table"), keys.alias("keys"))
    shapes = lines.select(F.input_file_name().alias("file"), *named).distinct()
    name, many = F.explode("keys").alias("name"), F.size(F.array_distinct("keys")).alias("many")
    each = shapes.select("file", "table", name, many, has_twice(F.col("keys"), meta).alias("twice"))
    grouped = each.groupBy(as_landed(F.col("file")).alias("url"), "table").agg(
        F.sort_array(F.collect_set("name")).alias("names"),
        F.max("twice").alias("twice"),
        F.min("many").alias("fewest"),
    )
    rows = grouped.collect()
    listed = {tuple(row["names"]) for row in rows}
    alike = len(listed) < 2 and all(row["fewest"] == len(row["names"]) for row in rows)
    names = {
        (row["url"], row["table"]): ColumnNames(tuple(row["names"]), row["twice"]) for row in rows
    }
    return names, alike


def has_twice(keys: Column, meta: Meta) -> Column:
    """Whether a line has a column twice; a data column also in two spellings."""
    data = F.filter(keys, lambda name: ~name.isin(*meta.names)) if meta.names else keys
    return repeats(keys) | repeats(F.transform(data, F.lower))


def all_names(names: Iterable[ColumnNames]) -> ColumnNames:
    return sum(names, ColumnNames())
