"""Read Debezium's files: JSON with the envelope in one of four places (`head.FORMS`), and Avro."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions
from sluice.manifest import SourceFile
from spark_jobs.canonical import IMAGE_TYPE
from spark_jobs.formats.base import PriorFacts
from spark_jobs.formats.common.envelope import CORRUPT, WHOLE_TEXTS, json_reader
from spark_jobs.formats.common.first_lines import first_lines
from spark_jobs.formats.common.scans import only_of, union
from spark_jobs.formats.debezium import avro as debezium_avro
from spark_jobs.formats.debezium import decimals as debezium_decimals
from spark_jobs.formats.debezium import documents as debezium_documents
from spark_jobs.formats.debezium import tombstones
from spark_jobs.formats.debezium import transactions as debezium_transactions
from spark_jobs.formats.debezium.connect_avro import Records
from spark_jobs.formats.debezium.head import FORMS, Head, read_head
from spark_jobs.formats.debezium.order import CONNECTORS, KEY_NAMES, MONGODB, source_fields
from spark_jobs.formats.debezium.reasons import FLATTENED, IS_HEARTBEAT
from spark_jobs.quoting import quoted
from spark_jobs.record_places import place

_SCALARS: Final = ("op", "ts_ms", "ts_us", "ts_ns", "status")
_DDL: Final = ("ddl", "databaseName", "schemaName", "tableChanges")
NOT_JSON: Final = "not_json"
_DOCUMENT_TEXT: Final = "string"
_IMAGES: Final = ("before", "after")
_FRACTION: Final = r":\s*-?\d++[.eE]"
_TEXT: Final = r'"(?:[^"\\]|\\.)*+"'
_BEFORE_NUMBER: Final = r"\s*:\s*(?=-?\d)"
# From the end of the last match, text by text: else one could begin at the end of a text.
_MEMBER: Final = (
    rf'(\G[^"]*+(?:{_TEXT}(?!{_BEFORE_NUMBER})[^"]*+)*+{_TEXT}{_BEFORE_NUMBER})(-?\d[\d.eE+-]*+)'
)
_ROUTING: Final = "__dbz__"
_CONNECTOR: Final = r'"connector"\s*:\s*'


@dataclass(frozen=True)
class Scanned:
    """The records of all files in one form, whatever form the files have.

    `head`: form and connector of the first event; `expected`: the same if every event must have it.
    `documents`: whether some images are MongoDB's documents.
    """

    flat: DataFrame
    head: Head | None
    expected: Head | None
    documents: bool


def scan(
    spark: SparkSession,
    by_kind: debezium_avro.AvroFiles,
    options: DebeziumOptions,
    facts: PriorFacts,
) -> Scanned:
    """Read all files, and of each record only the fields that its batch needs."""
    lines, messages = by_kind.json, debezium_avro.read(spark, by_kind, options)
    debezium_decimals.refuse_in_avro(options, messages)
    head = _head(spark, lines, options) or debezium_avro.read_head(messages)
    expected = _expected(head, facts, mixed=bool(lines and messages))
    transactions = debezium_transactions.FIELDS if facts.transactions else ()
    old = facts.old_columns
    scans = [_read_avro(some, expected, old, transactions) for some in messages]
    documents = options.connector == MONGODB or _holds_documents(spark, lines, head)
    any_documents = documents or any(map(debezium_avro.holds_documents, messages))
    if lines or not scans:
        more = _unusual(head, bool(messages), documents)
        layout = _layout(expected, documents, (*transactions, *more), old)
        flat = _scan_json(spark, by_kind, layout, expected, options)
        scans.append(_with_rejected(flat) if messages else flat)
    flat = debezium_documents.union_of(scans, options) if any_documents else union(scans)
    return Scanned(flat, head, expected, any_documents)


def _head(
    spark: SparkSession, lines: tuple[SourceFile, ...], options: DebeziumOptions
) -> Head | None:
    """Return form and connector of the first JSON event; raises TerminalError if its decimals are
    not in the form that the options say."""
    head = read_head(spark, lines)
    if head and head.described:
        debezium_decimals.refuse_other(first_lines(spark, lines), options)
    return head


def _expected(head: Head | None, facts: PriorFacts, mixed: bool) -> Head | None:
    """Return the form and connector that every event must have; None if they may differ."""
    ordered = head is not None and head.connector in CONNECTORS
    return head if ordered and not (facts.nothing or mixed) else None


@dataclass(frozen=True)
class _Layout:
    """The fields to read: places of the envelope, fields of `source`, scalars beside it, and of
    the row before those of `old_columns` (None: all). `documents`: the images are JSON text."""

    forms: tuple[str, ...]
    source: tuple[str, ...]
    scalars: tuple[str, ...]
    documents: bool
    old_columns: frozenset[str] | None


def _unusual(head: Head | None, avro: bool, documents: bool) -> tuple[str, ...]:
    """Return the scalars that only some files have: of removed envelopes where no first line is an
    event, of DataArts where no first line names a connector."""
    if avro or documents:
        return ()
    if head is None:
        return (*FLATTENED, IS_HEARTBEAT)
    return () if head.connector else (IS_HEARTBEAT,)


def _layout(
    expected: Head | None,
    documents: bool,
    more: Sequence[str],
    old: frozenset[str] | None,
) -> _Layout:
    """Return all fields, or those of the `expected` events only, for each field costs; with `more`
    scalars in any case."""
    scalars = (*_SCALARS, *more, *(debezium_documents.SCALARS if documents else ()))
    if expected is None:
        return _Layout(FORMS, source_fields(None), (*scalars, *_DDL), documents, old)
    source = source_fields(expected.connector)
    return _Layout((expected.form,), source, scalars, documents, old)


def _record_schema(layout: _Layout, before: str, after: str) -> str:
    """Return the schema of a record with the envelope in each of its places."""
    forms, source = layout.forms, _struct(dict.fromkeys(layout.source, "string"))
    fields = {"before": before, "after": after, "source": source}
    fields |= dict.fromkeys(layout.scalars, "string")
    envelope = {"": fields, "payload.": {"schema": "string", "payload": _struct(fields)}}
    top = [envelope[form] for form in ("", "payload.") if form in forms]
    inner = [envelope[form] for form in ("", "payload.") if f"value.{form}" in forms]
    if inner:
        value = _struct({name: kind for part in inner for name, kind in part.items()})
        top.append({"key": "string", "value": value})
    columns = [f"{name} {kind}" for part in top for name, kind in part.items()]
    return ",".join([*columns, f"{CORRUPT} string"])


def _struct(fields: Mapping[str, str]) -> str:
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields.items())}>"


def _holds_documents(spark: SparkSession, files: tuple[SourceFile, ...], head: Head | None) -> bool:
    """Whether images are MongoDB's, JSON text inside JSON; all files are of one connector."""
    if head:
        return head.connector == MONGODB
    lines = spark.read.text([f.url for f in files]) if files else None
    first = None if lines is None else lines.where(F.col("value").rlike(_CONNECTOR)).first()
    return first is not None and bool(re.search(_CONNECTOR + r'"mongodb"', first[0]))


