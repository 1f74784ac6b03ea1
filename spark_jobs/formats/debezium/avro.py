"""Debezium in Avro, read into the flat columns that `decoder.py` makes of JSON.

Container files hold envelopes, or records of `key` and `value`, which may be wire messages. Other
files hold wire messages (`confluent.py`) or Avro's JSON encoding (`avro_json.py`). Values become
the texts of Connect's JSON converter (`connect_avro.py`), so later steps are those of JSON. The
rules are in docs/formats/debezium-avro.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions, Layout
from sluice.containers.avro_schemas import Schemas, open_schemas
from sluice.errors import TerminalError, landed_again
from sluice.manifest import AVRO, SourceFile
from spark_jobs.canonical import IMAGE_TYPE
from spark_jobs.evaluated_once import in_own_projection
from spark_jobs.formats.common import avro
from spark_jobs.formats.common.avro import Node
from spark_jobs.formats.common.scans import by_schema
from spark_jobs.formats.debezium import avro_json, confluent, connect_avro
from spark_jobs.formats.debezium.connect_avro import Datum, Records
from spark_jobs.formats.debezium.head import MARKER, SIGNS, Head
from spark_jobs.record_places import PLACE, place

_JSON_ENCODING: Final[Layout] = "avro_json"
_ENVELOPE_FIELDS: Final = ("op", "status", "ddl", "tableChanges", "ts_ms")
# The fields of a change and of schema changes; a row may have a column with one of these names.
_MAKES: Final = ({"op", "source"}, {"ddl", "source"}, {"tableChanges", "source"})
_SOURCE_NAME: Final = re.compile(r"io\.debezium\.connector\.(\w+)\.Source")
_WITH_IMAGE: Final = ("c", "r", "u", "d")
_PARSED: Final = "_parsed"
_NOTHING: Final[Node] = {"type": "record", "name": "nothing", "fields": []}


@dataclass(frozen=True)
class Wanted:
    """The flat columns to make: fields of `source`, scalars beside it, columns of `before`."""

    source: tuple[str, ...]
    scalars: tuple[str, ...]
    old_columns: frozenset[str] | None

    @property
    def source_type(self) -> str:
        """The Spark type of `source`."""
        return f"struct<{','.join(f'{name}:string' for name in self.source)}>"


@dataclass(frozen=True)
class AvroFiles:
    """A batch's files, by their kind of Avro.

    `lines`: all but the containers. They hold wire messages (`are_messages`), Avro's JSON encoding
    after a line of schemas (`headed`, by that line), or JSON.
    """

    containers: tuple[SourceFile, ...]
    lines: tuple[SourceFile, ...]
    are_messages: bool
    headed: Mapping[str, list[SourceFile]]

    @property
    def json(self) -> tuple[SourceFile, ...]:
        """The files without Avro."""
        headed = {file for files in self.headed.values() for file in files}
        return () if self.are_messages else tuple(f for f in self.lines if f not in headed)


def find(spark: SparkSession, files: tuple[SourceFile, ...], options: DebeziumOptions) -> AvroFiles:
    """Sort the files into containers and, by `layout`, the others; see `avro_json.headers`.

    Raises TerminalError for files that do not fit the layout.
    """
    layout = options.layout
    containers = tuple(f for f in files if f.container == AVRO)
    lines = tuple(f for f in files if f.container != AVRO)
    if layout not in (None, _JSON_ENCODING):
        return AvroFiles(containers, lines, bool(lines), {})
    required = layout is not None
    sorted_files = AvroFiles(containers, lines, False, avro_json.headers(spark, lines, required))
    if required and (without := [f.key for f in sorted_files.json]):
        raise TerminalError(
            f"{without}: no line KEYSCHEMA^VALUESCHEMA gives the Avro schemas: have them written "
            "with it, take `layout` out of format_options if they are JSON, or keep them out of "
            f"landing.pattern; {landed_again()}"
        )
    return sorted_files


def read(spark: SparkSession, files: AvroFiles, options: DebeziumOptions) -> list[Records]:
    """Read the records of all files, in a scan for each kind of file and schema."""

    @cache
    def schemas() -> Schemas:
        return open_schemas(options.schemas, options.schema_registry)

    scans = [avro_json.records(spark, *headed, files.lines) for headed in files.headed.items()]
    if files.are_messages:
        scans.append(confluent.records(confluent.base64_lines(spark, files.lines), schemas()))
    for (_, schema), group in by_schema(files.containers).items():
        scans.append(_container(spark, schema, group, schemas))
    return scans


def read_head(messages: Iterable[Records]) -> Head | None:
    """Return the connector in the names of the schemas; None if there is none, or several."""
    sources = (_child(datum.node, "source") for some in messages for datum in some.values)
    matches = {_SOURCE_NAME.fullmatch(node["name"]) for node in sources if node is not _NOTHING}
    names = {match and match[1] for match in matches}
    name = names.pop() if len(names) == 1 else None
    return Head("", name) if name else None


def holds_documents(messages: Records) -> bool:
    """Whether images are MongoDB's documents, each one text."""
    return any(_is_document(datum.node, "after") for datum in messages.values)


