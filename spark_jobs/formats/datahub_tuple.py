"""DataHub Tuple: rows of a topic that DataWorks fills, with extra columns about the change.

Order: `_sequence_id_` as an integer of any length, which both records of an update share; the one
with the old row goes first. The columns: DataWorks, "Appendix: DataHub message formats", section
"Tuple".
"""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import DatahubTupleOptions
from sluice.manifest import SourceFile
from spark_jobs.canonical import OP_DELETE, OP_INSERT, OP_UPDATE_AFTER
from spark_jobs.formats.base import NO_PRIOR_FACTS, Format, PriorFacts, SourceColumn
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    DIGITS,
    dated,
    instant_of_micros,
    line_or,
    number_or_zero,
    outcome,
    select_envelope,
)
from spark_jobs.formats.common.tabular import columns_of, read_rows
from spark_jobs.formats.common.tabular_columns import META, REPEATS, ROW, Meta
from spark_jobs.position_text import full_load_position, number, source_position

_SEQUENCE: Final = "_sequence_id_"
_OPERATION: Final = "_operation_type_"
_EXECUTE_TIME: Final = "_execute_time_"
_EXCUTE_TIME: Final = "_excute_time_"  # the spelling of the vendor's older pages and topics
_SOURCE_TABLE: Final = "_source_table_"
_BEFORE_IMAGE: Final = "_before_image_"
_AFTER_IMAGE: Final = "_after_image_"
_COLUMNS: Final = (
    _SEQUENCE, _OPERATION, _EXECUTE_TIME, _EXCUTE_TIME, _SOURCE_TABLE, _BEFORE_IMAGE, _AFTER_IMAGE,
)  # fmt: skip
_INSERT: Final = "I"
_UPDATE: Final = "U"
_DELETE: Final = "D"
_OLD_ROW: Final = "YN"
_NEW_ROW: Final = "NY"
_FULL_LOAD: Final = "-1"
_MICROSECOND_DIGITS: Final = 16
_NANOSECOND_DIGITS: Final = 19


class DatahubTuple(Format):
    """The decoder of `format: datahub_tuple`."""

    name: ClassVar[str] = "datahub_tuple"
    # The reader gives every row all columns of its table, whichever rows name them.
    whole_rows: ClassVar[bool] = True

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: DatahubTupleOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON lines, CSV, Parquet and Avro files; each record is one half of a change."""
        rows = read_rows(spark, files, Meta(any_case=_COLUMNS), _SOURCE_TABLE)
        # In steps, so that Spark computes once what the envelope uses several times.
        described = rows.withColumns({"_images": _images(), "source_ts": _source_ts()})
        judged = described.withColumn("op", _op())
        return select_envelope(judged, _envelope(options.table or None))

    def columns(self, types: str, options: DatahubTupleOptions) -> list[SourceColumn]:
        """Return the data columns of Parquet and Avro files; JSON and CSV have no types."""
        return columns_of(types)


def _envelope(table: str | None) -> dict[str, Column]:
    named = F.coalesce(F.nullif(_about(_SOURCE_TABLE), F.lit("")), F.lit(table))
    reason, op = _reason(named), F.col("op")
    return {
        "outcome": outcome(F.lit(False), reason),
        "reason": reason,
        "table": named,
        "position": _position(),
        "before": F.when(op == OP_DELETE, F.col(ROW)),
        "after": F.when(op != OP_DELETE, F.col(ROW)),
        "event_id": F.nullif(_about(_SEQUENCE), F.lit(_FULL_LOAD)),
        "raw": F.when(reason.isNotNull(), line_or(META, ROW)),
    }


def _about(name: str) -> Column:
    return F.col(META)[name]


def _images() -> Column:
    """Return both flags as `YN` or `NY`; NULL if one is missing, for both are needed."""
    return F.concat(_about(_BEFORE_IMAGE), _about(_AFTER_IMAGE))


def _op() -> Column:
    """Return the op; the old half of an update is a delete.

    If the kind is missing, which the vendor's appendix does not list, the flags alone show it.
    """
    images = F.col("_images")
    kind = F.coalesce(_about(_OPERATION), F.when(images.isin(_OLD_ROW, _NEW_ROW), F.lit(_UPDATE)))
    return (
        F.when((kind == _DELETE) | (images == _OLD_ROW), F.lit(OP_DELETE))
        .when(kind == _UPDATE, F.lit(OP_UPDATE_AFTER))
        .when(kind == _INSERT, F.lit(OP_INSERT))
    )


def _reason(table: Column) -> Column:
    kind, sequence, images = _about(_OPERATION), _about(_SEQUENCE), F.col("_images")
    return (
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json"))
        .when(F.col(REPEATS), F.lit("duplicate_column"))
        .when(kind.isNull() & images.isNull(), F.lit("not_an_envelope"))
        .when(~kind.isin(_INSERT, _UPDATE, _DELETE), F.concat(F.lit("unknown_op:"), kind))
        .when(table.isNull(), F.lit("table_missing"))
        .when((kind == _UPDATE) & images.isNull(), F.lit("image_flags_missing"))
        .when(~_agrees(kind, images), F.lit("bad_image_flags"))
        .when(~sequence.rlike(f"^({_FULL_LOAD}|{DIGITS})$"), F.lit("bad_sequence_id"))
    )


def _agrees(kind: Column, images: Column) -> Column:
    """Whether the flags are those of the operation; NULL if there are none."""
    return (
        F.when(kind == _INSERT, images == _NEW_ROW)
        .when(kind == _DELETE, images == _OLD_ROW)
        .otherwise(images.isin(_OLD_ROW, _NEW_ROW))
    )


def _position() -> Column:
    """Order by sequence; full-load rows by their time, so that a newer full load wins."""
    sequence = _about(_SEQUENCE)
    read = F.unix_micros("source_ts").cast("string")
    return F.when(sequence == _FULL_LOAD, full_load_position(number_or_zero(read))).otherwise(
        source_position(number(sequence))
    )


def _execute_time() -> Column:
    return F.coalesce(_about(_EXECUTE_TIME), _about(_EXCUTE_TIME))


def _source_ts() -> Column:
    """Return the change's time: milliseconds (LONG), microseconds (TIMESTAMP), or a typed value.

    A number with the digits of nanoseconds is nanoseconds; a time outside the calendar is NULL.
    """
    text, size = _execute_time(), F.length(_execute_time())
    count = F.when(text.rlike(r"^\d+$"), text.try_cast("bigint"))
    micros = (
        F.when(size >= _NANOSECOND_DIGITS, F.call_function("div", count, F.lit(1000)))
        .when(size >= _MICROSECOND_DIGITS, count)
        .otherwise(F.try_multiply(count, F.lit(1000)))
    )
    return instant_of_micros(F.coalesce(micros, F.unix_micros(dated(text).try_cast("timestamp"))))
