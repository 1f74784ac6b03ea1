"""Debezium JSON: with or without `schema`, as values or as key/value records; Avro likewise.

Source: formats.md 6.1. Order: PostgreSQL by the pair of `source.sequence`, MySQL and MariaDB by
(binlog file number, pos, row), Oracle by (commit_scn, scn, rs_id, ssn), SQL Server by
(commit_lsn, change_lsn, event_serial_no), MongoDB by (ts_ms, ord); without these, by arrival.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import SourceFile
from sluice.positions import KIND_FULL_LOAD, KIND_SOURCE
from spark_jobs.canonical import (
    IMAGE_TYPE,
    OUTCOME_EVENT,
    OUTCOME_IGNORE,
    OUTCOME_REJECT,
    number,
    place,
    quoted,
)
from spark_jobs.formats import avro, debezium_avro, tombstones
from spark_jobs.formats.base import NOTHING_KNOWN, Known, SourceColumn
from spark_jobs.formats.connect import row_columns

DEFAULT_PLACEHOLDER: Final = "__debezium_unavailable_value"
SOURCE_FIELDS: Final = (
    "connector", "db", "schema", "table", "collection", "snapshot", "ts_ms", "ts_us", "txId",
    "lsn", "sequence", "file", "pos", "row", "commit_scn", "scn", "rs_id", "ssn", "commit_lsn",
    "change_lsn", "event_serial_no", "ord",
)  # fmt: skip
_SOURCE: Final = "struct<" + ",".join(f"{name}:string" for name in SOURCE_FIELDS) + ">"
_SCALARS: Final = (
    "op", "ts_ms", "ts_us", "ts_ns", "status", "ddl", "databaseName", "schemaName"
)  # fmt: skip
_OPS: Final = {"c": "insert", "r": "insert", "u": "update", "d": "delete", "t": "truncate"}
_COMPONENT: Final = "_component_"
_DOCUMENT_TEXT: Final = "string"
_CONNECTOR: Final = r'"connector"\s*:\s*'


def _value_fields(before: str, after: str) -> str:
    scalars = ",".join(f"{name}:string" for name in _SCALARS)
    return f"before:{before},after:{after},source:{_SOURCE},{scalars}"


def _record_schema(before: str, after: str) -> str:
    """Every form at once: what a record has not costs nothing to ask for."""
    value = _value_fields(before, after)
    enveloped = f"schema:string,payload:struct<{value}>,{value}"
    top = ",".join(
        [
            f"before {before}",
            f"after {after}",
            f"source {_SOURCE}",
            *(f"{n} string" for n in _SCALARS),
        ]
    )
    return (
        f"{top},schema string,payload struct<{value}>,key {IMAGE_TYPE},"
        f"value struct<{enveloped}>,_corrupt_record string"
    )


class Debezium:
    """The decoder of `format: debezium`."""

    name: ClassVar[str] = "debezium"
    options: ClassVar[Mapping[str, str]] = {
        "unavailable_value": "placeholder of a large value that was not sent",
        "connector": "name of the connector, where the images are documents: mongodb",
        **debezium_avro.OPTIONS,
    }
    ignorable: ClassVar[str] = r'^\s*(null|\{\s*("key"\s*:.*,)?\s*"value"\s*:\s*null\s*\})\s*$'

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: Mapping[str, Any],
        known: Known = NOTHING_KNOWN,
    ) -> DataFrame:
        """Decode files of JSON and of Avro; a Kafka tombstone (null value) is ignored, counted."""
        wanted = debezium_avro.Wanted(SOURCE_FIELDS, _SCALARS, known.old_columns)
        in_avro = debezium_avro.find(spark, files, options)
        flats = debezium_avro.read_flat(spark, in_avro, options, wanted)
        scans = [_read_documents(f) if _is_text(f) else _read_rows(f, None) for f in flats]
        lines = tuple(f for f in files if f not in in_avro.all)
        if lines or not scans:
            scans.append(self._read_json(spark, lines, options, known))
        placeholder = str(options.get("unavailable_value", DEFAULT_PLACEHOLDER))
        envelope = _envelope(avro.union(scans), placeholder)
        return tombstones.as_deletes(envelope) if tombstones.wanted(options) else envelope

    def _read_json(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: Mapping[str, Any],
        known: Known,
    ) -> DataFrame:
        documents = options.get("connector") == "mongodb" or _holds_documents(spark, files)
        image = _DOCUMENT_TEXT if documents else IMAGE_TYPE
        few = None if documents else known.old_columns
        before = image if few is None else _struct_of(few)
        lines = spark.read.schema(_record_schema(before, image)).json([f.url for f in files])
        flat = lines.select(*_flatten(), *place())
        return _read_documents(flat) if documents else _read_rows(flat, few)

    def columns(self, types: str, options: Mapping[str, Any]) -> list[SourceColumn]:
        """The row's columns from a Connect schema."""
        return row_columns(types)


