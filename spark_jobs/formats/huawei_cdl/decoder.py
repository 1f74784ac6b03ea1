"""Huawei CDL JSON in both message versions: 1.0, CDL's own, and 2.0, which is like Debezium's.

The rules are in docs/formats/huawei_cdl.md; they come from Huawei Cloud MRS, "CDL JSON and
open-source Debezium JSON data formats". Its table 1 pairs the fields of the versions, and so does
this decoder: one set of names, then one set of rules.
Order: MySQL by (binlog file number, pos, row), Oracle by (commit_scn, scn, rs_id, ssn) where the
message has these, else by `lsn`, after a last commit's LSN where there is one (`source.sequence`),
and inside one `lsn` by arrival; snapshot rows below every change; without any of these, by arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import HuaweiCdlOptions
from sluice.manifest import SourceFile
from sluice.types.columns import BASE64, STRING, ColumnType, decimal
from spark_jobs.canonical import IMAGE_TYPE, OP_DDL, OP_DELETE, OP_INSERT, OP_TRUNCATE, OP_UPDATE
from spark_jobs.formats.base import COUNTS, NO_PRIOR_FACTS, Format, PriorFacts, SourceColumn
from spark_jobs.formats.common import truncates
from spark_jobs.formats.common.connect import NULL, connect_type, row_fields, source_column
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    ZERO,
    any_repeats_column,
    carried_key,
    instant,
    is_empty_image,
    line_or,
    looked_up,
    or_zero,
    outcome,
    read_lines,
    repeats,
    select_envelope,
    with_numbers,
)
from spark_jobs.formats.common.scans import ARRIVAL, with_arrival
from spark_jobs.formats.huawei_cdl.lobs import left_out, lob_columns, old_left_out
from spark_jobs.formats.huawei_cdl.old_rows import all_but_key, deleted_row, old_row
from spark_jobs.position_text import full_load_position, hex_number, source_position

_VERSIONS: Final = ("1.0", "2.0")
_UPSERTS: Final = {"INSERT": OP_INSERT, "UPDATE": OP_UPDATE, "c": OP_INSERT, "r": OP_INSERT,
                  "u": OP_UPDATE}  # fmt: skip
_DELETES: Final = ("DELETE", "d")
_TRUNCATES: Final = ("TRUNCATE", "t")
_DDL: Final = "DDL"
_OPS: Final = {
    **_UPSERTS,
    **dict.fromkeys(_DELETES, OP_DELETE),
    **dict.fromkeys(_TRUNCATES, OP_TRUNCATE),
    _DDL: OP_DDL,
}
_HEARTBEAT: Final = "HEARTBEAT"
_HEARTBEAT_SCHEMA: Final = "cdc_cdl"
_HEARTBEAT_TABLE: Final = "cdc_heartbeat"
_LOGICAL_MESSAGE: Final = "m"
_IMAGES: Final = ("after", "data", "before")
_PROPERTIES: Final = (
    "lsn", "txId", "file", "pos", "row", "commit_scn", "scn", "rs_id", "ssn"
)  # fmt: skip
_VENDOR_DECIMAL: Final = ".cdc.data.decimal"
_VENDOR_TIMESTAMP: Final = ".cdc.data.timestamp"
_MOST_DIGITS: Final = 38
_HEX_LSN: Final = r"^([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})$"
_BINLOG_LSN: Final = r"^.+[.](\d+)[:/](\d+)$"
_SQLSERVER_LSN: Final = r"^([0-9A-Fa-f]+):([0-9A-Fa-f]+):([0-9A-Fa-f]+)$"
_RS_ID: Final = tuple(rf"^\s*(?:0x)?(?:[0-9a-fA-F]+[.]){{{i}}}([0-9a-fA-F]+)" for i in range(3))
_NO_LSN: Final = r"^(\s*|-\d+)$"
_SOURCE: Final = ",".join(
    f"{n}:string" for n in ("ts_ms", "snapshot", "db", "schema", "table", "sequence", *_PROPERTIES)
)
_SCALARS: Final = (
    "message_version", "SEG_OWNER", "TABLE_NAME", "TIMESTAMP", "OPERATION", "op", "ts_ms",
    "LOB_COLUMNS", "HEARTBEAT_IDENTIFIER", "status", "ddl",
)  # fmt: skip
_PAYLOAD: Final = {
    **dict.fromkeys(_SCALARS, "string"),
    "source": f"struct<{_SOURCE}>",
    "transaction": "struct<properties:array<struct<name:string, value:string>>>",
    **dict.fromkeys(("unique", "data", "before", "after"), IMAGE_TYPE),
}
_WRAPPED: Final = ", ".join(f"`{name}`:{kind}" for name, kind in _PAYLOAD.items())
_BARE: Final = ", ".join(f"`{name}` {kind}" for name, kind in _PAYLOAD.items())
_SCHEMA: Final = f"schema string, payload struct<{_WRAPPED}>, {_BARE}"


class HuaweiCdl(Format):
    """The decoder of `format: huawei_cdl`."""

    name: ClassVar[str] = "huawei_cdl"
    bytes_as: ClassVar[str] = BASE64
    plain: ClassVar[frozenset[str]] = COUNTS
    describes_defaults: ClassVar[bool] = True
    unclear_truncates: ClassVar[str] = truncates.UNCLEAR
    ignorable: ClassVar[str] = rf"^\s*{NULL}\s*$"

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: HuaweiCdlOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON-lines files; heartbeats and markers are ignored and counted.

        The envelope also has `absent` and `old_absent`.
        """
        whole = read_lines(spark, files, _SCHEMA).withColumn("payload", _message())
        lines = with_arrival(spark, whole.drop(*_PAYLOAD), files)
        flat = lines.select("*", *_flatten(options.database or None))
        parsed = flat.withColumn("_lsn", F.when(~F.col("_lsn").rlike(_NO_LSN), F.col("_lsn")))
        parsed = parsed.select("*", _op().alias("op"), _ignored().alias("_ignored"))
        placed = with_numbers(parsed, _numbers()).withColumns(
            {"position": _position(), "_old_row": old_row()}
        )
        placeholders = options.unavailable_value
        judged = placed.withColumns(
            {
                "old_absent": F.coalesce(old_left_out(placeholders), all_but_key()),
                "_reason": _reason(),
                "_left_out": left_out(placeholders),
            }
        )
        return select_envelope(judged, _envelope())

    def columns(self, types: str, options: HuaweiCdlOptions) -> list[SourceColumn]:
        """The row's columns from the message's Connect schema."""
        fields = row_fields(types, _IMAGES)
        return [source_column(f, _column_type(f)) for f in fields]


