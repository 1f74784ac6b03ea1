"""Debezium in Avro, as the flat columns that `debezium.py` makes of JSON.

Container files hold envelopes, or records of `key` and `value`, which may be wire messages
themselves. Files of another kind hold wire messages (`confluent.py`) or Avro's JSON encoding
(`avro_json.py`). Values are the texts that Connect's JSON converter would have written
(`connect_avro.py`), so all that follows is the same. Source: formats.md 6.1.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import framed
from sluice.avroschemas import Schemas, open_schemas
from sluice.errors import TerminalError
from sluice.manifest import SourceFile
from spark_jobs.canonical import IMAGE_TYPE, place
from spark_jobs.formats import avro, avro_json, confluent, connect_avro
from spark_jobs.formats.avro import Node
from spark_jobs.formats.connect_avro import Datum, Records

BASE64: Final = "base64"
JSON_ENCODING: Final = "avro_json"
LAYOUTS: Final = (BASE64, *framed.LAYOUTS, JSON_ENCODING)
OPTIONS: Final = {
    "layout": f"how Avro lies in files that are no containers: {', '.join(LAYOUTS)}",
    "schemas": "schemas by id: a folder of <id>.avsc files, or one JSON file of ids and schemas",
    "schema_registry": "URL of the schema registry that has them",
    "tombstones": "null values after an event of their key: ignore (default) or delete",
}
_ENVELOPE_FIELDS: Final = ("op", "status", "ddl", "ts_ms")
_NOTHING: Final[Node] = {"type": "record", "name": "nothing", "fields": []}


@dataclass(frozen=True)
class Wanted:
    """The flat columns: fields of `source`, scalars beside it, all that `before` has to have."""

    source: tuple[str, ...]
    scalars: tuple[str, ...]
    old_columns: frozenset[str] | None

    @property
    def source_type(self) -> str:
        """The Spark type of `source`."""
        return f"struct<{','.join(f'{name}:string' for name in self.source)}>"


@dataclass(frozen=True)
class AvroFiles:
    """A batch's files that hold Avro, by how they hold it."""

    containers: tuple[SourceFile, ...]
    messages: tuple[SourceFile, ...]
    headed: Mapping[str, list[SourceFile]]

    @property
    def all(self) -> frozenset[SourceFile]:
        """What is not JSON."""
        headed = (file for files in self.headed.values() for file in files)
        return frozenset((*self.containers, *self.messages, *headed))


def find(
    spark: SparkSession, files: tuple[SourceFile, ...], options: Mapping[str, Any]
) -> AvroFiles:
    """Containers, and what `layout` says of the other files; see `avro_json.headers` for the rest.

    Raises TerminalError for an unknown layout and for files that have not what it needs.
    """
    layout = options.get("layout")
    if layout not in (None, *LAYOUTS):
        known = ", ".join(LAYOUTS)
        raise TerminalError(f"format_options.layout: {layout!r} is none of {known}")
    containers = tuple(f for f in files if f.container == "avro")
    lines = tuple(f for f in files if f.container != "avro")
    if layout not in (None, JSON_ENCODING):
        return AvroFiles(containers, lines, {})
    found = AvroFiles(containers, (), avro_json.headers(spark, lines, told=layout is not None))
    if layout is not None and (without := [f.key for f in lines if f not in found.all]):
        raise TerminalError(f"{without}: no line KEYSCHEMA^VALUESCHEMA tells the Avro schemas")
    return found


def read_flat(
    spark: SparkSession, files: AvroFiles, options: Mapping[str, Any], wanted: Wanted
) -> list[DataFrame]:
    """Scan by scan the flat columns, with `refused`: why a record is no message.

    `key` is a map of texts; so are the images, or text where a schema has documents (MongoDB).
    """

    def schemas() -> Schemas:
        return open_schemas(
            str(options.get("schemas", "")), str(options.get("schema_registry", ""))
        )

    found = [avro_json.records(spark, *headed) for headed in files.headed.items()]
    if files.messages:
        carrier = lambda some: confluent.base64_lines(spark, some)  # noqa: E731
        found += confluent.records(carrier, files.messages, schemas)
    by_schema: dict[str, list[SourceFile]] = defaultdict(list)
    for file in files.containers:
        by_schema[file.avro_schema].append(file)
    for schema, group in by_schema.items():
        found += _container(spark, schema, tuple(group), schemas)
    return [_flat(records, wanted) for records in found]


def _container(
    spark: SparkSession,
    schema: str,
    files: tuple[SourceFile, ...],
    schemas: Callable[[], Schemas],
) -> list[Records]:
    """Files of one schema: envelopes, or records of `key` and `value`."""
    node = connect_avro.resolve([json.loads(schema)], files[0].key)
    fields = _fields(node)
    plain = json.dumps(connect_avro.writer_schema(node))

    def rows(some: tuple[SourceFile, ...]) -> DataFrame:
        reader = spark.read.format("avro").option("avroSchema", plain)
        return reader.load([f.url for f in some]).select(F.struct("*").alias("record"), *place())

    value = Datum(F.lit(True), F.col("record"), node)
    if "value" in fields:
        value = Datum(F.lit(True), F.col("record")["value"], avro.value_of(fields["value"]))
    if value.node["type"] == "bytes":
        return confluent.records(lambda some: _carried(rows(some), fields), files, schemas)
    if not set(_ENVELOPE_FIELDS) & _fields(value.node).keys():
        raise TerminalError(
            f"{files[0].key} is not a Debezium Avro file: its records, or the `value` in them, "
            "need the fields of an envelope; take it out of the pipeline's landing pattern"
        )
    return [_records(rows(files), fields, value)]


