"""SharePlex JSON: what Quest SharePlex posts for Oracle, to Kafka and to files.

Source: seed 001, "Shareplex Json", and formats.md 6.6. Order: (`scn`, the numbers of `trans`,
`seq`, the number of `idx`), all as integers; a record without `scn`, or with neither `seq` nor
`idx`, by arrival. An update carries what changed, and in `key` what it knows of the old row.
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
    absent_but,
    line_or,
    looked_up,
    number_or_zero,
    outcome,
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
    "trans": rf"^{DIGITS}(\.{DIGITS}){{0,2}}$",
    "seq": rf"^{DIGITS}$",
    "idx": rf"^{DIGITS}/{DIGITS}$",
}
_TEXTS: Final = ("op", "table", "time", *_ORDER)
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
        lines = read_lines(spark, files, _SCHEMA).withColumnRenamed("key", "_old")
        texts = [F.col("meta")[name].alias(f"_{name}") for name in _TEXTS]
        records = lines.select("*", *texts).withColumn("op", looked_up(F.lower("_op"), OPS))
        return select_envelope(with_row(records, "_old", "data"), _envelope())

    def columns(self, types: str, options: Mapping[str, Any]) -> list[SourceColumn]:
        """SharePlex describes no types: every column is text until a hint says more."""
        return []


def _envelope() -> dict[str, Column]:
    op = F.col("op")
    # A commit record marks the end of a transaction; with a row in it, it would be no marker.
    empty = F.col(CORRUPT).isNull() & F.col("data").isNull() & F.col("_old").isNull()
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
    """The old row: an update has it in `key`, a delete in `data`."""
    op = F.col("op")
    return F.when(op == OP_UPDATE, F.col("_old")).when(op == OP_DELETE, F.coalesce("data", "_old"))


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
    """By commit, transaction, operation and part; transactions of one `scn` by their number."""
    part = F.split_part("_idx", F.lit("/"), F.lit(1))
    trans = F.split("_trans", "[.]")
    return source_position(
        number(F.col("_scn")),
        *(number_or_zero(F.get(trans, F.lit(index))) for index in range(3)),
        number(F.coalesce("_seq", part)),
        number_or_zero(part),
    )


def _ddl() -> Column:
    """The statement where the record has one, else what it tells in `data`, else the op."""
    return F.coalesce("ddl", "sql", F.to_json("data"), "_op")


def _raw() -> Column:
    return line_or("meta", "data", F.col("_old").alias("key"), "ddl", "sql")