def _column_type(field: dict[str, Any]) -> ColumnType:
    """Return a field's type; the vendor's semantic types are strings, under any company prefix."""
    name = str(field.get("name") or "").lower()
    if field["type"] != "string":
        return connect_type(field)
    if name.endswith(_VENDOR_TIMESTAMP):
        return ColumnType("timestamp_ntz")
    if name.endswith(_VENDOR_DECIMAL):
        return _decimal(field.get("parameters") or {})
    return connect_type(field)


def _decimal(parameters: Mapping[str, Any]) -> ColumnType:
    """Return the type of a decimal in text; text where its scale is missing or does not fit."""
    scale = int(parameters.get("scale", -1))
    precision = int(parameters.get("connect.decimal.precision", _MOST_DIGITS))
    return decimal(precision, scale) if 0 <= scale <= precision <= _MOST_DIGITS else STRING


def _message() -> Column:
    """The message: `payload`, or the record itself of a converter without schemas."""
    return F.coalesce("payload", F.struct(*_PAYLOAD))


def _flatten(database: str | None) -> list[Column]:
    """The parts of a message of version 1.0 or 2.0, paired as in the page's table 1."""
    pairs = {
        "_op": (_operation("OPERATION"), _operation("op")),
        "_after": (_payload("data"), _payload("after")),
        "database": (F.lit(database).cast("string"), _source("db")),
        "schema_": (_payload("SEG_OWNER"), _source("schema")),
        "table": (_payload("TABLE_NAME"), _source("table")),
        "_time": (_payload("TIMESTAMP"), _source("ts_ms")),
        **{f"_{n}": (_property(n), _source(n)) for n in _PROPERTIES},
    }
    version, operation = _payload("message_version"), _payload("OPERATION")
    second = F.coalesce(version == _VERSIONS[1], operation.isNull())
    return [F.when(second, two).otherwise(one).alias(name) for name, (one, two) in pairs.items()]


def _payload(name: str) -> Column:
    return F.col("payload")[name]


def _operation(name: str) -> Column:
    """The operation of one version; NULL if it is blank."""
    return F.when(F.trim(_payload(name)) != "", _payload(name))


def _source(name: str) -> Column:
    return _payload("source")[name]


def _properties() -> Column:
    return _payload("transaction")["properties"]


