"""StreamX JSON, which DataWorks writes to Kafka and to DataHub Blob topics.

Order: `sequenceId` as an integer of any length; full-load rows (`-1`) below every change.
"""

from __future__ import annotations

import json
from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import FormatOptions, OmittedColumns, StreamxOptions
from sluice.manifest import SourceFile
from sluice.positions import HALF_MARK
from sluice.types.columns import BASE64, EXACT, STRING, ColumnType
from spark_jobs.canonical import (
    IMAGE_TYPE,
    OP_DDL,
    OP_DELETE,
    OP_INSERT,
    OP_TRUNCATE,
    OP_UPDATE,
    OP_UPDATE_AFTER,
)
from spark_jobs.formats.base import NO_PRIOR_FACTS, Format, PriorFacts, SourceColumn
from spark_jobs.formats.common import truncates
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    any_repeats_column,
    carried_key,
    instant,
    is_empty_image,
    lacking,
    line_or,
    looked_up,
    number_or_zero,
    outcome,
    read_lines,
    select_envelope,
)
from spark_jobs.position_text import full_load_position, number, source_position

_ROW_ID: Final = "#alibaba_rds_row_id#"
_NEW_HALF: Final = "UPDATE_AFTER"
_UPDATES: Final = (_NEW_HALF, "UPDATE")
_UPSERTS: Final = {"INSERT": OP_INSERT, **dict.fromkeys(_UPDATES, OP_UPDATE)}
_OLD_HALVES: Final = ("UPDATE_BEFOR", "UPDATE_BEFORE")
_DELETES: Final = ("DELETE", *_OLD_HALVES)
_DDL: Final = ("DDL", "CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX")
_TRUNCATE: Final = "TRUNCATE"
_IGNORED: Final = (
    "TRANSACTION_BEGIN", "TRANSACTION_END", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT",
)  # fmt: skip
_OPS: Final = {
    **_UPSERTS,
    **dict.fromkeys(_DELETES, OP_DELETE),
    **dict.fromkeys(_DDL, OP_DDL),
    _TRUNCATE: OP_TRUNCATE,
}
_TYPES: Final = {
    "BOOLEAN": ColumnType("boolean"),
    "LONG": ColumnType("bigint"),
    "DOUBLE": ColumnType("double", EXACT),
    "DATE": ColumnType("timestamp", "ms"),
    "BYTES": ColumnType("binary", "base64"),
    "STRING": STRING,
}
_FULL_LOAD: Final = "-1"
_IMAGE: Final = f"struct<dataColumn:{IMAGE_TYPE}>"
_SCHEMA: Final = f"""
    schema struct<dataColumn:string, primaryKey:array<string>,
        source:struct<dbType:string, dbName:string, schemaName:string, tableName:string>>,
    payload struct<before:{_IMAGE}, after:{_IMAGE}, sequenceId:string, scn:string, op:string,
        timestamp:struct<eventTime:string, systemTime:string, checkpointTime:string>,
        ddl:variant>
"""
"""`ddl` is a variant because in that alone Spark tells a null from a member that is missing."""


class StreamX(Format):
    """The decoder of `format: streamx`."""

    name: ClassVar[str] = "streamx"
    bytes_as: ClassVar[str] = BASE64
    unclear_truncates: ClassVar[str] = truncates.UNCLEAR

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: StreamxOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON-lines files; heartbeats and transaction markers are ignored and counted."""
        lines = read_lines(spark, files, _SCHEMA)
        absent = {"absent": _absent(options.omitted_columns)}
        return select_envelope(lines.select("*", *_flatten()), _envelope() | absent)

    def columns(self, types: str, options: FormatOptions) -> list[SourceColumn]:
        """Return the row's columns from `schema.dataColumn`; an undocumented type is text."""
        described = json.loads(types)
        return [SourceColumn(c["name"], _TYPES.get(c.get("type"), STRING)) for c in described]


def _flatten() -> list[Column]:
    """Return the parts of a message under short names."""
    parts = {
        "_op": "payload.op",
        "_sequence": "payload.sequenceId",
        "_event_time": "payload.timestamp.eventTime",
        "_system_time": "payload.timestamp.systemTime",
        "_table": "schema.source.tableName",
        "_ddl": "payload.ddl",
        "_primary_key": "schema.primaryKey",
        "before": "payload.before.dataColumn",
        "after": "payload.after.dataColumn",
    }
    return [F.col(path).alias(name) for name, path in parts.items()]


def _envelope() -> dict[str, Column]:
    ignored = F.col("_op").isin(*_IGNORED) & F.col(CORRUPT).isNull()
    reason = _reason()
    return {
        "outcome": outcome(ignored, reason),
        "reason": F.when(ignored, F.col("_op")).otherwise(reason),
        "database": F.col("schema.source.dbName"),
        "schema": F.col("schema.source.schemaName"),
        "table": F.col("_table"),
        "op": _op(),
        "position": _position(),
        "before": F.when(F.col("_op") != "INSERT", F.col("before")),
        "after": F.when(F.col("_op").isin(*_UPSERTS), F.col("after")),
        "key": _key(),
        "types": F.col("schema.dataColumn"),
        "source_ts": _source_ts(),
        "ddl": F.when(F.col("_op").isin(*_DDL, _TRUNCATE), _statement()),
        "raw": F.when(
            reason.isNotNull() & ~F.coalesce(ignored, F.lit(False)), line_or("schema", "payload")
        ),
    }