def _container(
    spark: SparkSession,
    schema: str,
    files: tuple[SourceFile, ...],
    schemas: Callable[[], Schemas],
) -> Records:
    """Read files of one schema: envelopes, or records of `key` and `value`."""
    node = connect_avro.resolve([json.loads(schema)], files[0].key)
    fields = _fields(node)
    plain = json.dumps(connect_avro.writer_schema(node))

    reader = spark.read.format("avro").option("avroSchema", plain)
    record = in_own_projection(F.struct("*")).alias("record")
    rows = reader.load([f.url for f in files]).select(record, *place())
    value = Datum(F.lit(True), F.col("record"), node)
    if "value" in fields:
        value = Datum(F.lit(True), F.col("record")["value"], avro.value_of(fields["value"]))
    if value.node["type"] == "bytes":
        return confluent.records(_carried(rows, fields), schemas())
    if not _is_envelope(value.node):
        raise TerminalError(
            f"{files[0].key} is not a Debezium Avro file: its records, or the `value` in them, "
            "need the fields of an envelope; take it out of the pipeline's landing pattern"
        )
    return _records(rows, fields, value)


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
        rejected=F.lit(None),
        raw=F.to_json("record"),
    )


def _carried(rows: DataFrame, fields: Mapping[str, Node]) -> DataFrame:
    """The wire messages in the records of a container; see `confluent.records`."""
    record = F.col("record")
    keyed = "key" in fields and avro.value_of(fields["key"])["type"] == "bytes"
    key = record["key"] if keyed else F.lit(None)
    return rows.select(
        key.cast("binary").alias("key"),
        record["value"].alias("value"),
        F.base64(record["value"]).alias("text"),
        F.lit(None).cast("string").alias("broken"),
        *PLACE,
    )


def flat(messages: Records, wanted: Wanted) -> DataFrame:
    """Make the flat columns, with `rejected`: why a record is no message.

    `key` and the images are maps of texts; documents are one text.
    """
    documents = holds_documents(messages)
    nothing = Datum(F.lit(True), F.lit(None), _NOTHING)
    envelopes = [datum for datum in messages.values if _is_envelope(datum.node)]
    shown = {d: F.struct(*_message(d, wanted, documents)) for d in envelopes}
    keys = {d: _row(d.value, d.node) for d in messages.keys}
    parsed = F.struct(
        _choose(shown, F.struct(*_message(nothing, wanted, documents))).alias("message"),
        _choose(keys, F.lit(None).cast(IMAGE_TYPE)).alias("key"),
        messages.empty.alias("empty"),
        messages.rejected.cast("string").alias("rejected"),
    )
    once = messages.rows.withColumn(_PARSED, in_own_projection(parsed))
    return once.select(*_columns(wanted, documents), _raw(messages.raw).alias("raw"), *PLACE)


def _raw(text: Column) -> Column:
    """The text of a record that may be rejected; NULL for a complete change, which never is."""
    message, rejected = F.col(_PARSED)["message"], F.col(_PARSED)["rejected"]
    image = F.when(message["op"] == "d", message["before"]).otherwise(message["after"])
    source = message["source"]
    named = F.coalesce(source["table"], source["collection"]) != ""
    complete = message["op"].isin(*_WITH_IMAGE) & image.isNotNull() & named & rejected.isNull()
    return F.when(~F.coalesce(complete, F.lit(False)), text.cast("string"))