def _property(name: str) -> Column:
    """The value of one of the name/value pairs of version 1.0."""
    return F.get(F.filter(_properties(), lambda p: p["name"] == name), 0)["value"]


def _envelope() -> dict[str, Column]:
    ignored, op, reason = F.col("_ignored"), F.col("_op"), F.col("_reason")
    upsert = op.isin(*_UPSERTS)
    schema = F.col("schema")
    return {
        "outcome": outcome(ignored.isNotNull(), reason),
        "reason": F.coalesce(ignored, reason),
        "schema": F.col("schema_"),
        "before": F.col("_old_row"),
        "after": F.when(upsert, F.col("_after")),
        "key": _key(),
        "types": F.when(schema.startswith("{"), schema),
        "source_ts": _source_ts(),
        "tx_id": F.col("_txId"),
        "ddl": F.when(F.col("op") == OP_DDL, _payload("ddl")),
        "raw": F.when(ignored.isNull() & reason.isNotNull(), line_or("schema", "payload")),
        "absent": F.when(upsert & (F.size("_left_out") > 0), F.col("_left_out")),
        "old_absent": F.col("old_absent"),
    }


def _op() -> Column:
    """The operation; a statement without one is DDL, as in Debezium's schema changes."""
    op = F.col("_op")
    statement = op.isNull() & _payload("ddl").isNotNull()
    named = F.when(statement, OP_DDL).otherwise(looked_up(op, _OPS))
    stated = (named == OP_DDL) & truncates.empties(_payload("ddl"), F.col("table"))
    return F.when(stated, OP_TRUNCATE).otherwise(named)


def _ignored() -> Column:
    """The reason to ignore a record that is no table's event; NULL for all others.

    The heartbeat's identifier alone is not enough: rows carry it too. A heartbeat may have a row's
    operation, which the schema requires, but no part of a row and no key.
    """
    op = F.col("_op")
    images = (~is_empty_image(_payload(n)) for n in (*_IMAGES, "unique"))
    empty = ~reduce(or_, images, _payload("ddl").isNotNull())
    bare = empty & ~reduce(or_, (_operation(n).isNotNull() for n in ("OPERATION", "op")))
    rowless = empty & op.isin(*_UPSERTS)
    own = _payload("HEARTBEAT_IDENTIFIER").isNotNull()
    debezium = _payload("ts_ms").isNotNull() & _payload("source").isNull()
    table = F.lower("schema_").eqNullSafe(_HEARTBEAT_SCHEMA) & (
        F.lower("table") == _HEARTBEAT_TABLE
    )
    return F.when(F.col(CORRUPT).isNotNull() | ~_version_known(), None).otherwise(
        F.when(table | (op == _HEARTBEAT), F.lit("heartbeat"))
        .when(op == _LOGICAL_MESSAGE, F.lit("logical_message"))
        .when(bare & _payload("status").isin("BEGIN", "END"), F.lit("transaction_marker"))
        .when((bare & (own | debezium)) | (rowless & own), F.lit("heartbeat"))
    )


def _version_known() -> Column:
    return F.coalesce(_payload("message_version"), F.lit(_VERSIONS[0])).isin(*_VERSIONS)


def _reason() -> Column:
    op = F.col("_op")
    upsert, delete = op.isin(*_UPSERTS), op.isin(*_DELETES)
    lacks_image = (upsert & is_empty_image(F.col("_after"))) | (delete & deleted_row().isNull())
    images = (F.col("_after"), _payload("before"), _payload("unique"))
    file = F.when(F.col("_file") != "", F.col("_file"))
    has_place = F.coalesce("_lsn", file, "_pos", "_commit_scn", "_scn").isNotNull()
    lobs = _payload("LOB_COLUMNS").isNotNull() & lob_columns().isNull()
    version = F.concat(F.lit("unknown_version:"), _payload("message_version"))
    unnamed = F.coalesce("table", F.lit("")) == ""
    return (
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json"))
        .when(~_version_known(), version)
        .when(F.col("op").isNull() & op.isNull(), F.lit("not_an_envelope"))
        .when(F.col("op").isNull(), F.concat(F.lit("unknown_op:"), op))
        .when(op.isin(*_OPS) & (op != _DDL) & unnamed, F.lit("table_missing"))
        .when(lacks_image, F.lit("image_missing"))
        .when(has_place & F.col("position").isNull(), F.lit("bad_position"))
        .when(any_repeats_column(*images), F.lit("duplicate_column"))
        .when(repeats(_properties()["name"]), F.lit("duplicate_property"))
        .when(lobs, F.lit("bad_lob_columns"))
    )