def _absent(omitted: OmittedColumns) -> Column:
    """The described columns that an update lacks and does not set to NULL, by the option.

    Where a record does not say `"ddl": null` its writer leaves NULLs out, as fastjson does by
    default: the vendor's page calls `ddl` null in messages of rows.
    """
    lacked = lacking(_described(), F.map_keys("after"))
    sent = {
        "auto": F.when(lacked.isNotNull() & F.col("_ddl").isNotNull(), lacked),
        "absent": lacked,
        "nulls": F.lit(None).cast("array<string>"),
    }
    return F.when(F.col("_op").isin(*_UPDATES), sent[omitted])


def _statement() -> Column:
    return F.try_variant_get("_ddl", "$.text", "string")


def _is_malformed_ddl() -> Column:
    """Whether `ddl` is neither missing, null nor an object; never NULL."""
    is_value = F.col("_ddl").isNotNull() & ~F.is_variant_null("_ddl")
    is_object = F.schema_of_variant("_ddl").startswith("OBJECT")
    return F.when(is_value, ~is_object).otherwise(F.lit(False))


def _op() -> Column:
    named = F.when(_is_second(), F.lit(OP_UPDATE_AFTER)).otherwise(looked_up(F.col("_op"), _OPS))
    return F.when(_truncates(), F.lit(OP_TRUNCATE)).otherwise(named)


def _is_second() -> Column:
    """Whether a message is its update's second one: an `UPDATE_AFTER` without the old row."""
    return (F.col("_op") == _NEW_HALF) & is_empty_image(F.col("before"))


def _truncates() -> Column:
    """Whether a record is a TRUNCATE, by its op or by its statement."""
    by_statement = truncates.empties(_statement(), F.col("_table"))
    return (F.col("_op") == _TRUNCATE) | (F.col("_op").isin(*_DDL) & by_statement)


def _reason() -> Column:
    op, unnamed = F.col("_op"), F.coalesce("_table", F.lit("")) == ""
    upsert, delete = op.isin(*_UPSERTS), op.isin(*_DELETES)
    supported = op.isin(*_OPS, *_IGNORED)
    bad_sequence = F.col("_sequence").isNotNull() & ~F.col("_sequence").rlike(r"^(-1|\d{1,99})$")
    lacks_image = (upsert & is_empty_image(F.col("after"))) | (
        delete & is_empty_image(F.col("before"))
    )
    twice = any_repeats_column(F.col("before"), F.col("after"))
    return (
        F.when(F.col(CORRUPT).isNotNull() | _is_malformed_ddl(), F.lit("not_json"))
        .when(op.isNull(), F.lit("not_an_envelope"))
        .when(~supported, F.concat(F.lit("unknown_op:"), op))
        .when((upsert | delete | (op == _TRUNCATE)) & unnamed, F.lit("table_missing"))
        .when(lacks_image, F.lit("image_missing"))
        .when(bad_sequence, F.lit("bad_sequence_id"))
        .when(twice, F.lit("duplicate_column"))
    )


def _position() -> Column:
    """Order by sequence; full-load rows by the time they were read, so a newer full load wins.

    HALF_MARK in the two messages of an update lets them be matched across records. Every
    _NEW_HALF has it, for its old row may be told twice: in it and in the other message.
    """
    sequence = F.col("_sequence")
    place = source_position(number(sequence))
    full_load = (sequence == _FULL_LOAD) | (F.col("_event_time") == _FULL_LOAD)
    return F.when(full_load, full_load_position(number_or_zero(F.col("_system_time")))).otherwise(
        F.when(_is_half(), F.concat(place, F.lit(HALF_MARK))).otherwise(place)
    )


def _is_half() -> Column:
    return F.col("_op").isin(*_OLD_HALVES, _NEW_HALF)


def _key() -> Column:
    """Return the primary key, else the hidden row id that the vendor adds to a table without one.

    A TRUNCATE has no row, so the described columns count as carried.
    """
    image = F.coalesce("after", "before")
    names, carried = (
        F.col("_primary_key"),
        F.when(_truncates(), _described()).otherwise(F.map_keys(image)),
    )
    hidden = F.when(F.map_contains_key(image, F.lit(_ROW_ID)), F.array(F.lit(_ROW_ID)))
    return F.when(F.size(names) > 0, carried_key(names, carried)).otherwise(hidden)


def _described() -> Column:
    """Return the names of the table's columns as described."""
    return F.from_json("schema.dataColumn", "array<struct<name:string>>")["name"]


def _source_ts() -> Column:
    """Return when the row changed; NULL for a full load."""
    millis = F.col("_event_time").try_cast("bigint")
    return F.when(millis >= 0, instant(millis))
