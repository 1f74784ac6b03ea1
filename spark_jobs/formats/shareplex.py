"""SharePlex JSON: what Quest SharePlex posts for Oracle, to Kafka and to files.

Source: seed 001, "Shareplex Json", and formats.md 6.6. Order: (`scn`, the numbers of `trans`,
`seq`, or else the number of `idx`), all as integers; a row without `scn`, or with neither `seq`
nor `idx`, by arrival. An update carries what changed, and in `key` what it knows of the old row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import SourceFile
from spark_jobs.canonical import (
    IMAGE_TYPE,
    OP_DDL,
    OP_DELETE,
    OP_INSERT,
    OP_TRUNCATE,
    OP_UPDATE,
    number,
    source_position,
)
from spark_jobs.formats.base import NOTHING_KNOWN, Known, SourceColumn
from spark_jobs.formats.envelope import (
    CORRUPT,
    DIGITS,
    TABLE_NAME,
    ZERO,
    absent_but,
    line_or,
    looked_up,
    number_or_zero,
    outcome,
    overlaid,
    read_lines,
    repeats_column,
    select_envelope,
    table_names,
    with_row,
)

UPDATES: Final = ("upd", "update", "upd after", "update after")
DELETES: Final = ("del", "delete", "upd before", "update before")
DDL: Final = ("ddl", "drop column")
COMMIT: Final = "commit"
# The vendor's examples say `ins`, its table of fields says INSERT: case tells nothing.
OPS: Final = {
    **dict.fromkeys(("ins", "insert"), OP_INSERT),
    **dict.fromkeys(UPDATES, OP_UPDATE),
    **dict.fromkeys(DELETES, OP_DELETE),
    "truncate": OP_TRUNCATE,
    **dict.fromkeys(DDL, OP_DDL),
}
_ORDER: Final = {
    "scn": rf"^{DIGITS}$",
    "seq": rf"^{DIGITS}$",
    "idx": rf"^{DIGITS}/{DIGITS}$",
}
_TRANS: Final = rf"^{DIGITS}(\.{DIGITS}){{0,2}}$"
_TEXTS: Final = ("op", "table", "time")
_SCHEMA: Final = f"meta {IMAGE_TYPE}, data {IMAGE_TYPE}, key {IMAGE_TYPE}, ddl string, sql string"


class SharePlex:
    """The decoder of `format: shareplex`."""

    name: ClassVar[str] = "shareplex"
    tells_defaults: ClassVar[bool] = False
    ignorable: ClassVar[str] = ""
    options: ClassVar[Mapping[str, str]] = {}

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: Mapping[str, Any],
        known: Known = NOTHING_KNOWN,
    ) -> DataFrame:
        """Decode JSON-lines files; an update's other columns are `absent`, not NULL."""
        lines = read_lines(spark, files, _SCHEMA).withColumnRenamed("key", "_key")
        told = lines.select("*", *_told()).withColumn("op", looked_up(F.lower("_op"), OPS))
        return select_envelope(with_row(told, "_key", "data"), _envelope())

    def columns(self, types: str, options: Mapping[str, Any]) -> list[SourceColumn]:
        """SharePlex describes no types: every column is text until a hint says more."""
        return []


def _told() -> list[Column]:
    """What `meta` says; the fields of the order without blanks, and empty ones as not there."""
    meta = F.col("meta")
    ordering = [
        F.nullif(F.btrim(meta[name]), F.lit("")).alias(f"_{name}") for name in (*_ORDER, "trans")
    ]
    return [*(meta[name].alias(f"_{name}") for name in _TEXTS), *ordering]


def _number() -> Column:
    """The operation's number in its transaction."""
    return F.coalesce("_seq", F.split_part("_idx", F.lit("/"), F.lit(1)))