def _read_avro(
    messages: Records,
    expected: Head | None,
    old_columns: frozenset[str] | None,
    transactions: Sequence[str],
) -> DataFrame:
    source = source_fields(expected.connector if expected else None)
    documents = debezium_avro.holds_documents(messages)
    more = debezium_documents.SCALARS if documents else ()
    scalars = (*_SCALARS, *_DDL, *transactions, *more)
    flat = debezium_avro.flat(messages, debezium_avro.Wanted(source, scalars, old_columns))
    if documents:
        return debezium_documents.with_rows(flat)
    return _with_key_names(_unrouted(flat, expected), False)


def _scan_json(
    spark: SparkSession,
    by_kind: debezium_avro.AvroFiles,
    layout: _Layout,
    expected: Head | None,
    options: DebeziumOptions,
) -> DataFrame:
    flat = _read_json(spark, by_kind.lines, layout)
    if not layout.documents:
        flat = _with_key_names(_unrouted(flat, expected), tombstones.wanted(options))
    return only_of(by_kind.json, flat, by_kind.lines)


def _read_json(spark: SparkSession, files: tuple[SourceFile, ...], layout: _Layout) -> DataFrame:
    image = _DOCUMENT_TEXT if layout.documents else IMAGE_TYPE
    few = None if layout.documents else layout.old_columns
    before = image if few is None else _struct(dict.fromkeys(map(quoted, sorted(few)), "string"))
    schema = _record_schema(layout, before, image)
    read = json_reader(spark, schema).json([f.url for f in files])
    keyed = read.withColumn("key", _key_by_column()) if "key" in read.columns else read
    flat = keyed.select(*_flatten(layout), *place())
    if layout.documents:
        return debezium_documents.with_rows(flat)
    return flat if few is None else flat.withColumn("before", _as_map(F.col("before"), few))