def _position() -> Column:
    """The place in the source's log; a snapshot row has its place and the time of reading."""
    taken = F.lower(_source("snapshot")) != "false"
    snapshot = (F.col("_op") == "r") | ((F.col("_op") == "c") & taken)
    below = full_load_position(or_zero("_n_lsn"), or_zero("_n_read"))
    return F.when(snapshot, below).otherwise(F.coalesce(_mysql(), _oracle(), _by_lsn()))


def _numbers() -> dict[str, Column]:
    """The texts of all numbers of a place; NULL, or no digits, where there is none."""
    redo = (F.regexp_extract("_rs_id", part, 1) for part in _RS_ID)
    sql = (F.regexp_extract(_parted_lsn(), _SQLSERVER_LSN, i) for i in (1, 2, 3))
    return {
        "_n_file": F.regexp_extract("_file", r"(?<!\d)(\d++)$", 1),
        "_n_pos": F.col("_pos"),
        "_n_row": F.col("_row"),
        "_n_commit": F.coalesce("_commit_scn", "_scn"),
        "_n_scn": F.col("_scn"),
        **{f"_n_redo{i}": hex_number(digits) for i, digits in enumerate(redo)},
        "_n_ssn": F.col("_ssn"),
        **{f"_n_log{i}": F.regexp_extract(_parted_lsn(), _BINLOG_LSN, i) for i in (1, 2)},
        **{f"_n_sql{i}": hex_number(digits) for i, digits in enumerate(sql)},
        "_n_first": F.regexp_extract(_source("sequence"), r'^\["([0-9]+)"', 1),
        "_n_lsn": _lsn(),
        "_n_read": _payload("ts_ms"),
    }


def _parted_lsn() -> Column:
    """An LSN of several numbers; NULL for a single one, which needs no pattern."""
    lsn = F.col("_lsn")
    return F.when(lsn.contains(":") | lsn.contains("/"), lsn)


def _mysql() -> Column:
    return source_position(F.col("_n_file"), F.col("_n_pos"), or_zero("_n_row"))


def _oracle() -> Column:
    """Oracle's place; only the scn is required, other missing parts count as zero."""
    within = (*(f"_n_redo{i}" for i in range(len(_RS_ID))), "_n_ssn")
    return source_position(F.col("_n_commit"), F.col("_n_scn"), *map(or_zero, within))


def _by_lsn() -> Column:
    """The place of the LSN, then arrival: several changes of a row may have one LSN.

    Without a key the position stays the LSN, which alone identifies a repeated change.
    """
    place = F.coalesce(_binlog_lsn(), _sqlserver_lsn(), _lsn_pair())
    ordered = F.concat(place, F.lit("."), F.col(ARRIVAL))
    return F.when(F.size(F.map_keys(_payload("unique"))) > 0, ordered).otherwise(place)


def _binlog_lsn() -> Column:
    """An LSN that is a place in MySQL's binary log: `mysql-bin.000003:1234`."""
    return source_position(F.col("_n_log1"), F.col("_n_log2"), F.lit(ZERO))


def _sqlserver_lsn() -> Column:
    """An LSN of three hexadecimal numbers, SQL Server's: `00000025:00000728:0003`."""
    return source_position(*(F.col(f"_n_sql{i}") for i in range(3)))


def _lsn_pair() -> Column:
    """The pair (last commit's LSN, LSN); without the first the LSN for both.

    The LSN alone orders the changes of one row, which is locked until the commit.
    """
    return source_position(F.coalesce("_n_first", "_n_lsn"), F.col("_n_lsn"))


def _lsn() -> Column:
    """An LSN as a number; `16/B374D848` is one number in two halves."""
    text = _parted_lsn()
    high, low = (F.regexp_extract(text, _HEX_LSN, index) for index in (1, 2))
    whole = hex_number(F.concat(high, F.lpad(low, 8, "0")))
    return F.when(text.rlike(_HEX_LSN), whole).otherwise(F.col("_lsn"))


def _key() -> Column:
    """The columns of `unique`; NULL if the row lacks any."""
    image = F.coalesce(F.col("_after"), deleted_row())
    named = F.map_keys(_payload("unique"))
    return carried_key(named, F.map_keys(image))


def _source_ts() -> Column:
    """The time of the change; NULL outside of the calendar's years."""
    millis = F.col("_time").try_cast("bigint")
    return instant(millis)
