"""Avro's JSON encoding: one record a line, after a header line `KEYSCHEMA^VALUESCHEMA`.

Landing turns a line `KEY^VALUE` into `{"key": …, "value": …}`, and `KEY^` into `"value": null`. In
this encoding a union's value names its branch, `{"long": 5}`, and each byte is a character.
Source: "JSON Encoding" of the Avro specification; fixtures of RisingWave.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.errors import TerminalError
from sluice.manifest import SourceFile
from spark_jobs.formats.common import avro
from spark_jobs.formats.common.avro import Node
from spark_jobs.formats.common.envelope import CORRUPT, json_reader
from spark_jobs.formats.common.scans import only_of
from spark_jobs.formats.debezium import connect_avro
from spark_jobs.formats.debezium.connect_avro import Datum, Records
from spark_jobs.record_places import as_landed, place

_PARTS: Final = ("key", "value")
_HEADER: Final = r'^\s*\{\s*"key"\s*:.*"value"\s*:\s*\{[^{}]*"type"\s*:\s*"record"'


def headers(
    spark: SparkSession, files: tuple[SourceFile, ...], declared: bool
) -> dict[str, list[SourceFile]]:
    """Return files by their header line of schemas, if they have one.

    The search costs a pass. So unless the options declare such files it is only made if the first
    file that landing split begins with a header: `KEY^VALUE` is always split.
    """
    split = [f.url for f in files if f.staged]
    if not files:
        return {}
    if not declared and not (split and _header_lines(spark.read.text(split[0]).limit(1)).first()):
        return {}
    lines = spark.read.text([f.url for f in files]).select("value", *place())
    by_file: dict[str, set[str]] = {}
    headed = _header_lines(lines).select(as_landed(F.col("file")).alias("file"), "value")
    for row in headed.collect():
        by_file.setdefault(row["file"], set()).add(row["value"])
    by_line: dict[str, list[SourceFile]] = {}
    for file in files:
        if len(by_file.get(file.url, ())) > 1:
            raise TerminalError(f"{file.key}: more than one line KEYSCHEMA^VALUESCHEMA; split it")
        for line in by_file.get(file.url, ()):
            by_line.setdefault(line, []).append(file)
    return by_line


def _header_lines(lines: DataFrame) -> DataFrame:
    return lines.where(F.col("value").rlike(_HEADER))


def records(
    spark: SparkSession, header: str, files: list[SourceFile], lines: tuple[SourceFile, ...]
) -> Records:
    """Read the files with this header line, without the line itself; see `scans.only_of`."""
    schemas = json.loads(header)
    nodes = {p: connect_avro.resolve([schemas[p]], files[0].key) for p in _PARTS if schemas[p]}
    parts = {p: json_type(node) for p, node in nodes.items()} | {"value": _headed(nodes["value"])}
    fields = [T.StructField(part, kind) for part, kind in parts.items()]
    reader = json_reader(spark, T.StructType([*fields, _text(CORRUPT)]))
    read = reader.json([f.url for f in lines]).select("*", *place())
    rows = only_of(files, read, lines).where(~_is_header())
    plain = {f"_{part}": from_json(F.col(part), node) for part, node in nodes.items()}
    data = {p: [Datum(F.lit(True), F.col(f"_{p}"), node)] for p, node in nodes.items()}
    return Records(
        rows.withColumns(plain),
        keys=data.get("key", []),
        values=data["value"],
        empty=F.col("value").isNull(),
        rejected=_rejected(parts),
        raw=F.col(CORRUPT),
    )


def _rejected(parts: Iterable[str]) -> Column:
    """Return why a line is no record; quarantine shows the text of a tombstone without a key."""
    empty = reduce(and_, (F.col(part).isNull() for part in parts))
    broken = F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json"))
    return broken.when(empty, F.lit("not_an_envelope"))


def _text(name: str) -> T.StructField:
    return T.StructField(name, T.StringType())


def _headed(value: Node) -> T.DataType:
    """Return the value's type with the fields that the header line has in its place."""
    record = json_type(value)
    assert isinstance(record, T.StructType)
    return T.StructType([*record.fields, _text("type"), _text("fields")])


def _is_header() -> Column:
    parsed = (F.col("value")["type"] == "record") & F.col("value")["fields"].isNotNull()
    return F.coalesce(parsed, F.lit(False)) | F.coalesce(
        F.col(CORRUPT).rlike(_HEADER), F.lit(False)
    )


def json_type(node: Node) -> T.DataType:
    """Return the Spark type that reads Avro's JSON encoding of a value; see `from_json`."""
    kind = node["type"]
    if kind == "union":
        named = [(_branch_name(b), b) for b in node["branches"] if b["type"] != "null"]
        return T.StructType([T.StructField(name, json_type(b)) for name, b in named])
    if kind == "record":
        fields = avro.fields_of(node).items()
        return T.StructType([T.StructField(name, json_type(inner)) for name, inner in fields])
    if kind == "array":
        return T.ArrayType(json_type(node["items"]))
    if kind == "map":
        return T.MapType(T.StringType(), json_type(node["values"]))
    return T.StringType() if kind in ("bytes", "fixed") else avro.spark_type(node)


def _branch_name(branch: Node) -> str:
    return str(branch.get("name", branch["type"]))


def from_json(value: Column, node: Node) -> Column:
    """Convert a value of `json_type` to `avro.spark_type`: bare unions, bytes as binary."""
    kind = node["type"]
    if kind == "union":
        return _from_union(value, node)
    if kind == "record":
        fields = avro.fields_of(node).items()
        row = F.struct(*(from_json(value[n], inner).alias(n) for n, inner in fields))
        return F.when(value.isNotNull(), row)
    if kind == "array":
        return F.transform(value, lambda v: from_json(v, node["items"]))
    if kind == "map":
        return F.transform_values(value, lambda _, v: from_json(v, node["values"]))
    if kind in ("bytes", "fixed"):
        return F.when(value.rlike(r"^[\x00-\xff]*$"), F.encode(value, "ISO-8859-1"))
    return value


def _from_union(value: Column, node: Node) -> Column:
    branches = [b for b in node["branches"] if b["type"] != "null"]
    members = [from_json(value[_branch_name(b)], b) for b in branches]
    merged = avro.value_of(node)
    if merged["type"] == "union":
        named = (m.alias(f"member{i}") for i, m in enumerate(members))
        return F.when(value.isNotNull(), F.struct(*named))
    kind = avro.spark_type(merged)
    return F.coalesce(*(m.cast(kind) for m in members)) if len(members) > 1 else members[0]