def _holds_documents(spark: SparkSession, files: tuple[SourceFile, ...]) -> bool:
    """MongoDB's images are JSON text inside JSON; a pipeline's files are of one connector."""
    lines = spark.read.text([f.url for f in files]) if files else None
    first = None if lines is None else lines.where(F.col("value").rlike(_CONNECTOR)).first()
    return first is not None and bool(re.search(_CONNECTOR + r'"mongodb"', first[0]))


def _is_text(flat: DataFrame) -> bool:
    return dict(flat.dtypes)["after"] == _DOCUMENT_TEXT


def _struct_of(columns: frozenset[str]) -> str:
    return f"struct<{','.join(f'{quoted(name)}:string' for name in sorted(columns))}>"


def _as_map(row: Column, columns: frozenset[str]) -> Column:
    """The image with these columns alone; the reader passes over the others unread."""
    pairs = [part for name in sorted(columns) for part in (F.lit(name), row[name])]
    return F.when(row.isNotNull(), F.create_map(*pairs))


def _read_rows(flat: DataFrame, old_columns: frozenset[str] | None) -> DataFrame:
    """Rows as they are; of the record's key its names are all that is needed."""
    if old_columns is not None:
        flat = flat.withColumn("before", _as_map(F.col("before"), old_columns))
    return flat.withColumn("key", F.map_keys("key"))


def _read_documents(flat: DataFrame) -> DataFrame:
    """Rows from documents, whose key is `_id`; the record's own key calls it `id`.

    A delete may come without its row: then the record's key is all of it there is.
    """
    before, after = (_document(F.col(c)) for c in ("before", "after"))
    ident = _document(F.concat(F.lit('{"_id":'), F.col("key")["id"], F.lit("}")))
    deleted = F.when(F.col("op") == "d", ident)
    told = F.col("op").isNotNull() | ident.isNotNull()
    images = {"before": F.coalesce(before, deleted), "after": after}
    return flat.withColumns({**images, "key": F.when(told, F.array(F.lit("_id")))})


def _document(text: Column) -> Column:
    """A document's top-level fields; numbers and ids of extended JSON as their own text."""
    wrapped = r'^\{"\$(?:numberLong|numberInt|numberDouble|numberDecimal|oid)":"([^"]*)"\}$'
    return F.transform_values(
        F.from_json(text, IMAGE_TYPE), lambda _, v: F.regexp_replace(v, wrapped, "$1")
    )


def _any(name: str) -> Column:
    """A field of the value, in whichever of the four forms the record has."""
    return F.expr(f"coalesce({name}, payload.{name}, value.{name}, value.payload.{name}) AS {name}")


def _flatten() -> list[Column]:
    fields = [_any(n) for n in ("before", "after", "source", *_SCALARS)]
    types = F.expr("coalesce(schema, value.schema) AS types")
    corrupt = F.col("_corrupt_record")
    refused = F.when(corrupt.isNotNull(), F.lit("not_json")).alias("refused")
    return [*fields, types, _key().alias("key"), corrupt.alias("raw"), refused]


