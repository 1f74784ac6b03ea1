"""Canal JSON: of Alibaba's Canal, Alibaba DTS (in both forms), Huawei DRS, TiCDC and others.

The rules are in docs/formats/canal.md. Source: Alibaba Cloud DTS, "Data formats of a message
queue", section "Canal Json", and Canal's flat messages. Order: messages have no place in the
source's log, so they go by arrival (object, record, row in the record), unless `order` names a
field that orders or TiCDC sends the transaction's `_tidb.commitTs`; the statements of its storage
sink are in schema files. Rows of a full load (INIT) rank below every change, among themselves by
the time when the job wrote them (`ts`, `id`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import BY_ARRIVAL, COMMIT_TS, CanalOptions, Form
from sluice.ddl.defaults import OF_MYSQL
from sluice.manifest import SourceFile
from sluice.types.columns import ColumnType
from sluice.types.mysql import is_known, mysql_type
from spark_jobs.canonical import (
    IMAGE_TYPE,
    OP_DDL,
    OP_DELETE,
    OP_INSERT,
    OP_TRUNCATE,
    OP_UPDATE,
    SOURCE_PARTS,
)
from spark_jobs.expressions import changed_where
from spark_jobs.formats.base import NO_PRIOR_FACTS, Format, PriorFacts, SourceColumn
from spark_jobs.formats.canal import values as canal_values
from spark_jobs.formats.canal.bare_rows import has_bare_row
from spark_jobs.formats.canal.row_statements import beside_rows, instead_of_rows
from spark_jobs.formats.common import truncates
from spark_jobs.formats.common.default_table import DefaultTable, in_database
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    LAST_MILLISECOND,
    is_empty_image,
    lacking,
    line_or,
    looked_up,
    number_or_zero,
    outcome,
    read_lines,
    repeats_column,
    select_envelope,
    spelled_as,
)
from spark_jobs.formats.common.overlaid_rows import overlaid
from spark_jobs.formats.common.row_image import absent_columns
from spark_jobs.formats.common.scans import ARRIVAL, arrival_position, with_arrival
from spark_jobs.position_text import full_load_position, number, source_position
from spark_jobs.quoting import quoted
from spark_jobs.record_places import PLACE

_SWAPPED: Final[Form] = "dts_before_20220320"
_DRS: Final[Form] = "drs_json"
_DRS_C: Final[Form] = "drs_json_c"
_FULL_LOAD: Final = "INIT"
_INSERTS: Final = ("INSERT", _FULL_LOAD)
_DDL: Final = (
    "CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX", "DDL", "INIT_DDL",
)  # fmt: skip
_SCHEMA_FILE: Final = "SCHEMA_FILE"
_IGNORED: Final = ("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "TIDB_WATERMARK", _SCHEMA_FILE)
_OPS: Final = {
    **dict.fromkeys(_INSERTS, OP_INSERT),
    "UPDATE": OP_UPDATE,
    "DELETE": OP_DELETE,
    "TRUNCATE": OP_TRUNCATE,
    **dict.fromkeys(_DDL, OP_DDL),
}
_ROW_OPS: Final = (OP_INSERT, OP_UPDATE, OP_DELETE)
_HIDDEN_KEYS: Final = ("__#alibaba_rds_row_id#__", "_drds_implicit_id_")
_HEARTBEAT: Final = "HEARTBEAT"
_ROWS_QUERY: Final = "ROWS_QUERY"
_TRUE: Final = "true"
# In milliseconds this is a day of April 1970.
_LAST_OF_TEN_DIGITS: Final = 9_999_999_999
_TEXTS: Final = (
    "database", "schema", "table", "type", "isDdl", "isHeartbeat", "sql", "id", "es", "ts", "gtid",
)  # fmt: skip
_FIELDS: Final = {
    **dict.fromkeys(_TEXTS, "string"),
    "pkNames": "array<string>",
    "mysqlType": IMAGE_TYPE,
    # Text, so that no shape of it makes a message invalid.
    "sqlType": "string",
    "data": f"array<{IMAGE_TYPE}>",
    "old": f"array<{IMAGE_TYPE}>",
    "updateBefore": f"array<{IMAGE_TYPE}>",
    "_tidb": "struct<commitTs:string, onlyHandleKey:string, claimCheckLocation:string>",
}
_OF_SCHEMA_FILES: Final = dict.fromkeys(("Schema", "Table", "TableVersion", "Query"), "string")
# Below a timestamp of TiDB: a counter.
_BITS_BELOW_MILLISECONDS: Final = 18


class Canal(Format):
    """The decoder of `format: canal`."""

    name: ClassVar[str] = "canal"
    # Canal writes an ENUM's index and a SET's bits, other senders of this form their labels.
    labels: ClassVar[frozenset[str]] = OF_MYSQL
    unclear_truncates: ClassVar[str] = truncates.UNCLEAR

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: CanalOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON-lines files into one row for each row of each message."""
        parsed = _parse(options)
        messages = _read(spark, files, parsed).withColumns(_parts(parsed))
        judged = messages.withColumn("reason", _reason(parsed)).withColumns(_described())
        good = F.when(F.col("reason").isNull(), F.col("_rows"))
        rows = judged.select("*", F.posexplode_outer(good).alias("_index", "_row"))
        imaged = rows.withColumn("_old", F.get("_olds", F.col("_index"))).withColumns(
            _images(parsed)
        )
        parts = _logged_in_part() if options.is_partial else {}
        return select_envelope(imaged, {**_envelope(parsed), **parts})

    def columns(self, types: str, options: CanalOptions) -> list[SourceColumn]:
        """Return the columns of `mysqlType`, without those of an unknown type.

        `sqlType` is not used: it has no unsigned types, in Canal its JDBC code changes with a
        column's value, and in DTS it has numbers of its own. It only shows how JSON is written.
        """
        described = json.loads(types)
        pairs = zip(described["names"], described["types"], strict=True)
        read = _drs_type if options.form == _DRS else mysql_type
        return [SourceColumn(name, read(text)) for name, text in pairs if is_known(text or "")]


