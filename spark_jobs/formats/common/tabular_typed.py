"""Flat rows of Avro and Parquet files."""

from __future__ import annotations

import json
from collections import Counter

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.containers.parquet_file import INT96, refuse_unread
from sluice.errors import TerminalError
from sluice.manifest import AVRO, PARQUET, SourceFile
from spark_jobs.formats.common import avro
from spark_jobs.formats.common.envelope import CORRUPT
from spark_jobs.formats.common.tabular_columns import REPEATS, ROW, Meta, parts
from spark_jobs.quoting import quoted
from spark_jobs.record_places import place


def read_typed_rows(
    spark: SparkSession,
    container: str,
    schema: str,
    files: tuple[SourceFile, ...],
    meta: Meta,
) -> DataFrame:
    """Read files of one schema in one scan; the columns are those of `read_json_rows`."""
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
        *parts(values, set(fields), about),
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
