"""Debezium: JSON with or without `schema`, as values or as key/value records, and Avro.

The rules are in docs/formats/debezium.md; they come from the specification's 6.1. A JSON record has
its envelope in one of four places (`head.FORMS`); `avro.py` reads Avro;
`order.py` has the order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions
from sluice.manifest import SourceFile
from sluice.types.columns import BASE64
from spark_jobs.canonical import IMAGE_TYPE, OUTCOME_REJECT, place, quoted
from spark_jobs.formats.base import COUNTS, NOTHING_KNOWN, Format, Known, SourceColumn
from spark_jobs.formats.common import tombstones, truncates
from spark_jobs.formats.common.connect import row_columns
from spark_jobs.formats.common.connect_avro import Records
from spark_jobs.formats.common.default_table import DefaultTable, in_schema
from spark_jobs.formats.common.envelope import (
    WHOLE_TEXTS,
    instant,
    instant_of_micros,
    only_of,
    union,
    with_arrival,
)
from spark_jobs.formats.common.first_lines import first_lines
from spark_jobs.formats.common.tombstones import NULL
from spark_jobs.formats.common.unsent import any_unsent, unsent
from spark_jobs.formats.debezium import avro as debezium_avro
from spark_jobs.formats.debezium import decimals as debezium_decimals
from spark_jobs.formats.debezium import documents as debezium_documents
from spark_jobs.formats.debezium import transactions as debezium_transactions
from spark_jobs.formats.debezium.head import (
    FORMS,
    HEARTBEAT,
    TRANSACTION_MARKER,
    Head,
    misread,
    read_head,
)
from spark_jobs.formats.debezium.names import names, table_of
from spark_jobs.formats.debezium.ops import kind_sql, op
from spark_jobs.formats.debezium.order import (
    CONNECTORS,
    MONGODB,
    ORACLE,
    sharing,
    source_fields,
    with_position,
)
from spark_jobs.formats.debezium.reasons import FLATTENED, holds_more, outcome, reason

_SCALARS: Final = ("op", "ts_ms", "ts_us", "ts_ns", "status")
_DDL: Final = ("ddl", "databaseName", "schemaName", "tableChanges")
_NOT_JSON: Final = "not_json"
_DOCUMENT_TEXT: Final = "string"
_IMAGES: Final = ("before", "after")
_FRACTION: Final = r":\s*-?\d++[.eE]"
_MEMBER: Final = r'("(?:[^"\\]|\\.)*+"\s*:\s*)(-?\d[\d.eE+-]*+)'
_ROUTING: Final = "__dbz__"
_CONNECTOR: Final = r'"connector"\s*:\s*'


@dataclass(frozen=True)
class _Layout:
    """The fields to read: places of the envelope, fields of `source`, scalars beside it, and of
    the row before those of `old_columns` (None: all). `documents`: the images are JSON text."""

    forms: tuple[str, ...]
    source: tuple[str, ...]
    scalars: tuple[str, ...]
    documents: bool
    old_columns: frozenset[str] | None


def _layout(
    expected: Head | None,
    documents: bool,
    enveloped: bool,
    transactions: Sequence[str],
    old: frozenset[str] | None,
) -> _Layout:
    """Return all fields, or those of the `expected` events only, for each field costs.

    Where no first line is an `enveloped` event, FLATTENED is read too: the envelopes may have been
    removed.
    """
    scalars = (*_SCALARS, *transactions, *(debezium_documents.SCALARS if documents else ()))
    if expected is None:
        flattened = () if enveloped or documents else FLATTENED
        return _Layout(FORMS, source_fields(None), (*scalars, *_DDL, *flattened), documents, old)
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
    return ",".join([*columns, "_corrupt_record string"])


def _struct(fields: Mapping[str, str]) -> str:
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields.items())}>"


class Debezium(Format):
    """The decoder of `format: debezium`."""

    name: ClassVar[str] = "debezium"
    bytes_as: ClassVar[str] = BASE64
    plain: ClassVar[frozenset[str]] = COUNTS
    tells_defaults: ClassVar[bool] = True
    ignorable: ClassVar[str] = (
        rf'^\s*({NULL}|\{{\s*("key"\s*:.*,)?\s*"value"\s*:\s*{NULL}\s*\}})\s*$'
    )

    seeming: ClassVar[frozenset[str]] = frozenset({TRANSACTION_MARKER, HEARTBEAT})
    unclear_truncates: ClassVar[str] = truncates.UNTOLD
    states_other_tables: ClassVar[bool] = True

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: DebeziumOptions,
        known: Known = NOTHING_KNOWN,
    ) -> DataFrame:
        """Decode JSON and Avro files; Kafka tombstones (null values) are ignored and counted.

        Where tables are known, only the first event's form and connector are read: a record of
        another is rejected, which makes the batch be read again with nothing known.
        """
        by_kind = debezium_avro.find(spark, files, options)
        lines, messages = by_kind.json, debezium_avro.read(spark, by_kind, options)
        debezium_decimals.refuse_in_avro(options, messages)
        head = read_head(spark, lines)
        if head and head.described:
            debezium_decimals.refuse_other(first_lines(spark, lines), options)
        head = head or debezium_avro.read_head(messages)
        expected = _expected(head, known, mixed=bool(lines and messages))
        transactions = debezium_transactions.FIELDS if known.transactions else ()
        old = known.old_columns
        scans = [_read_avro(some, expected, old, transactions) for some in messages]
        documents = options.connector == MONGODB or _holds_documents(spark, lines, head)
        any_documents = documents or any(map(debezium_avro.holds_documents, messages))
        if lines or not scans:
            layout = _layout(expected, documents, bool(head or messages), transactions, old)
            flat = _scan_json(spark, by_kind, layout, expected, options)
            scans.append(_with_refused(flat) if messages else flat)
        flat = debezium_documents.union_of(scans, options) if any_documents else union(scans)
        shared = sharing(options)
        if any_documents or head is None or head.connector in shared:
            flat = with_arrival(spark, flat, files)
        absent = _absent_columns(options, known, expected, any_documents)
        others = frozenset[str]() if head else misread(spark, lines)
        connector = expected.connector if expected else None
        table = in_schema(options.table)
        judged = _judged(flat, connector, others, table)
        placed = with_position(judged, connector, shared)
        envelope = _envelope(placed, absent, connector, table)
        return tombstones.as_deletes(envelope) if tombstones.wanted(options) else envelope

    def columns(self, types: str, options: DebeziumOptions) -> list[SourceColumn]:
        """The row's columns from a Connect schema."""
        return row_columns(types, debezium_decimals.is_numeric(options))

    def is_event(self, line: Column) -> Column:
        """Every change has an operation."""
        return line.contains('"op"')

    def holds_more(self, line: Column) -> Column:
        """See `reasons.holds_more`."""
        return holds_more(line)


