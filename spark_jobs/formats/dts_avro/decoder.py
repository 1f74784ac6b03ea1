"""DTS Avro: Alibaba DTS's Kafka messages, as object containers, bare datums or JSON lines.

Order: `id`, "unique id of this record in the whole stream" (record.avsc), which rises through the
stream; rows of the full load (INIT) below every change. A bare datum has no header: it is decoded
by record.avsc, with or without the last field `bornTimestamp`, and must have nothing after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial, reduce
from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from sluice.config.format_options import DtsAvroOptions
from sluice.containers import datums
from sluice.errors import TerminalError
from sluice.manifest import AVRO, SourceFile
from sluice.types.columns import BASE64, STRING, ColumnType, decimal
from spark_jobs.canonical import OP_DDL, OP_DELETE, OP_INSERT, OP_TRUNCATE, OP_UPDATE
from spark_jobs.formats.base import NO_PRIOR_FACTS, Format, PriorFacts, SourceColumn
from spark_jobs.formats.common import truncates
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    LAST_SECOND,
    carried_key,
    line_or,
    looked_up,
    number_or_zero,
    outcome,
    read_lines,
    repeats,
    select_envelope,
)
from spark_jobs.formats.dts_avro.json_records import image_of, list_of, text_of
from spark_jobs.formats.dts_avro.names import names_of_record
from spark_jobs.formats.dts_avro.schema import (
    END,
    FULL_LOAD,
    MYSQL,
    OPERATIONS,
    POSTGRESQL,
    SOURCES,
    UNIONS_BY_NAME,
    ends,
    record_schema,
)
from spark_jobs.formats.dts_avro.values import PROBLEMS, ValueFacts, cells, in_nanos
from spark_jobs.position_text import full_load_position, number, source_position
from spark_jobs.record_places import place

_ROWS: Final = {
    "INSERT": OP_INSERT, "UPDATE": OP_UPDATE, "DELETE": OP_DELETE, FULL_LOAD: OP_INSERT,
}  # fmt: skip
_COMMIT: Final = "COMMIT"
_IN_TRANSACTIONS: Final = ("INSERT", "UPDATE", "DELETE", _COMMIT)
_MARKERS: Final = tuple(op for op in OPERATIONS if op not in _ROWS and op != "DDL")

_FIRST_MILLIS: Final = 10_000_000_000
_UNSIGNED: Final = decimal(20, 0)
_INT, _BIGINT = ColumnType("int"), ColumnType("bigint")
_DATE, _TIME = ColumnType("date"), ColumnType("time")
_LOCAL, _INSTANT = ColumnType("timestamp_ntz"), ColumnType("timestamp")
_FLOAT, _DOUBLE = ColumnType("float"), ColumnType("double")
# Signed and unsigned share their numbers, and so do TEXT and BLOB: both are text here.
_MYSQL_TYPES: Final = {
    1: _INT, 2: _INT, 9: _INT, 3: _BIGINT, 8: _UNSIGNED, 16: _UNSIGNED, 4: _FLOAT, 5: _DOUBLE,
    13: _INT, 10: _DATE, 14: _DATE, 11: _TIME, 19: _TIME, 12: _LOCAL, 18: _LOCAL,
    7: _INSTANT, 17: _INSTANT,
}  # fmt: skip
_POSTGRESQL_TYPES: Final = {
    16: ColumnType("boolean"), 21: _INT, 23: _INT, 20: _BIGINT, 26: _BIGINT, 700: _FLOAT,
    701: _DOUBLE, 1082: _DATE, 1083: _TIME, 1114: _LOCAL, 1184: _INSTANT,
    17: ColumnType("binary", "base64"),
}  # fmt: skip
_TYPES: Final = dict.fromkeys(MYSQL, _MYSQL_TYPES) | dict.fromkeys(POSTGRESQL, _POSTGRESQL_TYPES)

_FIELDS: Final = "array<struct<name:string,dataTypeNumber:int>>"
_JSON: Final = """
    id string, sourceTimestamp string, sourcePosition string, sourceTxid string,
    source struct<sourceType:string>, operation string, objectName string,
    tags map<string,string>, fields string, beforeImages string, afterImages string