def _key() -> Column:
    """The record's key by column, which may come with a schema of its own."""
    key = F.col("key")
    enveloped = F.array_contains(F.map_keys(key), "payload") & F.array_contains(
        F.map_keys(key), "schema"
    )
    inner = F.from_json(key["payload"], IMAGE_TYPE)
    return F.when(enveloped, inner).otherwise(key)


def _envelope(flat: DataFrame, placeholder: str) -> DataFrame:
    """The envelope's columns, with `absent`."""
    placed = flat.withColumns({"reason": _reason(), **_components()})
    ops = " ".join(f"WHEN '{op}' THEN '{name}'" for op, name in _OPS.items())
    return placed.select(
        _outcome().alias("outcome"),
        "reason",
        F.expr("coalesce(source.db, databaseName) AS database"),
        F.expr("coalesce(source.schema, schemaName) AS schema"),
        F.expr("coalesce(source.table, source.collection) AS table"),
        F.expr(f"CASE WHEN ddl IS NOT NULL THEN 'ddl' ELSE CASE op {ops} END END AS op"),
        _position().alias("position"),
        "before",
        "after",
        _absent(placeholder).alias("absent"),
        "key",
        "types",
        _source_ts().alias("source_ts"),
        F.expr("source.txId AS tx_id"),
        F.expr("CAST(NULL AS string) AS event_id"),
        "ddl",
        F.when(_outcome() == OUTCOME_REJECT, F.col("raw")).alias("raw"),
        "file",
        "block",
        "ordinal",
    )


def _absent(placeholder: str) -> Column:
    """Columns whose value an update did not send: the placeholder in each of its spellings."""
    raw = placeholder.encode()
    spellings = [placeholder, base64.b64encode(raw).decode(), raw.hex(), f'["{placeholder}"]']
    found = F.map_filter(F.col("after"), lambda _, v: v.isin(*spellings))
    sent = F.map_values("after")
    hits = [F.coalesce(F.array_contains(sent, s), F.lit(False)) for s in spellings]
    return F.when(reduce(or_, hits), F.map_keys(found))


def _image_missing() -> Column:
    needs_after = F.col("op").isin("c", "r", "u") & F.col("after").isNull()
    return needs_after | ((F.col("op") == "d") & F.col("before").isNull())


def _reason() -> Column:
    """Why a record is no event; NULL for an event."""
    ops = ", ".join(f"'{op}'" for op in _OPS)
    needs = "(op IN ('c', 'r', 'u') AND after IS NULL) OR (op = 'd' AND before IS NULL)"
    return F.expr(
        f"""CASE WHEN refused IS NOT NULL THEN refused
        WHEN op = 'm' THEN 'logical_message'
        WHEN op IN ({ops}) THEN CASE WHEN {needs} THEN 'image_missing' END
        WHEN ddl IS NOT NULL THEN NULL
        WHEN op IS NOT NULL THEN concat('unknown_op:', op)
        WHEN status IN ('BEGIN', 'END') THEN 'transaction_marker'
        WHEN key IS NOT NULL THEN 'tombstone'
        WHEN ts_ms IS NOT NULL AND source IS NULL THEN 'heartbeat'
        ELSE 'not_an_envelope' END"""
    )


def _outcome() -> Column:
    """From the reason."""
    passed = "'logical_message', 'transaction_marker', 'heartbeat', 'tombstone'"
    return F.expr(
        f"""CASE WHEN reason IS NULL THEN '{OUTCOME_EVENT}'
        WHEN reason IN ({passed}) THEN '{OUTCOME_IGNORE}' ELSE '{OUTCOME_REJECT}' END"""
    )


def _source_ts() -> Column:
    return F.expr(
        "coalesce(timestamp_micros(try_cast(source.ts_us AS bigint)), "
        "timestamp_millis(try_cast(source.ts_ms AS bigint)))"
    )