def _envelope() -> dict[str, Column]:
    op = F.col("op")
    # A commit record marks the end of a transaction; with a row in it, it would be no marker.
    empty = F.col(CORRUPT).isNull() & F.col("data").isNull() & F.col("_key").isNull()
    ignored = F.coalesce((F.lower("_op") == COMMIT) & empty, F.lit(False))
    before, after = _before(), F.when(op.isin(OP_INSERT, OP_UPDATE), F.col("_row"))
    reason = _reason(before, after)
    return {
        "outcome": outcome(ignored, reason),
        "reason": F.when(ignored, F.lit("transaction_marker")).otherwise(reason),
        **table_names(F.col("_table")),
        "position": _position(),
        "before": before,
        "after": after,
        "absent": F.when(op == OP_UPDATE, absent_but(F.col("data"), F.col("_row"))),
        "source_ts": F.col("_time").try_cast("timestamp"),
        "tx_id": F.col("_trans"),
        "ddl": F.when(op == OP_DDL, _ddl()),
        "raw": F.when(reason.isNotNull() & ~ignored, _raw()),
    }


def _before() -> Column:
    """The old row: an update has it in `key`; a delete in `data`, in `key`, or in both."""
    op = F.col("op")
    return F.when(op == OP_UPDATE, F.col("_key")).when(op == OP_DELETE, _deleted())


def _deleted() -> Column:
    """What `key` knows of a deleted row over what `data` has of it."""
    known = F.map_filter("_key", lambda _, value: value.isNotNull())
    both = F.when(~F.col("_twice"), overlaid(F.col("data"), known))
    return F.coalesce(both, "data", "_key")


def _reason(before: Column, after: Column) -> Column:
    """Why a record is no event; NULL for an event."""
    op, table = F.col("op"), F.col("_table")
    rows = op.isin(OP_INSERT, OP_UPDATE, OP_DELETE)
    image = F.when(op == OP_DELETE, before).otherwise(after)
    bad_order = [
        F.when(~F.col(f"_{name}").rlike(pattern), F.lit(f"bad_{name}"))
        for name, pattern in _ORDER.items()
    ]
    return F.coalesce(
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json")),
        F.when(F.col("_op").isNull(), F.lit("not_an_envelope")),
        F.when(repeats_column(F.col("meta")), F.lit("duplicate_field")),
        F.when(op.isNull(), F.concat(F.lit("unknown_op:"), F.col("_op"))),
        F.when(table.isNull() & (op != OP_DDL), F.lit("table_missing")),
        F.when(~table.rlike(TABLE_NAME), F.lit("bad_table")),
        F.when(rows & ~F.coalesce(F.size(image) > 0, F.lit(False)), F.lit("image_missing")),
        F.when(F.col("_twice"), F.lit("duplicate_column")),
        *bad_order,
    )


def _position() -> Column:
    """By commit, transaction and operation; transactions of one `scn` by their number."""
    statement = F.col("op").isin(OP_TRUNCATE, OP_DDL)
    counted = F.coalesce(number(_number()), F.when(statement, F.lit(ZERO)))
    return source_position(number(F.col("_scn")), *_transaction(), counted)


def _transaction() -> list[Column]:
    """Its three numbers; a name of another form is told from others by a hash."""
    numbers, trans = F.split("_trans", "[.]"), F.col("_trans")
    hashed = F.conv(F.hex(F.xxhash64(trans)), 16, 10)
    first = F.when(trans.rlike(_TRANS), F.get(numbers, F.lit(0))).when(trans.isNotNull(), hashed)
    rest = [F.when(trans.rlike(_TRANS), F.get(numbers, F.lit(index))) for index in (1, 2)]
    return [number_or_zero(part) for part in (first, *rest)]


def _ddl() -> Column:
    """The statement where the record has one, else what it tells in `data`, else the op."""
    return F.coalesce("ddl", "sql", F.to_json("data"), "_op")


def _raw() -> Column:
    return line_or("meta", "data", F.col("_key").alias("key"), "ddl", "sql")