"""
_RAW: Final = ("id", "operation", "objectName", "tags", "fields", "beforeImages", "afterImages")


class DtsAvro(Format):
    """The decoder of `format: dts_avro`."""

    name: ClassVar[str] = "dts_avro"
    bytes_as: ClassVar[str] = BASE64
    unclear_truncates: ClassVar[str] = truncates.UNCLEAR

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: DtsAvroOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode files of all three containers; markers and heartbeats are ignored and counted."""
        bare = tuple(f for f in files if f.avro_schema == datums.SCHEMA)
        whole = tuple(f for f in files if f.container == AVRO and f.avro_schema != datums.SCHEMA)
        lines = tuple(f for f in files if f.container != AVRO)
        kinds = ((_read_datums, bare), (_read_containers, whole), (_read_json, lines))
        scans = [read(spark, part) for read, part in kinds if part]
        return reduce(DataFrame.unionByName, scans or [_read_json(spark, ())])

    def columns(self, types: str, options: DtsAvroOptions) -> list[SourceColumn]:
        """Return the row's columns; those of an undocumented `dataTypeNumber` are text."""
        described = json.loads(types)
        by_number = _TYPES.get(described.get("source"), {})
        return [
            SourceColumn(f["name"], by_number.get(f.get("dataTypeNumber"), STRING), typed=True)
            for f in described["fields"]
        ]


def _read_datums(spark: SparkSession, files: tuple[SourceFile, ...]) -> DataFrame:
    """Read bare datums; one schema decodes both layouts."""
    schema = f"{datums.COLUMN} binary"
    values = spark.read.format("avro").schema(schema).load([f.url for f in files])
    record = from_avro(
        F.concat(datums.COLUMN, F.lit(END)),
        record_schema(bare=True),
        {"mode": "PERMISSIVE", **UNIONS_BY_NAME},
    )
    rows = values.select(record.alias("r"), datums.COLUMN, *place())
    parts = _avro_parts(lambda symbols, at: F.coalesce(F.get(symbols, at), at.cast("string")))
    problem = F.when(~ends(F.hex("r.end")), F.lit("not_a_record"))
    return _envelope(rows.select("*", *parts, problem.alias("_problem")), F.base64(datums.COLUMN))


def _read_containers(spark: SparkSession, files: tuple[SourceFile, ...]) -> DataFrame:
    """Read object containers of records in either layout."""
    for file in files:
        if not all(f'"{name}"' in file.avro_schema for name in ("beforeImages", "afterImages")):
            raise TerminalError(
                f"{file.key} is not a DTS Avro file: its records need `beforeImages` and "
                "`afterImages`; take it out of the pipeline's landing pattern"
            )
    reader = spark.read.format("avro").options(**UNIONS_BY_NAME)
    records = reader.option("avroSchema", record_schema(bare=False)).load([f.url for f in files])
    rows = records.select(F.struct("*").alias("r"), *place())
    parts = _avro_parts(lambda _, symbol: symbol)
    rows = rows.select("*", *parts, F.lit(None).cast("string").alias("_problem"))
    return _envelope(rows, F.to_json("r"))


def _avro_parts(symbol: Callable[[Column, Column], Column]) -> list[Column]:
    """Return a record's parts under the names that `_envelope` reads; `symbol` reads an enum."""
    operations, sources = (F.array(*map(F.lit, names)) for names in (OPERATIONS, SOURCES))
    source, fields = symbol(sources, F.col("r.source.sourceType")), F.col("r.fields.array")
    cells_of = partial(_cells, source=source, position=F.col("r.sourcePosition"), fields=fields)
    parts = {
        "_id": F.col("r.id").cast("string"),
        "_seconds": _in_seconds(F.col("r.sourceTimestamp")),
        "_source": source,
        "_op": symbol(operations, F.col("r.operation")),
        "_object": F.col("r.objectName"),
        "_tx": F.col("r.sourceTxid"),
        "_tags": F.col("r.tags"),
        "_fields": fields,
        "_before": cells_of(F.col("r.beforeImages.array")),
        "_after": cells_of(F.col("r.afterImages.array")),
        "_statement": F.col("r.afterImages.string"),
    }
    return [part.alias(name) for name, part in parts.items()]