def _drs_type(text: str) -> ColumnType:
    """Return a column's type in DRS, which writes a TIMESTAMP in seconds since 1970."""
    counted = text.strip().lower().startswith("timestamp")
    return ColumnType("timestamp", "s") if counted else mysql_type(text)


@dataclass(frozen=True)
class _Options:
    """The parsed options; `order` is '' for arrival."""

    form: Form
    order: str
    table: DefaultTable

    @property
    def swapped(self) -> bool:
        """Whether `old` has the new row of an update."""
        return self.form == _SWAPPED

    @property
    def deletes_in_old(self) -> bool:
        """Whether a deleted row is in `old`."""
        return self.form in (_SWAPPED, _DRS)

    @property
    def lists_bytes(self) -> bool:
        """Whether bytes may be lists of their numbers."""
        return self.form in (_DRS, _DRS_C)


def _parse(options: CanalOptions) -> _Options:
    order = "" if options.order == BY_ARRIVAL else options.order
    return _Options(options.form, order, in_database(options.table))


def _read(spark: SparkSession, files: tuple[SourceFile, ...], options: _Options) -> DataFrame:
    """Read the messages, with their order in `_order` and `_arrival`."""
    added = {} if options.order in ("", COMMIT_TS, *_FIELDS) else {options.order: "string"}
    fields = {**_FIELDS, **_OF_SCHEMA_FILES, **added}
    schema = ", ".join(f"{quoted(name)} {kind}" for name, kind in fields.items())
    lines = with_arrival(spark, read_lines(spark, files, schema), files)
    by_commit = options.order in ("", COMMIT_TS)
    committed = F.coalesce(F.col(COMMIT_TS), F.col("TableVersion"))
    order = committed if by_commit else F.col(quoted(options.order))
    messages = lines.withColumns(_of_schema_file(applies=options.order == COMMIT_TS))
    return messages.select(*_FIELDS, CORRUPT, *PLACE, ARRIVAL, order.alias("_order"))


def _of_schema_file(applies: bool) -> dict[str, Column]:
    """Return the fields of messages; schema files of TiCDC's storage sink are turned into messages.

    A schema file has a statement and the time of its commit, or only describes a table. Source:
    TiCDC's `cloudstorage.TableDefinition`. `applies`: whether statements are used. They must not be
    if rows are ordered by arrival, since every row then ranks below them: a TRUNCATE would empty
    its table for ever.
    """
    is_one = F.col("type").isNull() & F.col("TableVersion").isNotNull()
    stated, version = F.nullif("Query", F.lit("")), F.col("TableVersion").try_cast("bigint")
    counts = stated.isNotNull() & F.lit(applies)
    schema_file_fields = {
        "type": F.when(counts, F.lit("QUERY")).otherwise(F.lit(_SCHEMA_FILE)),
        "database": F.col("Schema"),
        "table": F.col("Table"),
        "sql": stated,
        "es": F.shiftright(version, _BITS_BELOW_MILLISECONDS).cast("string"),
    }
    return changed_where(is_one, schema_file_fields)


