"""Google Datastream, JSON and Avro files, from MySQL, Oracle, PostgreSQL, SQL Server and Spanner.

Order: MySQL by (number of the log file, position), Oracle by (scn, rs_id, ssn), PostgreSQL and
SQL Server by the parts of the LSN, Spanner by (commit_timestamp, record_sequence, mod_index);
`sort_keys` where the metadata lacks these; backfilled rows below every change. File order means
nothing.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.config.format_options import DatastreamOptions
from sluice.errors import TerminalError
from sluice.manifest import JSON_LINES, SourceFile
from spark_jobs.canonical import IMAGE_TYPE, OP_DELETE, OP_INSERT, OP_UPDATE, OP_UPDATE_AFTER
from spark_jobs.formats.base import (
    NO_PRIOR_FACTS,
    NUMBERS_AND_TIMES,
    Format,
    PriorFacts,
    SourceColumn,
)
from spark_jobs.formats.common import avro
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    ZERO,
    carried_key,
    instant,
    instant_of_micros,
    instant_of_text,
    line_or,
    or_zero,
    outcome,
    read_lines,
    repeats_column,
    select_envelope,
    with_numbers,
)
from spark_jobs.formats.common.scans import by_schema, union
from spark_jobs.position_text import full_load_position, hex_number, source_position
from spark_jobs.record_places import PLACE, place

_NEW_HALF: Final = "UPDATE-INSERT"
_UPSERTS: Final = ("INSERT", "UPDATE", _NEW_HALF)
_DELETES: Final = ("DELETE", "UPDATE-DELETE")
_META_TEXTS: Final = (
    "database", "schema", "table", "change_type", "is_deleted", "tx_id", "log_file",
    "log_position", "binlog_file", "binlog_position", "scn", "rs_id", "ssn", "lsn",
    "database_id", "mod_type", "snapshot", "commit_timestamp", "record_sequence", "mod_index",
)  # fmt: skip
_META_LISTS: Final = ("primary_keys", "replication_index")
_META: Final = ", ".join(
    [*(f"{n}:string" for n in _META_TEXTS), *(f"{n}:array<string>" for n in _META_LISTS)]
)
_SCHEMA: Final = f"""
    uuid string, source_timestamp string, read_method string, sort_keys array<string>,
    source_metadata struct<{_META}>, payload {IMAGE_TYPE}
"""
_HEX: Final = "[0-9a-fA-F]+"
_0X: Final = "(?i:0x)"
_RS_ID: Final = tuple(rf"^\s*{_0X}?(?:{_HEX}[.]){{{i}}}({_HEX})(?=[.]|\s*$)" for i in range(3))
_LSN: Final = {
    "postgresql": (f"^({_HEX})/{_HEX}$", f"^{_HEX}/({_HEX})$"),
    "sqlserver": (
        f"^({_HEX}):{_HEX}:{_HEX}$", f"^{_HEX}:({_HEX}):{_HEX}$", f"^{_HEX}:{_HEX}:({_HEX})$"
    ),
}  # fmt: skip
"""The parts of an LSN: both halves of `16/B374D848`, all three of `00000025:00000728:0003`."""
_LSN_OF_DIGITS: Final = f"^{_0X}([0-9a-fA-F]{{8}})([0-9a-fA-F]{{8}})([0-9a-fA-F]{{4}})$"
"""An LSN as SQL Server prints its binary value."""
_RECORD: Final = r"^\s*([0-9a-fA-F]{1,16})\s*$"
_TOP: Final = ("uuid", "source_timestamp", "read_method", "sort_keys", "source_metadata", "payload")


class Datastream(Format):
    """The decoder of `format: datastream`."""

    name: ClassVar[str] = "datastream"
    plain: ClassVar[frozenset[str]] = NUMBERS_AND_TIMES

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: DatastreamOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON-lines and Avro files, Avro in one scan for each writer schema."""
        scans = [
            _read_avro(spark, schema, group, options.records)
            for (_, schema), group in by_schema(files).items()
        ]
        lines = tuple(f for f in files if f.container == JSON_LINES)
        if lines or not scans:
            scans.append(_read_json(spark, lines))
        records = union(scans).withColumns({"_reason": _reason(), "op": _op()})
        return select_envelope(with_numbers(records, _numbers()), _envelope())

    def columns(self, types: str, options: DatastreamOptions) -> list[SourceColumn]:
        """The columns of an Avro payload's schema; JSON files have no types."""
        return [
            SourceColumn(name, avro.column_type(node, options.records), typed=True)
            for name, node in avro.fields_of(json.loads(types)).items()
        ]