def _columns(wanted: Wanted, documents: bool) -> list[Column]:
    """The other columns of `flat`, without the place."""
    parsed = F.col(_PARSED)
    message, key, empty = parsed["message"], parsed["key"], parsed["empty"]
    parts = {n: message[n] for n in ("before", "after", "source", *wanted.scalars, "types")}
    no_envelope = reduce(and_, (message[name].isNull() for name in _ENVELOPE_FIELDS))
    stray = F.when(~empty & no_envelope, F.lit("not_an_envelope"))
    if not documents:
        parts["before"] = F.coalesce(message["before"], F.when(empty, key))
    # A null value is a tombstone whatever its key; a key counts only beside a change.
    unnamed = F.when(empty, F.create_map().cast(IMAGE_TYPE))
    parts["key"] = F.coalesce(F.when(empty | message["op"].isNotNull(), key), unnamed)
    parts["rejected"] = F.coalesce(parsed["rejected"], stray)
    return [part.alias(name) for name, part in parts.items()]


def _choose(by_datum: Mapping[Datum, Column], otherwise: Column) -> Column:
    """The column of the schema that the record has; `otherwise` for none of them."""
    if not by_datum:
        return otherwise
    (first, column), *others = by_datum.items()
    cases = F.when(first.applies, column)
    for datum, other in others:
        cases = cases.when(datum.applies, other)
    return cases.otherwise(otherwise)


def _message(datum: Datum, wanted: Wanted, documents: bool) -> list[Column]:
    """An envelope's fields as text; NULL for those that its schema lacks."""
    value, node = datum.value, datum.node
    block = _child(node, "source")
    origin = value["source"] if block is not _NOTHING else F.lit(None)
    source = F.struct(*(_text(origin, block, n).alias(n) for n in wanted.source))
    return [
        _image(value, node, "before", documents, wanted.old_columns).alias("before"),
        _image(value, node, "after", documents, None).alias("after"),
        F.when(origin.isNotNull(), source).cast(wanted.source_type).alias("source"),
        *(_text(value, node, name).alias(name) for name in wanted.scalars),
        F.when(value.isNotNull(), F.lit(_types(node))).cast("string").alias("types"),
    ]


def _is_envelope(node: Node) -> bool:
    names = _fields(node).keys()
    marker = bool(names & {"ts_ms", "status"}) and names <= MARKER
    return marker or names >= SIGNS or any(make <= names for make in _MAKES)


def _fields(node: Node) -> dict[str, Node]:
    return avro.fields_of(node) if node["type"] == "record" else {}


def _child(node: Node, name: str) -> Node:
    """Return the record type of a field; one without fields where it has none."""
    child = avro.value_of(_fields(node).get(name, _NOTHING))
    return child if child["type"] == "record" else _NOTHING


def _text(value: Column, node: Node, name: str) -> Column:
    fields = _fields(node)
    text = connect_avro.text(value[name], fields[name]) if name in fields else F.lit(None)
    return text.cast("string")


def _is_document(node: Node, name: str) -> bool:
    field = _fields(node).get(name)
    return field is not None and avro.value_of(field)["type"] == "string"


def _image(
    value: Column, node: Node, name: str, documents: bool, only: frozenset[str] | None
) -> Column:
    """A row as a map of texts by column; a document as one text."""
    if _is_document(node, name):
        return value[name]
    row = _child(node, name)
    image = F.lit(None).cast(IMAGE_TYPE) if row is _NOTHING else _row(value[name], row, only)
    return F.to_json(image, {"ignoreNullFields": "false"}) if documents else image


def _row(value: Column, row: Node, only: frozenset[str] | None = None) -> Column:
    """A record as a map of texts by field; NULL for a key that is no record."""
    names = list(_fields(row)) if only is None else sorted(only)
    if not names:
        return F.lit(None).cast(IMAGE_TYPE)
    fields = _fields(row)
    nothing = (F.lit(None).cast("string"), {"type": "string"})
    values = [(value[name], fields[name]) if name in fields else nothing for name in names]
    keys = F.array(*(F.lit(name) for name in names))
    return F.when(value.isNotNull(), F.map_from_arrays(keys, connect_avro.texts(values)))


def _types(node: Node) -> str | None:
    """Return the rows' types as a Connect schema; None without rows."""
    rows = {name: _child(node, name) for name in ("before", "after")}
    fields = [connect_avro.row_schema(n, row) for n, row in rows.items() if row is not _NOTHING]
    return json.dumps({"type": "struct", "fields": fields}) if fields else None
