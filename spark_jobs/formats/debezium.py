"""Debezium JSON: with or without `schema`, as values or as key/value records.

Source: formats.md 6.1. Order: PostgreSQL by the pair of `source.sequence`, MySQL and MariaDB by
(binlog file number, pos, row), Oracle by (commit_scn, scn, rs_id, ssn), SQL Server by
(commit_lsn, change_lsn, event_serial_no), MongoDB by (ts_ms, ord); without these, by arrival.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import reduce
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import SourceFile
from spark_jobs.canonical import (
    IMAGE_TYPE,
    OUTCOME_EVENT,
    OUTCOME_IGNORE,
    OUTCOME_REJECT,
    full_load_position,
    number,
    place,
    source_position,
)
from spark_jobs.formats.base import SourceColumn
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
_DOCUMENT_TEXT: Final = "string"
_CONNECTOR: Final = r'"connector"\s*:\s*'


def _value_fields(image: str) -> str:
    scalars = ",".join(f"{name}:string" for name in _SCALARS)
    return f"before:{image},after:{image},source:{_SOURCE},{scalars}"


def _record_schema(image: str) -> str:
    """Every form at once: what a record has not costs nothing to ask for."""
    value = _value_fields(image)
    enveloped = f"schema:string,payload:struct<{value}>,{value}"
    top = ",".join(
        [
            f"before {image}",
            f"after {image}",
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
    }
    ignorable: ClassVar[str] = r'^\s*(null|\{\s*("key"\s*:.*,)?\s*"value"\s*:\s*null\s*\})\s*$'

    def read(
        self, spark: SparkSession, files: tuple[SourceFile, ...], options: Mapping[str, Any]
    ) -> DataFrame:
        """Decode JSON-lines files; a Kafka tombstone (null value) is ignored and counted."""
        documents = options.get("connector") == "mongodb" or _holds_documents(spark, files)
        image = _DOCUMENT_TEXT if documents else IMAGE_TYPE
        lines = spark.read.schema(_record_schema(image)).json([f.url for f in files])
        flat = lines.select(*_flatten(), *place())
        flat = _read_documents(flat) if documents else flat.withColumn("key", F.map_keys("key"))
        placeholder = str(options.get("unavailable_value", DEFAULT_PLACEHOLDER))
        return flat.select(*_envelope(placeholder))

    def columns(self, types: str, options: Mapping[str, Any]) -> list[SourceColumn]:
        """The row's columns from a Connect schema."""
        return row_columns(types)


def _holds_documents(spark: SparkSession, files: tuple[SourceFile, ...]) -> bool:
    """MongoDB's images are JSON text inside JSON; a pipeline's files are of one connector."""
    lines = spark.read.text([f.url for f in files]) if files else None
    first = None if lines is None else lines.where(F.col("value").rlike(_CONNECTOR)).first()
    return first is not None and bool(re.search(_CONNECTOR + r'"mongodb"', first[0]))


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
    places = (name, f"payload.{name}", f"value.{name}", f"value.payload.{name}")
    return F.coalesce(*(F.col(p) for p in places)).alias(name)


def _flatten() -> list[Column]:
    fields = [_any(n) for n in ("before", "after", "source", *_SCALARS)]
    types = F.coalesce("schema", "value.schema").alias("types")
    return [*fields, types, _key().alias("key"), F.col("_corrupt_record").alias("raw")]


def _key() -> Column:
    """The record's key by column, which may come with a schema of its own."""
    key = F.col("key")
    enveloped = F.array_contains(F.map_keys(key), "payload") & F.array_contains(
        F.map_keys(key), "schema"
    )
    inner = F.from_json(key["payload"], IMAGE_TYPE)
    return F.when(enveloped, inner).otherwise(key)


def _envelope(placeholder: str) -> list[Column]:
    op = reduce(
        lambda c, o: c.when(F.col("op") == o, F.lit(_OPS[o])),
        _OPS,
        F.when(F.col("ddl").isNotNull(), F.lit("ddl")),
    )
    source = F.col("source")
    absent = _absent(placeholder)
    return [
        _outcome().alias("outcome"),
        _reason().alias("reason"),
        F.coalesce(source["db"], F.col("databaseName")).alias("database"),
        F.coalesce(source["schema"], F.col("schemaName")).alias("schema"),
        F.coalesce(source["table"], source["collection"]).alias("table"),
        op.alias("op"),
        _position().alias("position"),
        "before",
        "after",
        absent.alias("absent"),
        "key",
        "types",
        _source_ts().alias("source_ts"),
        source["txId"].alias("tx_id"),
        F.lit(None).cast("string").alias("event_id"),
        "ddl",
        "raw",
        "file",
        "block",
        "ordinal",
    ]