def _read_json(spark: SparkSession, files: tuple[SourceFile, ...]) -> DataFrame:
    lines = read_lines(spark, files, _SCHEMA)
    return lines.withColumns(
        {
            "source_ts": _text_instant(F.col("source_timestamp")),
            "types": F.lit(None).cast("string"),
        }
    ).drop("source_timestamp")


def _text_instant(text: Column) -> Column:
    """`source_timestamp` as a text: in ISO 8601, or in milliseconds as in Avro files."""
    return F.coalesce(instant_of_text(text), instant(text.try_cast("bigint")))


def _read_avro(
    spark: SparkSession, schema: str, files: tuple[SourceFile, ...], records: str
) -> DataFrame:
    """Read files of one schema into the columns of `_read_json`."""
    fields = _writer_fields(schema, files[0])
    wanted = {n: avro.spark_type(fields[n]) for n in _TOP if n in fields}
    struct = T.StructType([T.StructField(n, t) for n, t in wanted.items()])
    reader = spark.read.format("avro").schema(struct)
    if plain := avro.reader_schema(schema):
        reader = reader.option("avroSchema", plain)
    rows = reader.load([f.url for f in files]).select("*", *place())
    payload = avro.value_of(fields["payload"])
    return rows.select(
        *(_text(F.col(name), name, fields) for name in ("uuid", "read_method")),
        _texts(F.col("sort_keys"), "sort_keys", fields),
        _metadata(avro.value_of(fields["source_metadata"])).alias("source_metadata"),
        _image(payload, records).alias("payload"),
        F.lit(None).cast("string").alias(CORRUPT),
        *PLACE,
        _avro_instant(fields).alias("source_ts"),
        F.lit(json.dumps(payload)).alias("types"),
    )


def _writer_fields(schema: str, example: SourceFile) -> dict[str, avro.Node]:
    try:
        fields = avro.fields_of(avro.parse(schema))
        avro.fields_of(avro.value_of(fields["payload"]))
        avro.fields_of(avro.value_of(fields["source_metadata"]))
    except (KeyError, ValueError) as error:
        raise TerminalError(
            f"{example.key} is not a Datastream Avro file ({error}): its records need a `payload` "
            "and a `source_metadata`; take it out of the pipeline's landing pattern"
        ) from error
    return fields


def _text(value: Column, name: str, fields: dict[str, avro.Node]) -> Column:
    """A field's exact text; NULL if the schema lacks the field."""
    found = avro.text(value, fields[name]) if name in fields else F.lit(None)
    return found.cast("string").alias(name)


def _texts(value: Column, name: str, fields: dict[str, avro.Node]) -> Column:
    """The exact texts of a field's list; NULL if the schema lacks the field."""
    if name not in fields:
        return F.lit(None).cast("array<string>").alias(name)
    items = avro.value_of(fields[name])["items"]
    found = F.transform(value, lambda v: avro.text(v, items))
    return found.cast("array<string>").alias(name)


def _metadata(node: avro.Node) -> Column:
    """`source_metadata` with the fields of all databases; NULL for those that this one lacks."""
    fields, root = avro.fields_of(node), F.col("source_metadata")
    texts = (_text(root[name], name, fields) for name in _META_TEXTS)
    lists = (_texts(root[name], name, fields) for name in _META_LISTS)
    return F.struct(*texts, *lists)


def _image(payload: avro.Node, records: str) -> Column:
    """The row as a map of exact texts by column; null stays NULL."""
    root, fields = F.col("payload"), avro.fields_of(payload)
    names = F.array(*(F.lit(name) for name in fields)).cast("array<string>")
    values = F.array(*(avro.text(root[name], node, records) for name, node in fields.items()))
    return F.when(root.isNotNull(), F.map_from_arrays(names, values.cast("array<string>")))