def _parts(options: _Options) -> dict[str, Column]:
    """A message's operation, table and rows: `_rows`, with their old values in `_olds`."""
    names = _names(options)
    op, data = _op(names["_table"]), _filled("data")
    old = F.coalesce(_filled("old"), _filled("updateBefore"))
    inserted = F.coalesce(old, data) if options.swapped else data
    deleted, stray = (old, data) if options.deletes_in_old else (data, old)
    rows = (
        F.when(op == OP_UPDATE, data).when(op == OP_DELETE, deleted).when(op == OP_INSERT, inserted)
    )
    olds = F.when(op == OP_UPDATE, old)
    as_canal = canal_values.of_listed_bytes if options.lists_bytes else canal_values.of_json
    return {
        "_op": op,
        **names,
        "_rows": as_canal(rows),
        "_olds": as_canal(olds),
        "_strays": F.when(rows.isNull(), F.when(op == OP_DELETE, stray).when(op == OP_INSERT, old)),
    }


def _names(options: _Options) -> dict[str, Column]:
    """The parts of the table's name; those of the option where the message names no table."""
    database, schema, table = (F.nullif(n, F.lit("")) for n in SOURCE_PARTS)
    default = F.when(table.isNull(), F.lit(options.table.database))
    return {
        "_database": F.coalesce(database, default),
        # Some senders have an object under `schema`, not a name.
        "_schema": F.when(~schema.startswith("{"), schema),
        "_table": F.coalesce(table, F.lit(options.table.table)),
    }


def _filled(name: str) -> Column:
    """An array; NULL without elements."""
    return F.when(F.size(name) > 0, F.col(name))


def _op(table: Column) -> Column:
    """The operation by `type`; another type with `isDdl` is a statement, as DTS's `DDL` is."""
    op = looked_up(F.col("type"), _OPS)
    op = F.coalesce(op, F.when(F.lower("isDdl") == _TRUE, F.lit(OP_DDL)))
    stated = (op == OP_DDL) & truncates.empties(F.col("sql"), table)
    return F.when(stated, F.lit(OP_TRUNCATE)).otherwise(op)


def _marker() -> Column:
    """The kind of a marker, a message without a change; NULL for all other messages."""
    beats = F.lower("isHeartbeat") == _TRUE
    marker = F.when(beats, F.lit(_HEARTBEAT)).when(F.col("type").isin(*_IGNORED), F.col("type"))
    marker = marker.when(beside_rows(), F.lit(_ROWS_QUERY))
    return F.when(F.col(CORRUPT).isNull(), marker)


def _reason(options: _Options) -> Column:
    """Why a message is rejected; one invalid row rejects it whole: `data` and `old` are paired."""
    op, tidb = F.col("_op"), F.col("_tidb")
    of_rows = op.isin(*_ROW_OPS)
    keys_alone = (F.lower(tidb["onlyHandleKey"]) == _TRUE) & (op != OP_DELETE)
    return (
        F.when(_marker().isNotNull(), F.lit(None))
        .when(has_bare_row(F.col(CORRUPT)), F.lit("rows_not_in_a_list"))
        .when(F.col(CORRUPT).isNotNull(), F.lit("not_json"))
        .when(F.length(tidb["claimCheckLocation"]) > 0, F.lit("row_not_sent"))
        .when(F.col("type").isNull(), F.lit("not_an_envelope"))
        .when(op.isNull(), F.concat(F.lit("unknown_op:"), "type"))
        .when(instead_of_rows(), F.lit("image_missing"))
        .when(op.isin(*_ROW_OPS, OP_TRUNCATE) & F.col("_table").isNull(), F.lit("table_missing"))
        .when(of_rows & keys_alone, F.lit("row_not_sent"))
        .when(F.col("_strays").isNotNull(), F.lit("other_form"))
        .when(of_rows & _lacks_image(options), F.lit("image_missing"))
        .when(F.size("_olds") != F.size("_rows"), F.lit("old_misaligned"))
        .when(_repeats("_rows") | _repeats("_olds"), F.lit("duplicate_column"))
        .when(op.isin(*_ROW_OPS, OP_TRUNCATE) & _lacks_order(options), F.lit("bad_order"))
    )


def _lacks_image(options: _Options) -> Column:
    """Whether a message has no rows, or one without columns; `old` counts in the swapped form."""
    lacking = F.col("_rows").isNull() | F.exists("_rows", is_empty_image)
    if options.swapped:
        updated = F.col("_olds").isNotNull() & ~F.exists("_olds", lambda row: row.isNull())
        lacking |= (F.col("_op") == OP_UPDATE) & ~updated
    return lacking


def _repeats(name: str) -> Column:
    return F.coalesce(F.exists(name, repeats_column), F.lit(False))