def _expected(head: Head | None, known: Known, mixed: bool) -> Head | None:
    """Return the form and connector that every event must have; None where they may differ."""
    ordered = head is not None and head.connector in CONNECTORS
    return head if ordered and not (known.nothing or mixed) else None


def _absent_columns(
    options: DebeziumOptions, known: Known, expected: Head | None, any_documents: bool
) -> list[Column]:
    """The columns that an event lacks, and those of its old row where it may lack values that a
    table without a key needs."""
    absent = [_absent(options, known.partial, any_documents).alias("absent")]
    if known.old_columns is None and (expected is None or expected.connector == ORACLE):
        absent.append(_old_absent(options))
    return absent


def _absent(options: DebeziumOptions, partial: bool, any_documents: bool) -> Column:
    """The columns that an event lacks; without `partial` only whether it lacks any."""
    absent = (unsent if partial else any_unsent)(F.col("after"), options.unavailable_value)
    return F.coalesce(debezium_documents.PARTIAL, absent) if any_documents else absent


def _old_absent(options: DebeziumOptions) -> Column:
    """The columns whose old value a record lacks: every LOB of Oracle, changed or not."""
    of_oracle = F.col("source.connector") == ORACLE
    missing = unsent(F.col("before"), options.unavailable_value)
    return F.when(of_oracle, missing).alias("old_absent")


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
    by_kind: debezium_avro.Files,
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
    read = spark.read.schema(schema).options(**WHOLE_TEXTS).json([f.url for f in files])
    keyed = read.withColumn("key", _key_by_column()) if "key" in read.columns else read
    flat = keyed.select(*_flatten(layout), *place())
    if layout.documents:
        return debezium_documents.with_rows(flat)
    return flat if few is None else flat.withColumn("before", _as_map(F.col("before"), few))


def _with_refused(flat: DataFrame) -> DataFrame:
    """Add `refused` as Avro's flat columns have it; JSON alone uses `raw`, at no cost."""
    return flat.withColumn("refused", F.when(F.col("raw").isNotNull(), F.lit(_NOT_JSON)))


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
    return flat.withColumn("key", F.map_keys("key"))


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
    return [*fields, types.alias("types"), key.alias("key"), F.col("_corrupt_record").alias("raw")]


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


def _judged(
    flat: DataFrame, connector: str | None, others: frozenset[str], table: DefaultTable
) -> DataFrame:
    """Add `kind`, the operation that a record names, and `reason`, why it is no event.

    `connector`: reject the events of all others. `others`: kinds of records that are not what they
    seem, see `misread`. `table`: the table of changes that name none.
    """
    not_json = f"raw IS NOT NULL THEN '{_NOT_JSON}'"
    refused = "refused IS NOT NULL THEN refused" if "refused" in flat.columns else not_json
    named = flat.withColumn("kind", F.expr(kind_sql()))
    why = reason(connector, refused, frozenset(flat.columns), others, table_of(connector, table))
    return named.withColumn("reason", why)


def _envelope(
    placed: DataFrame, absent: Sequence[Column], connector: str | None, table: DefaultTable
) -> DataFrame:
    """Select the envelope's columns and `absent`, by the arguments of `_judged`."""
    transaction = debezium_transactions.columns() if "transaction" in placed.columns else []
    parts = names(connector, table)
    return placed.select(
        outcome().alias("outcome"),
        "reason",
        *(part.alias(name) for name, part in parts.items()),
        op(parts["table"]).alias("op"),
        "position",
        "before",
        "after",
        *absent,
        "key",
        "types",
        _source_ts().alias("source_ts"),
        F.expr("source.txId AS tx_id"),
        F.expr("CAST(NULL AS string) AS event_id"),
        "ddl",
        F.when(outcome() == OUTCOME_REJECT, F.col("raw")).alias("raw"),
        "file",
        "block",
        "ordinal",
        *transaction,
    )


def _source_ts() -> Column:
    micros, millis = (F.col(f"source.{name}").try_cast("bigint") for name in ("ts_us", "ts_ms"))
    return F.coalesce(instant_of_micros(micros), instant(millis))