def _absent(placeholder: str) -> Column:
    """Columns whose value an update did not send: the placeholder in each of its spellings."""
    raw = placeholder.encode()
    spellings = [placeholder, base64.b64encode(raw).decode(), raw.hex(), f'["{placeholder}"]']
    values = F.array(*(F.lit(s) for s in spellings))
    found = F.map_filter(F.col("after"), lambda _, v: F.array_contains(values, v))
    hit = F.arrays_overlap(F.map_values("after"), values)
    return F.when(hit, F.map_keys(found))


def _image_missing() -> Column:
    needs_after = F.col("op").isin("c", "r", "u") & F.col("after").isNull()
    return needs_after | ((F.col("op") == "d") & F.col("before").isNull())


def _reason() -> Column:
    marker = F.col("status").isin("BEGIN", "END")
    beat = F.col("ts_ms").isNotNull() & F.col("source").isNull()
    return (
        F.when(F.col("raw").isNotNull(), F.lit("not_json"))
        .when(F.col("op") == "m", F.lit("logical_message"))
        .when(F.col("op").isin(*_OPS), F.when(_image_missing(), F.lit("image_missing")))
        .when(F.col("ddl").isNotNull(), F.lit(None))
        .when(F.col("op").isNotNull(), F.concat(F.lit("unknown_op:"), F.col("op")))
        .when(marker, F.lit("transaction_marker"))
        .when(F.col("key").isNotNull(), F.lit("tombstone"))
        .when(beat, F.lit("heartbeat"))
        .otherwise(F.lit("not_an_envelope"))
    )


def _outcome() -> Column:
    reason = _reason()
    ignored = ("logical_message", "transaction_marker", "heartbeat", "tombstone")
    return (
        F.when(reason.isNull(), F.lit(OUTCOME_EVENT))
        .when(reason.isin(*ignored), F.lit(OUTCOME_IGNORE))
        .otherwise(F.lit(OUTCOME_REJECT))
    )


def _source_ts() -> Column:
    source = F.col("source")
    return F.coalesce(
        F.timestamp_micros(source["ts_us"].try_cast("bigint")),
        F.timestamp_millis(source["ts_ms"].try_cast("bigint")),
    )


def _position() -> Column:
    source = F.col("source")
    connector = source["connector"]
    streamed = (
        F.when(connector == "postgresql", _postgresql(source))
        .when(connector.isin("mysql", "mariadb"), _mysql(source))
        .when(connector == "oracle", _oracle(source))
        .when(connector == "sqlserver", _sqlserver(source))
        .when(
            connector == "mongodb", source_position(number(source["ts_ms"]), number(source["ord"]))
        )
    )
    return F.when(F.col("op") == "r", _snapshot(source)).otherwise(streamed)


def _snapshot(source: Column) -> Column:
    """Below every change; a later snapshot of a row above an earlier one."""
    at = F.coalesce(source["lsn"], source["scn"], source["pos"], F.lit("0"))
    read = F.coalesce(
        F.col("ts_ns"),
        F.concat("ts_us", F.lit("000")),
        F.concat("ts_ms", F.lit("000000")),
        F.lit("0"),
    )
    return full_load_position(
        F.coalesce(number(at), F.lit("010")), F.coalesce(number(read), F.lit("010"))
    )


def _postgresql(source: Column) -> Column:
    """`sequence` is [last commit LSN, LSN]: alone, `lsn` goes back between transactions."""
    commit = number(F.regexp_extract(source["sequence"], r'^\["(\d+)"', 1))
    own = number(F.regexp_extract(source["sequence"], r'"(\d+)"\]$', 1))
    unpaired = F.when(source["sequence"].isNull(), number(source["lsn"])).otherwise(F.lit("010"))
    return source_position(F.coalesce(commit, unpaired), F.coalesce(own, number(source["lsn"])))


def _mysql(source: Column) -> Column:
    file_number = number(F.regexp_extract(source["file"], r"(\d+)$", 1))
    return source_position(
        file_number, number(source["pos"]), F.coalesce(number(source["row"]), F.lit("010"))
    )


def _oracle(source: Column) -> Column:
    parts = F.split(F.regexp_replace(F.trim(source["rs_id"]), "^0x", ""), r"\.")
    redo = [
        F.coalesce(number(F.conv(F.get(parts, F.lit(i)), 16, 10)), F.lit("010")) for i in range(3)
    ]
    commit = F.coalesce(number(source["commit_scn"]), number(source["scn"]))
    ssn = F.coalesce(number(source["ssn"]), F.lit("010"))
    return source_position(commit, number(source["scn"]), *redo, ssn)


def _hex_parts(lsn: Column) -> list[Column]:
    parts = F.split(lsn, ":")
    return [number(F.conv(F.get(parts, F.lit(i)), 16, 10)) for i in range(3)]


def _sqlserver(source: Column) -> Column:
    serial = F.coalesce(number(source["event_serial_no"]), F.lit("010"))
    return source_position(
        *_hex_parts(source["commit_lsn"]), *_hex_parts(source["change_lsn"]), serial
    )