def _lacks_order(options: _Options) -> Column:
    """Whether a change lacks the option's field: it would rank below all that have it."""
    if not options.order:
        return F.lit(False)
    return (F.col("type") != _FULL_LOAD) & number(F.col("_order")).isNull()


def _described() -> dict[str, Column]:
    """The names of columns and keys in the rows' spelling, from `mysqlType` and `pkNames`.

    Canal of 2019 repeats the key in `pkNames` for each row of the message.
    """
    carried = F.map_keys(F.get("_rows", F.lit(0)))
    keys, described = F.array_distinct(_filled("pkNames")), F.map_keys("mysqlType")
    return {
        "_carried": carried,
        "_keys": spelled_as(keys, carried),
        "_columns": F.when(F.size(described) > 0, spelled_as(described, carried)),
    }


def _images(options: _Options) -> dict[str, Column]:
    """`before` and `after` of a row: the row itself, and the row with `old` over it."""
    op, row, old = F.col("_op"), F.col("_row"), F.col("_old")
    other = overlaid(row, old)
    old_image, new_image = (row, other) if options.swapped else (other, row)
    return {
        "before": F.when(op == OP_UPDATE, old_image).when(op == OP_DELETE, row),
        "after": F.when(op == OP_UPDATE, new_image).when(op == OP_INSERT, row),
    }


def _envelope(options: _Options) -> dict[str, Column]:
    marker, reason = _marker(), F.col("reason")
    described = F.struct(F.col("_columns").alias("names"), F.map_values("mysqlType").alias("types"))
    return {
        "outcome": outcome(F.coalesce(marker.isNotNull(), F.lit(False)), reason),
        "reason": F.coalesce(marker, reason),
        "database": F.col("_database"),
        "schema": F.col("_schema"),
        "table": F.col("_table"),
        "op": F.col("_op"),
        "position": _position(options),
        "key": _key(),
        "types": F.when(F.col("_columns").isNotNull(), F.to_json(described)),
        "source_ts": _source_ts(),
        "tx_id": F.coalesce(F.nullif("gtid", F.lit("")), F.col("_tidb.commitTs")),
        "ddl": F.when(F.col("_op").isin(OP_DDL, OP_TRUNCATE), F.col("sql")),
        "raw": F.when(reason.isNotNull(), line_or(*_FIELDS)),
        "absent": F.when(F.col("_op") == OP_UPDATE, _absent()),
    }


def _absent() -> Column:
    """The described columns that an update sends on neither side.

    One that `old` alone has was changed, and to NULL: writers that use fastjson's defaults leave
    NULLs out of `data`, as Canal 1.1.1 did (alibaba/canal#1163).
    """
    lacked = lacking(F.col("_columns"), F.map_keys("after"))
    unsaid = lacking(lacked, F.map_keys("_old"))
    return F.when(lacked.isNotNull() & F.col("_old").isNotNull(), unsaid).otherwise(lacked)


def _logged_in_part() -> dict[str, Column]:
    """The envelope of partly logged rows. An update's `pkNames` has only the key columns that were
    set, so the key comes from inserts and deletes."""
    op, key = F.col("_op"), F.when(F.col("_op") != OP_UPDATE, _key())
    return {"key": key, **absent_columns(op, F.col("before"), F.col("after"))}


def _source_ts() -> Column:
    """The time of a change: `es`, in milliseconds, or in seconds from Tencent's CKafka."""
    es = F.col("es").try_cast("bigint")
    millis = F.when(es.between(1, _LAST_OF_TEN_DIGITS), es * 1000).otherwise(es)
    return F.when(millis.between(1, LAST_MILLISECOND), F.timestamp_millis(millis))


def _position(options: _Options) -> Column:
    """The position; it ends with the row's place in its message, so that rows of one differ."""
    index = number(F.coalesce("_index", F.lit(0)).cast("string"))
    changed = source_position(number(F.col("_order")), index)
    if not options.order:
        changed = F.coalesce(changed, arrival_position(index))
    written = F.coalesce(number(F.col("id")), arrival_position())
    full_load = full_load_position(number_or_zero(F.col("ts")), written, index)
    return F.when(F.col("type") == _FULL_LOAD, full_load).otherwise(changed)


def _key() -> Column:
    """The primary key where the rows have all of it, else the source's hidden row id."""
    hidden = [F.when(F.array_contains("_carried", n), F.array(F.lit(n))) for n in _HIDDEN_KEYS]
    carried = F.size(F.array_except("_keys", "_carried")) == 0
    return F.when(F.col("_keys").isNull(), F.coalesce(*hidden)).when(carried, F.col("_keys"))