def _avro_instant(fields: dict[str, avro.Node]) -> Column:
    """`source_timestamp`, in milliseconds unless its type says microseconds."""
    node = avro.value_of(fields.get("source_timestamp", {"type": "null"}))
    value = F.col("source_timestamp") if "source_timestamp" in fields else F.lit(None)
    if node["type"] == "string":
        return _text_instant(value)
    count = value.cast("bigint")
    micros = node.get("logicalType") == "timestamp-micros"
    return instant_of_micros(count) if micros else instant(count)


def _envelope() -> dict[str, Column]:
    meta, payload = F.col("source_metadata"), F.col("payload")
    reason, op = F.col("_reason"), F.col("op")
    deleted = op == OP_DELETE
    line = line_or("uuid", "read_method", "sort_keys", "source_metadata", "payload")
    return {
        "outcome": outcome(F.lit(False), reason),
        "reason": reason,
        "database": F.coalesce(meta["database"], meta["database_id"]),
        "schema": _schema(meta["schema"]),
        "table": meta["table"],
        "position": _position(),
        "before": F.when(deleted, payload),
        "after": F.when(~deleted, payload),
        "key": _key(),
        "tx_id": meta["tx_id"],
        "event_id": F.col("uuid"),
        "raw": F.when(reason.isNotNull(), line),
        "old_absent": F.when((op == OP_UPDATE) & _names_whole_row(), F.map_keys(payload)),
    }


def _schema(name: Column) -> Column:
    """The schema's name; for SQL Server the vendor's page describes a list with it."""
    return F.regexp_replace(name, r'^\["([^"\\]*)"\]$', "$1")


def _op() -> Column:
    """The operation; `is_deleted` means a delete whatever the type, and Oracle's
    UPDATE-DELETE lacks it."""
    change = _change()
    deleted = change.isin(*_DELETES) | _is_true("is_deleted")
    return (
        F.when(deleted, F.lit(OP_DELETE))
        .when(change.isNull() | (change == "INSERT"), F.lit(OP_INSERT))
        .when(change == _NEW_HALF, F.lit(OP_UPDATE_AFTER))
        .otherwise(F.lit(OP_UPDATE))
    )


def _change() -> Column:
    """The kind of change, which Spanner has in a field of another name."""
    meta = F.col("source_metadata")
    return F.coalesce(meta["change_type"], meta["mod_type"])


def _is_true(name: str) -> Column:
    return F.lower(F.col("source_metadata")[name]) == "true"


def _reason() -> Column:
    meta, payload = F.col("source_metadata"), F.col("payload")
    change = _change()
    unstated = change.isNull() & meta["is_deleted"].isNull() & ~_is_full_load()
    return (
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json"))
        .when(payload.isNull() | meta.isNull(), F.lit("not_an_envelope"))
        .when(_stated("table").isNull(), F.lit("table_missing"))
        .when(~change.isin(*_UPSERTS, *_DELETES), F.concat(F.lit("unknown_op:"), change))
        .when(unstated, F.lit("change_type_missing"))
        .when(~_is_full_load() & _is_unreadable(), F.lit("bad_position"))
        .when(repeats_column(payload), F.lit("duplicate_column"))
    )


def _is_unreadable() -> Column:
    """Whether the metadata has an unreadable place: by its time alone the change would rank
    below all others."""
    lsns = [*(parts[0] for parts in _LSN.values()), _LSN_OF_DIGITS]
    spellings = {"rs_id": _RS_ID[0], "lsn": "|".join(lsns), "record_sequence": _RECORD}
    return reduce(or_, (_is_other(name, spelling) for name, spelling in spellings.items()))


def _is_other(name: str, spelling: str) -> Column:
    """Whether a field of the metadata has a value in another spelling."""
    text = F.col("source_metadata")[name]
    return F.coalesce((F.trim(text) != "") & ~text.rlike(spelling), F.lit(False))


def _is_full_load() -> Column:
    """Whether a row is of a backfill, by the event's fields: file names do not show it."""
    meta = F.col("source_metadata")
    dumped = F.col("read_method").rlike("(?i)backfill|dump")
    unlogged = (meta["log_file"] == "") & (meta["log_position"] == "0")
    signs = (dumped, (meta["scn"] == "-1") | unlogged, _is_true("snapshot"))
    return reduce(or_, (F.coalesce(sign, F.lit(False)) for sign in signs))