def _components() -> dict[str, Column]:
    """The texts of the position's components, by whichever connector wrote the event.

    A component that an event must have and has not is '': then the event has no position.
    """
    found = {}
    for index in range(_MOST_COMPONENTS):
        parts = {c: (*order, *["NULL"] * _MOST_COMPONENTS)[index] for c, order in _ORDERS.items()}
        cases = [f"WHEN {condition} THEN {part}" for condition, part in parts.items()]
        found[f"{_COMPONENT}{index}"] = F.expr(f"CASE {' '.join(cases)} END")
    return found


def _position() -> Column:
    texts = [F.col(f"{_COMPONENT}{index}") for index in range(_MOST_COMPONENTS)]
    numbers = [number(text) for text in texts]
    lacking = reduce(or_, (t.isNotNull() & n.isNull() for t, n in zip(texts, numbers, strict=True)))
    kind = F.expr(f"CASE WHEN op = 'r' THEN '{KIND_FULL_LOAD}' ELSE '{KIND_SOURCE}' END")
    return F.when(texts[0].isNotNull() & ~lacking, F.concat_ws(".", kind, *numbers))


def _required(text: str) -> str:
    return f"coalesce({text}, '')"


def _optional(text: str) -> str:
    return f"coalesce({text}, '0')"


def _hex(text: str, separator: str, index: int) -> str:
    """One of several hexadecimal numbers in a text, in decimal."""
    return f"conv(get(split({text}, '{separator}'), {index}), 16, 10)"


def _snapshot() -> tuple[str, ...]:
    """Below every change; a later snapshot of a row above an earlier one."""
    at = "coalesce(source.lsn, source.scn, source.pos)"
    read = "coalesce(ts_ns, concat(ts_us, '000'), concat(ts_ms, '000000'))"
    return tuple(
        _optional(f"CASE WHEN {text} RLIKE '^[0-9]+$' THEN {text} END") for text in (at, read)
    )


def _postgresql() -> tuple[str, ...]:
    """`sequence` is [last commit LSN, LSN]: alone, `lsn` goes back between transactions."""
    commit = "nullif(regexp_extract(source.sequence, '^.\"([0-9]+)\"', 1), '')"
    own = "nullif(regexp_extract(source.sequence, '\"([0-9]+)\".$', 1), '')"
    unpaired = "CASE WHEN source.sequence IS NULL THEN coalesce(source.lsn, '') ELSE '0' END"
    return f"coalesce({commit}, {unpaired})", f"coalesce({own}, source.lsn, '')"


def _mysql() -> tuple[str, ...]:
    file_number = "regexp_extract(source.file, '([0-9]+)$', 1)"
    return _required(file_number), _required("source.pos"), _optional("source.row")


def _oracle() -> tuple[str, ...]:
    rs_id = "regexp_replace(trim(source.rs_id), '^0x', '')"
    redo = (_optional(_hex(rs_id, "[.]", index)) for index in range(3))
    commit = "coalesce(source.commit_scn, source.scn, '')"
    return commit, _required("source.scn"), *redo, _optional("source.ssn")


def _sqlserver() -> tuple[str, ...]:
    lsns = ("source.commit_lsn", "source.change_lsn")
    halves = [_required(_hex(lsn, ":", index)) for lsn in lsns for index in range(3)]
    return *halves, _optional("source.event_serial_no")


_ORDERS: Final = {
    "op = 'r'": _snapshot(),
    "source.connector = 'postgresql'": _postgresql(),
    "source.connector IN ('mysql', 'mariadb')": _mysql(),
    "source.connector = 'oracle'": _oracle(),
    "source.connector = 'sqlserver'": _sqlserver(),
    "source.connector = 'mongodb'": (_required("source.ts_ms"), _required("source.ord")),
}
_MOST_COMPONENTS: Final = max(len(parts) for parts in _ORDERS.values())
