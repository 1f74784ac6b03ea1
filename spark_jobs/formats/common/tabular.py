"""Rows of JSON lines, CSV, Parquet and Avro files as column name → exact text.

For formats that are a flat row with a few extra columns about the change. Landing has turned CSV
files into JSON lines. If a JSON line lacks a column that another line of its table has in this
batch, the column is NULL.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from sluice.manifest import JSON_LINES, SourceFile
from spark_jobs.formats.base import SourceColumn
from spark_jobs.formats.common import avro
from spark_jobs.formats.common.scans import by_schema, union
from spark_jobs.formats.common.tabular_columns import Meta
from spark_jobs.formats.common.tabular_lines import read_json_rows
from spark_jobs.formats.common.tabular_typed import read_typed_rows


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
    scans = [
        read_typed_rows(spark, *schema, group, meta) for schema, group in by_schema(files).items()
    ]
    if lines or not scans:
        scans.append(read_json_rows(spark, lines, meta, table))
    return union(scans)


def columns_of(types: str) -> list[SourceColumn]:
    """Return the data columns of a typed file, from the `types` of `read_rows`."""
    fields = avro.fields_of(json.loads(types))
    return [
        SourceColumn(name, avro.column_type(field), typed=True) for name, field in fields.items()
    ]