def _with_rejected(flat: DataFrame) -> DataFrame:
    """Add `rejected` as Avro's flat columns have it; JSON alone uses `raw`, at no cost."""
    return flat.withColumn("rejected", F.when(F.col("raw").isNotNull(), F.lit(NOT_JSON)))


def _as_map(row: Column, columns: frozenset[str]) -> Column:
    """The image as a map of these columns; the reader skips the others."""
    pairs = [part for name in sorted(columns) for part in (F.lit(name), row[name])]
    return F.when(row.isNotNull(), F.create_map(*pairs))


def _with_key_names(flat: DataFrame, deletes: bool) -> DataFrame:
    """Reduce `key` to its names; a delete without its row takes the key's values as its row.

    So does a tombstone where tombstones are `deletes`.
    """
    gone = F.col("op") == "d"
    if deletes:
        gone |= F.col("op").isNull() & F.col("source").isNull()
    row = F.when(gone & (F.size("key") > 0), F.col("key"))
    flat = flat.withColumn("before", F.coalesce("before", row))
    names = F.map_keys("key")
    if IS_HEARTBEAT in flat.columns:
        given = F.from_json(F.col("source")[KEY_NAMES], "array<string>")
        names = F.coalesce(names, F.array_compact(given))
    return flat.withColumn("key", names)


def _unrouted(flat: DataFrame, expected: Head | None) -> DataFrame:
    """Remove the key fields that Debezium's topic routing adds to identify the physical table.

    Not where tables are known: no known table has such a key, so the batch is read again with
    nothing known. The code for every record must stay small enough to be compiled.
    """
    if expected:
        return flat
    own = F.map_filter("key", lambda name, _: ~name.startswith(_ROUTING))
    return flat.withColumn("key", own)


def _flatten(layout: _Layout) -> list[Column]:
    forms = layout.forms
    fields = [_first(forms, name).alias(name) for name in (*_IMAGES, "source", *layout.scalars)]
    fields += [F.lit(None).cast("string").alias(n) for n in _DDL if n not in layout.scalars]
    schemas = [form.replace("payload.", "") for form in forms if "payload." in form]
    types = _first(schemas, "schema") if schemas else F.lit(None).cast("string")
    keyed = any(form.startswith("value.") for form in forms)
    key = _key_of(forms) if keyed else F.lit(None).cast(IMAGE_TYPE)
    return [*fields, types.alias("types"), key.alias("key"), F.col(CORRUPT).alias("raw")]


def _first(forms: Sequence[str], name: str) -> Column:
    """A field of the envelope, from whichever place the record has it at."""
    return F.expr(f"coalesce({', '.join(form + name for form in forms)})")


def _key_of(forms: Sequence[str]) -> Column:
    """The key of a change or a tombstone; NULL beside any other value."""
    is_keyed = F.col("value").isNull() | _first(forms, "op").isNotNull()
    return F.when(is_keyed, _key())


def _key_by_column() -> Column:
    """The record's key as a map; NULL for a number or a text, which names no columns.

    Fractions are quoted first: `from_json` would return a double's text, which no image has.
    """
    text = F.when(F.col("key").startswith("{"), F.col("key"))
    exact = F.when(text.rlike(_FRACTION), F.regexp_replace(text, _MEMBER, '$1"$2"'))
    return F.from_json(F.coalesce(exact, text), IMAGE_TYPE, WHOLE_TEXTS)


def _key() -> Column:
    """The record's key by column, taken out of its schema where it has one."""
    key = F.col("key")
    enveloped = F.array_contains(F.map_keys(key), "payload") & F.array_contains(
        F.map_keys(key), "schema"
    )
    inner = F.from_json(key["payload"], IMAGE_TYPE)
    return F.when(enveloped, inner).otherwise(key)