def _read_json(spark: SparkSession, files: tuple[SourceFile, ...]) -> DataFrame:
    """Read records printed as JSON, see `json_records`."""
    rows = read_lines(spark, files, _JSON)
    problem = F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json")).when(
        F.col("operation").isNull(), F.lit("not_a_record")
    )
    source, fields = F.col("source.sourceType"), F.from_json(list_of(F.col("fields")), _FIELDS)
    cells_of = partial(_cells, source=source, position=F.col("sourcePosition"), fields=fields)
    parts = {
        "_id": F.col("id"),
        "_seconds": _in_seconds(F.col("sourceTimestamp").try_cast("bigint")),
        "_source": source,
        "_op": F.col("operation"),
        "_object": text_of(F.col("objectName")),
        "_tx": F.col("sourceTxid"),
        "_tags": F.col("tags"),
        "_fields": fields,
        "_before": cells_of(image_of(F.col("beforeImages"))),
        "_after": cells_of(image_of(F.col("afterImages"))),
        "_statement": text_of(F.col("afterImages")),
        "_problem": problem,
    }
    named = rows.select("*", *(part.alias(name) for name, part in parts.items()))
    return _envelope(named, line_or(*_RAW))


def _in_seconds(time: Column) -> Column:
    """Return `sourceTimestamp` in seconds; 11 digits and more are milliseconds.

    TimeUtils of Alibaba's SDK reads it so.
    """
    millis = F.call_function("div", time, F.lit(1000))
    return F.when(time >= _FIRST_MILLIS, millis).otherwise(time)


def _cells(image: Column, source: Column, position: Column, fields: Column) -> Column:
    nanos, numbers = in_nanos(source, position), fields["dataTypeNumber"]
    read = cells(image, lambda at: ValueFacts(nanos, source, F.get(numbers, at)))
    # Alibaba's own readers too treat an image without values as missing.
    return F.when(F.size(image) > 0, read)


def _envelope(rows: DataFrame, raw: Column) -> DataFrame:
    """Return decoded records as the envelope; `raw` is the text that a reject shows."""
    found = (_filled().alias("_full"), _primary().alias("_primary"))
    named = rows.select("*", *names_of_record(), *found)
    judged = named.select("*", _reason().alias("_reason"))
    return select_envelope(judged, _columns(raw))


def _columns(raw: Column) -> dict[str, Column]:
    op, reason = F.col("_op"), F.col("_reason")
    ignored = op.isin(*_MARKERS) & reason.isNull()
    names = F.col("_fields.name")
    row = op.isin(*_ROWS) & reason.isNull()
    truncated = F.col("_truncated").isNotNull()
    return {
        "outcome": outcome(ignored, reason),
        "reason": F.when(ignored, op).otherwise(reason),
        "database": F.col("_database"),
        "schema": F.col("_schema"),
        "table": F.coalesce("_truncated", "_table"),
        "op": F.when(truncated, F.lit(OP_TRUNCATE)).otherwise(_op()),
        "position": _position(),
        "before": F.when(row & op.isin("UPDATE", "DELETE"), _image(names, F.col("_before"))),
        "after": F.when(row & (op != "DELETE"), _image(names, F.col("_full"))),
        "key": F.when(row, carried_key(F.col("_primary"), names)),
        "types": F.when(row, _types()),
        "source_ts": _source_ts(),
        "tx_id": F.nullif(F.col("_tx"), F.lit("")),
        "transaction": F.when(op.isin(*_IN_TRANSACTIONS), _transaction()),
        "ends": op == _COMMIT,
        "event_id": F.when(op != FULL_LOAD, F.col("_id")),
        "ddl": F.when(op == "DDL", F.col("_statement")),
        "raw": F.when(reason.isNotNull(), raw),
        "absent": F.when(row & (op != "DELETE"), _unsent(names, F.col("_full"))),
        "old_absent": F.when(row & op.isin("UPDATE", "DELETE"), _unsent(names, F.col("_before"))),
        "detail": _unread(names),
    }


def _transaction() -> Column:
    """Return the transaction's id; sources without transactions send 0."""
    return F.when(~F.col("_tx").isin("", "0"), F.col("_tx"))


def _filled() -> Column:
    """Return the new image; values that an update did not send come from the old image if there."""
    before, after = F.col("_before"), F.col("_after")
    both = F.zip_with(
        after, before, lambda new, old: F.when(new["absent"] & ~old["absent"], old).otherwise(new)
    )
    fillable = (F.col("_op") == "UPDATE") & _has_unsent(after) & (F.size(before) == F.size(after))
    return F.when(fillable, both).otherwise(after)