def _records(rows: DataFrame, fields: Mapping[str, Node], value: Datum) -> Records:
    keyed = "value" in fields and "key" in fields
    key = (
        [Datum(F.lit(True), F.col("record")["key"], avro.value_of(fields["key"]))] if keyed else []
    )
    return Records(
        rows,
        keys=key,
        values=[value],
        empty=value.value.isNull(),
        refused=F.lit(None),
        raw=F.to_json("record"),
    )


def _carried(rows: DataFrame, fields: Mapping[str, Node]) -> DataFrame:
    """Wire messages in the records of a container; see `confluent.Carrier`."""
    record = F.col("record")
    keyed = "key" in fields and avro.value_of(fields["key"])["type"] == "bytes"
    key = record["key"] if keyed else F.lit(None)
    return rows.select(
        key.cast("binary").alias("key"),
        record["value"].alias("value"),
        F.base64(record["value"]).alias("text"),
        F.lit(None).cast("string").alias("broken"),
        *("file", "block", "ordinal"),
    )


def _flat(records: Records, wanted: Wanted) -> DataFrame:
    """In two steps, so that Spark picks each record's schema once."""
    documents = any(_has_documents(datum.node) for datum in records.values)
    message = {d: F.struct(*_message(d, wanted, documents)) for d in records.values}
    nothing = F.struct(*_message(Datum(F.lit(True), F.lit(None), _NOTHING), wanted, documents))
    key = _choose({d: _row(d.value, d.node) for d in records.keys}, F.lit(None).cast(IMAGE_TYPE))
    chosen = records.rows.select(
        "*",
        _choose(message, nothing).alias("_message"),
        key.alias("_key"),
        records.empty.alias("_empty"),
        records.refused.cast("string").alias("_refused"),
        records.raw.alias("_raw"),
    )
    names = ("before", "after", "source", *wanted.scalars, "types")
    parts = {name: F.col("_message")[name] for name in names}
    untold = [parts[name].isNull() for name in _ENVELOPE_FIELDS]
    stray = ~F.col("_empty") & untold[0] & untold[1] & untold[2] & untold[3]
    if not documents:
        deleted = F.when(F.col("_empty"), F.col("_key"))
        parts["before"] = F.coalesce(parts["before"], deleted)
    # A null value is a tombstone whatever its key; that it has one is how it is known.
    unnamed = F.when(F.col("_empty"), F.create_map().cast(IMAGE_TYPE))
    return chosen.select(
        *(part.alias(name) for name, part in parts.items()),
        F.coalesce("_key", unnamed).alias("key"),
        F.col("_raw").alias("raw"),
        F.coalesce("_refused", F.when(stray, F.lit("not_an_envelope"))).alias("refused"),
        *("file", "block", "ordinal"),
    )


def _choose(by_datum: Mapping[Datum, Column], otherwise: Column) -> Column:
    """What is of the schema that the record has."""
    result = otherwise
    for datum, column in by_datum.items():
        result = F.when(datum.mine, column).otherwise(result)
    return result


def _message(datum: Datum, wanted: Wanted, documents: bool) -> list[Column]:
    """An envelope's fields as text; what its schema lacks is NULL."""
    value, node = datum.value, datum.node
    block = _child(node, "source")
    told = value["source"] if block is not _NOTHING else F.lit(None)
    source = F.struct(*(_text(told, block, n).alias(n) for n in wanted.source))
    return [
        _image(value, node, "before", documents, wanted.old_columns).alias("before"),
        _image(value, node, "after", documents, None).alias("after"),
        F.when(told.isNotNull(), source).cast(wanted.source_type).alias("source"),
        *(_text(value, node, name).alias(name) for name in wanted.scalars),
        F.when(value.isNotNull(), F.lit(_types(node))).cast("string").alias("types"),
    ]


def _fields(node: Node) -> dict[str, Node]:
    return avro.fields_of(node) if node["type"] == "record" else {}


def _child(node: Node, name: str) -> Node:
    """The record in a field; one without fields where there is none."""
    found = avro.value_of(_fields(node).get(name, _NOTHING))
    return found if found["type"] == "record" else _NOTHING


def _text(value: Column, node: Node, name: str) -> Column:
    fields = _fields(node)
    text = connect_avro.text(value[name], fields[name]) if name in fields else F.lit(None)
    return text.cast("string")


def _is_document(node: Node, name: str) -> bool:
    field = _fields(node).get(name)
    return field is not None and avro.value_of(field)["type"] == "string"


def _has_documents(node: Node) -> bool:
    return _is_document(node, "after")


def _image(
    value: Column, node: Node, name: str, documents: bool, only: frozenset[str] | None
) -> Column:
    """A row as column → text; a document as its text."""
    if _is_document(node, name):
        return value[name]
    row = _child(node, name)
    image = F.lit(None).cast(IMAGE_TYPE) if row is _NOTHING else _row(value[name], row, only)
    return F.to_json(image, {"ignoreNullFields": "false"}) if documents else image


def _row(value: Column, row: Node, only: frozenset[str] | None = None) -> Column:
    """A record's texts by name; a key that is no record has no names."""
    names = list(_fields(row)) if only is None else sorted(only)
    keys = F.array(*(F.lit(name) for name in names)).cast("array<string>")
    texts = F.array(*(_text(value, row, name) for name in names)).cast("array<string>")
    return F.when(value.isNotNull() & F.lit(bool(names)), F.map_from_arrays(keys, texts))


def _types(node: Node) -> str | None:
    """The rows' types as a Connect schema; None where there are no rows."""
    rows = {name: _child(node, name) for name in ("before", "after")}
    fields = [connect_avro.row_schema(n, row) for n, row in rows.items() if row is not _NOTHING]
    return json.dumps({"type": "struct", "fields": fields}) if fields else None
