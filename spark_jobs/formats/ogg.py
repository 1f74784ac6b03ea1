"""Oracle GoldenGate JSON: of its handlers for big data, one operation a record.

Source: Oracle GoldenGate for Big Data, "Using the JSON Formatter", operation modeled, and "Using
the Kafka Connect Handler", which wraps that. Order: `pos`, the place in the trail, as an integer;
an initial load is in the trail with number -1. A column that an image lacks, or that is flagged as
missing, was not in the trail.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import TABLE_NAME, OggOptions
from sluice.manifest import SourceFile
from spark_jobs.canonical import IMAGE_TYPE, OP_DELETE, OP_INSERT, OP_TRUNCATE, OP_UPDATE
from spark_jobs.formats.base import NO_PRIOR_FACTS, NUMBERS_AND_TIMES, Format, PriorFacts
from spark_jobs.formats.common.dotted_names import name_parts, table_names
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    DIGITS,
    carried_key,
    instant_of_text,
    is_empty_image,
    line_or,
    looked_up,
    or_zero,
    outcome,
    read_lines,
    select_envelope,
    with_numbers,
)
from spark_jobs.formats.common.overlaid_rows import absent_but, with_row
from spark_jobs.position_text import full_load_position, source_position

_OPS: Final = {"I": OP_INSERT, "U": OP_UPDATE, "D": OP_DELETE, "T": OP_TRUNCATE}
_FIELDS: Final = {
    **dict.fromkeys(("table", "op_type", "op_ts", "pos"), "string"),
    "primary_keys": "array<string>",
    "before": IMAGE_TYPE,
    "after": IMAGE_TYPE,
}
_WRAPPED: Final = ", ".join(f"{name}:{kind}" for name, kind in _FIELDS.items())
_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in _FIELDS.items())
_IMAGES: Final = ("before", "after")
# Fields with the name of an envelope column.
_TAKEN: Final = ("table", *_IMAGES)
# The trail's number in ten digits, the place in it in ten or more: 00000000-10000001391.
_INITIAL: Final = r"^0*-1(\d{10,99})$"
_IS_MISSING: Final = "_isMissing"


class GoldenGate(Format):
    """The decoder of `format: ogg`."""

    name: ClassVar[str] = "ogg"
    plain: ClassVar[frozenset[str]] = NUMBERS_AND_TIMES

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: OggOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON-lines files; columns that an update lacks are `absent`, not NULL."""
        lines = read_lines(spark, files, f"{_SCHEMA}, payload struct<{_WRAPPED}>")
        bare = lines.withColumns({n: F.coalesce(n, F.col("payload")[n]) for n in _FIELDS})
        renamed = bare.withColumnsRenamed({n: f"_{n}" for n in _TAKEN})
        images = {f"_{n}": _sent(F.col(f"_{n}")) for n in _IMAGES}
        named = F.coalesce("_table", F.lit(options.table or None))
        described = {"op": looked_up(F.col("op_type"), _OPS), "_named": named}
        # A step of its own: a lambda beside a replaced column would see the new one.
        flagged = renamed.withColumn("_unsent", _missing(F.col("_before")))
        records = flagged.withColumns({**images, **described})
        parted = records.withColumn("_parts", name_parts(F.col("_named")))
        rows = with_row(parted, "_before", "_after")
        judged = with_numbers(rows, _numbers()).withColumn("_reason", _reason())
        return select_envelope(judged, _envelope())


def _sent(image: Column) -> Column:
    """The columns that were in the trail, without the flags beside them."""
    flagged = F.array_join(F.map_keys(image), " ").contains(_IS_MISSING)

    def sent(name: Column, _: Column) -> Column:
        is_flag = F.map_contains_key(image, F.regexp_replace(name, f"{_IS_MISSING}$", ""))
        missing = F.coalesce(image[F.concat(name, F.lit(_IS_MISSING))] == "true", F.lit(False))
        return ~missing & ~(name.endswith(_IS_MISSING) & is_flag)

    return F.when(flagged, F.map_filter(image, sent)).otherwise(image)


def _missing(image: Column) -> Column:
    """The columns that an image flags as missing in the trail; NULL for none."""
    flagged = F.map_filter(image, lambda name, v: name.endswith(_IS_MISSING) & (v == "true"))
    names = F.transform(F.map_keys(flagged), lambda n: F.regexp_replace(n, f"{_IS_MISSING}$", ""))
    missing = F.filter(names, lambda name: F.map_contains_key(image, name))
    return F.when(F.size(missing) > 0, missing)


def _numbers() -> dict[str, Column]:
    """The texts of all numbers in a position; `_read` is the time of an initial load."""
    initial = F.when(F.col("pos").contains("-"), F.col("pos"))
    read = F.when(initial.isNotNull(), F.col("op_ts"))
    return {
        "_place": F.col("pos"),
        "_loaded": F.regexp_extract(initial, _INITIAL, 1),
        "_read": F.unix_micros(instant_of_text(read)).cast("string"),
    }


def _envelope() -> dict[str, Column]:
    op, reason = F.col("op"), F.col("_reason")
    return {
        "outcome": outcome(F.lit(False), reason),
        "reason": reason,
        **table_names(F.col("_parts")),
        "position": F.when(F.col("_loaded").isNull(), source_position(F.col("_place"))).otherwise(
            full_load_position(or_zero("_read"), F.col("_loaded"))
        ),
        "before": F.when(op.isin(OP_UPDATE, OP_DELETE), F.col("_before")),
        "after": F.when(op.isin(OP_INSERT, OP_UPDATE), F.col("_row")),
        "absent": F.when(op == OP_UPDATE, absent_but(F.col("_after"), F.col("_row"))),
        "old_absent": F.when(op.isin(OP_UPDATE, OP_DELETE), F.col("_unsent")),
        "key": carried_key(F.col("primary_keys"), F.map_keys(F.coalesce("_row", "_before"))),
        "source_ts": instant_of_text(F.col("op_ts")),
        "raw": F.when(reason.isNotNull(), _raw()),
    }


def _reason() -> Column:
    """Why a record is rejected; NULL for an event."""
    op, table = F.col("op"), F.col("_named")
    image = F.when(op == OP_DELETE, F.col("_before")).otherwise(F.col("_row"))
    lacks_image = (op != OP_TRUNCATE) & is_empty_image(image)
    return F.coalesce(
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json")),
        F.when(F.col("op_type").isNull(), F.lit("not_an_envelope")),
        F.when(op.isNull(), F.concat(F.lit("unknown_op:"), F.col("op_type"))),
        F.when(table.isNull(), F.lit("table_missing")),
        F.when(~table.rlike(TABLE_NAME), F.lit("bad_table")),
        F.when(lacks_image, F.lit("image_missing")),
        F.when(F.col("_twice"), F.lit("duplicate_column")),
        F.when(~F.col("pos").rlike(f"^{DIGITS}$|{_INITIAL}"), F.lit("bad_pos")),
    )


def _raw() -> Column:
    return line_or(*(F.col(f"_{n}" if n in _TAKEN else n).alias(n) for n in _FIELDS))