def _op() -> Column:
    return looked_up(F.col("_op"), {**_ROWS, "DDL": OP_DDL})


def _reason() -> Column:
    """Return why a record is rejected; NULL for an event and for a marker."""
    op, fields = F.col("_op"), F.col("_fields")
    row, marker = op.isin(*_ROWS), op.isin(*_MARKERS)
    before, after = F.col("_before"), F.col("_after")
    names = F.col("_fields.name")
    lacks_image = F.when(op == "DELETE", before.isNull()).otherwise(after.isNull())
    uneven = (F.size(before) != F.size(fields)) | (F.size(after) != F.size(fields))
    return (
        F.when(F.col("_problem").isNotNull(), F.col("_problem"))
        .when(~op.isin(*OPERATIONS), F.concat(F.lit("unknown_op:"), op))
        .when(marker & (before.isNotNull() | after.isNotNull()), F.lit("marker_with_row"))
        .when(marker, F.lit(None))
        .when((op != FULL_LOAD) & ~_is_id(), F.lit("bad_id"))
        .when((op == "DDL") & F.col("_statement").isNull(), F.lit("statement_missing"))
        .when(row & (F.col("_depth") > 3), F.lit("bad_object_name"))
        .when(row & F.col("_table").isNull(), F.lit("table_missing"))
        .when(row & fields.isNull(), F.lit("fields_missing"))
        .when(row & lacks_image, F.lit("image_missing"))
        .when(row & uneven, F.lit("image_length"))
        .when(row & F.exists(names, lambda name: name.isNull()), F.lit("fields_missing"))
        .when(row & repeats(names), F.lit("duplicate_column"))
        .when(row, F.coalesce(_first_problem(after), _first_problem(before)))
    )


def _is_id() -> Column:
    return F.coalesce(F.col("_id").rlike(r"^\d{1,19}$"), F.lit(False))


def _unread(names: Column) -> Column:
    """Return the columns whose values are why a record is rejected; empty for any other one."""
    of_value = F.substring_index("_reason", ":", 1).isin(*PROBLEMS)
    unread = (
        F.filter(
            F.zip_with(names, cells["problem"], lambda name, p: F.when(p.isNotNull(), name)),
            _is_there,
        )
        for cells in (F.col("_after"), F.col("_before"))
    )
    listed = (F.nullif(F.array_join(each, ", "), F.lit("")) for each in unread)
    return F.coalesce(F.when(of_value, F.coalesce(*listed)), F.lit(""))


def _first_problem(cells: Column) -> Column:
    problems = cells["problem"]
    # Spark compiles `array_max`, but not `filter`.
    found = F.array_max(problems).isNotNull()
    return F.when(found, F.get(F.filter(problems, _is_there), F.lit(0)))


def _is_there(value: Column) -> Column:
    return value.isNotNull()


def _position() -> Column:
    """Order by id; full-load rows by the time they were read, so that a newer full load wins."""
    read = number_or_zero(F.col("_seconds").cast("string"))
    full_load = full_load_position(read, number_or_zero(F.col("_id")))
    return F.when(F.col("_op") == FULL_LOAD, full_load).otherwise(
        source_position(number(F.col("_id")))
    )


def _image(names: Column, cells: Column) -> Column:
    return F.map_from_arrays(names, cells["text"])


def _unsent(names: Column, cells: Column) -> Column:
    """Return the columns of an image that were not sent; NULL if all were."""
    absent_names = F.zip_with(names, cells["absent"], lambda name, absent: F.when(absent, name))
    return F.when(_has_unsent(cells), F.filter(absent_names, _is_there))


def _has_unsent(cells: Column) -> Column:
    return F.array_contains(cells["absent"], F.lit(True))


def _primary() -> Column:
    """Return the primary key's columns by the tag `pk_uk_info`. In a step of its own, as the key
    uses it several times."""
    return F.from_json(F.col("_tags")["pk_uk_info"], "PRIMARY array<string>")["PRIMARY"]


def _types() -> Column:
    return F.to_json(F.struct(F.col("_source").alias("source"), F.col("_fields").alias("fields")))


def _source_ts() -> Column:
    """Return `sourceTimestamp`; 0 is no time."""
    seconds = F.col("_seconds")
    return F.when(seconds.between(1, LAST_SECOND), F.timestamp_seconds(seconds))