def _position() -> Column:
    """The position: the source's place, else its time, which is below every place.

    A backfilled row has its time, so that a newer backfill wins.
    """
    by_lsn = map(_place_of, _LSN)
    placed = F.coalesce(_spanner(), _mysql(), _oracle(), *by_lsn)
    # Two zeros in front rank below every place, of which at most the first part is zero.
    by_time = source_position(F.lit(ZERO), F.lit(ZERO), F.col("_n_taken"))
    changed = F.coalesce(placed, by_time)
    return F.when(_is_full_load(), full_load_position(or_zero("_n_taken"))).otherwise(changed)


def _numbers() -> dict[str, Column]:
    """The texts of all numbers of a place; NULL, or no digits, where there is none."""
    file = F.coalesce(_stated("log_file"), _stated("binlog_file"), _sort_key(1, 3))
    rs_id = F.coalesce(_stated("rs_id"), _sort_key(2, 4))
    lsn = F.regexp_replace(F.coalesce(_stated("lsn"), _sort_key(1, 2)), _LSN_OF_DIGITS, "$1:$2:$3")
    return {
        "_n_taken": F.unix_millis("source_ts").cast("string"),
        "_n_file": F.regexp_extract(file, r"(?<!\d)(\d++)$", 1),
        "_n_at": F.coalesce(_stated("log_position"), _stated("binlog_position"), _sort_key(2, 3)),
        "_n_scn": F.coalesce(_stated("scn"), _sort_key(1, 4)),
        "_n_ssn": F.coalesce(_stated("ssn"), _sort_key(3, 4)),
        "_n_commit": F.unix_micros(instant_of_text(_stated("commit_timestamp"))).cast("string"),
        "_n_record": _hex(_stated("record_sequence"), _RECORD),
        "_n_mod": _stated("mod_index"),
        **{f"_n_redo{i}": _hex(rs_id, part) for i, part in enumerate(_RS_ID)},
        **{
            f"_n_{database}{i}": _hex(lsn, part)
            for database, parts in _LSN.items()
            for i, part in enumerate(parts)
        },
    }


def _stated(name: str) -> Column:
    """A text of the metadata; NULL if it is blank."""
    return F.nullif(F.trim(F.col("source_metadata")[name]), F.lit(""))


def _sort_key(index: int, of: int) -> Column:
    """An element of `sort_keys`; NULL unless the list has the length of its database."""
    return F.when(F.size("sort_keys") == of, F.get("sort_keys", F.lit(index)))


def _mysql() -> Column:
    return source_position(F.col("_n_file"), F.col("_n_at"))


def _oracle() -> Column:
    """Oracle's place; only the scn is required, other missing parts count as zero."""
    within = (*(f"_n_redo{i}" for i in range(len(_RS_ID))), "_n_ssn")
    return source_position(F.col("_n_scn"), *map(or_zero, within))


def _spanner() -> Column:
    """Spanner's place: its transactions that change one row have different commit timestamps."""
    return source_position(F.col("_n_commit"), F.col("_n_record"), or_zero("_n_mod"))


def _place_of(database: str) -> Column:
    """The place of PostgreSQL or SQL Server: the parts of the LSN as numbers."""
    return source_position(*(F.col(f"_n_{database}{i}") for i in range(len(_LSN[database]))))


def _hex(text: Column, pattern: str) -> Column:
    """The number that `pattern` finds in hexadecimal, as decimal text; NULL beyond 16 digits."""
    return hex_number(F.regexp_extract(text, pattern, 1))


def _key() -> Column:
    """The key columns that the metadata names; NULL if the row does not have them all."""
    return carried_key(_named_key(), F.map_keys("payload"))


def _named_key() -> Column:
    meta = F.col("source_metadata")
    return F.coalesce(*(F.when(F.size(meta[name]) > 0, meta[name]) for name in _META_LISTS))


def _names_whole_row() -> Column:
    """Whether the key has every column, as with PostgreSQL's REPLICA IDENTITY FULL.

    Every update then changes the key, and a plain `UPDATE` does not carry the old one.
    """
    carried, named = (
        F.transform(names, F.lower) for names in (F.map_keys("payload"), _named_key())
    )
    return F.size(F.array_except(carried, named)) == 0
