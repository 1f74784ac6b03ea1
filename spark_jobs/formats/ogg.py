"""Oracle GoldenGate JSON: what its handlers for big data write, one operation a record.

Source: Oracle GoldenGate for Big Data, "Using the JSON Formatter", operation modeled. Order:
`pos`, the place in the trail, as an integer. A column that an image lacks was not in the trail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.manifest import SourceFile
from spark_jobs.canonical import (
    IMAGE_TYPE,
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
    TABLE_NAME,
    absent_but,
    name_part,
    outcome,
    overlaid,
    read_lines,
    repeats_column,
    select_envelope,
)

OPS: Final = {"I": OP_INSERT, "U": OP_UPDATE, "D": OP_DELETE, "T": OP_TRUNCATE}
_SCHEMA: Final = f"""
    table string, op_type string, op_ts string, pos string, primary_keys array<string>,
    before {IMAGE_TYPE}, after {IMAGE_TYPE}
"""
# Names that the envelope has too.
_TAKEN: Final = ("table", "before", "after")


class GoldenGate:
    """The decoder of `format: ogg`."""

    name: ClassVar[str] = "ogg"
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
        lines = read_lines(spark, files, _SCHEMA).withColumnsRenamed({n: f"_{n}" for n in _TAKEN})
        rows = lines.withColumns({"op": _op(), "_twice": _twice()})
        return select_envelope(rows.withColumn("_row", _row()), _envelope())

    def columns(self, types: str, options: Mapping[str, Any]) -> list[SourceColumn]:
        """Records describe no types: every column is text until a hint says more."""
        return []


def _op() -> Column:
    known = F.create_map(*(F.lit(text) for pair in OPS.items() for text in pair))
    return F.try_element_at(known, F.col("op_type"))


def _twice() -> Column:
    """Whether a row names a column twice."""
    before, after = (
        F.coalesce(repeats_column(F.col(c)), F.lit(False)) for c in ("_before", "_after")
    )
    return before | after


def _row() -> Column:
    """The row after an event: `after`, over what an update says of the old row."""
    before, after = F.col("_before"), F.col("_after")
    updates = (F.col("op") == OP_UPDATE) & before.isNotNull() & ~F.col("_twice")
    return F.when(updates, overlaid(before, after)).otherwise(after)


def _envelope() -> dict[str, Column]:
    op, table = F.col("op"), F.col("_table")
    reason = _reason()
    return {
        "outcome": outcome(F.lit(False), reason),
        "reason": reason,
        "database": name_part(table, 3),
        "schema": name_part(table, 2),
        "table": name_part(table, 1),
        "position": source_position(number(F.col("pos"))),
        "before": F.when(op.isin(OP_UPDATE, OP_DELETE), F.col("_before")),
        "after": F.when(op.isin(OP_INSERT, OP_UPDATE), F.col("_row")),
        "absent": F.when(op == OP_UPDATE, absent_but(F.col("_after"), F.col("_row"))),
        "key": _key(),
        "source_ts": F.col("op_ts").try_cast("timestamp"),
        "raw": F.when(reason.isNotNull(), _raw()),
    }


def _reason() -> Column:
    """Why a record is no event; NULL for an event."""
    op, table = F.col("op"), F.col("_table")
    image = F.when(op == OP_DELETE, F.col("_before")).otherwise(F.col("_row"))
    lacks_image = (op != OP_TRUNCATE) & ~F.coalesce(F.size(image) > 0, F.lit(False))
    return F.coalesce(
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json")),
        F.when(F.col("op_type").isNull(), F.lit("not_an_envelope")),
        F.when(op.isNull(), F.concat(F.lit("unknown_op:"), F.col("op_type"))),
        F.when(table.isNull(), F.lit("table_missing")),
        F.when(~table.rlike(TABLE_NAME), F.lit("bad_table")),
        F.when(lacks_image, F.lit("image_missing")),
        F.when(F.col("_twice"), F.lit("duplicate_column")),
        F.when(~F.col("pos").rlike(r"^\d{1,99}$"), F.lit("bad_pos")),
    )


def _key() -> Column:
    """The primary key where the record names it and its row has it."""
    named = F.when(F.size("primary_keys") > 0, F.col("primary_keys"))
    names = F.map_keys(F.coalesce("_row", "_before"))
    return F.when(F.size(F.array_except(named, names)) == 0, named)


def _raw() -> Column:
    """The line itself, or the record rebuilt from its fields where the line could be read."""
    names = ("table", "op_type", "op_ts", "pos", "primary_keys", "before", "after")
    fields = [F.col(f"_{n}" if n in _TAKEN else n).alias(n) for n in names]
    return F.coalesce(F.col(CORRUPT), F.to_json(F.struct(*fields)))
