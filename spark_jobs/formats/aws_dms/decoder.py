"""AWS DMS: messages of its Kafka and Kinesis targets, CSV and Parquet files of its S3 target.

Order: the column that a mapping rule fills from `AR_H_CHANGE_SEQ`, if the pipeline names one;
otherwise arrival, since nothing else in a record gives an order. Full-load rows rank below every
change.
"""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import AwsDmsOptions
from sluice.manifest import SourceFile
from spark_jobs.canonical import OP_DDL, OP_DELETE, OP_INSERT, OP_UPDATE
from spark_jobs.formats.aws_dms.files import holds_rows, read_table_rows
from spark_jobs.formats.aws_dms.messages import read_messages
from spark_jobs.formats.aws_dms.old_values import OldBesideNew, is_old
from spark_jobs.formats.aws_dms.reasons import BEFORE
from spark_jobs.formats.base import (
    NO_PRIOR_FACTS,
    NUMBERS_AND_TIMES,
    Format,
    PriorFacts,
    SourceColumn,
)
from spark_jobs.formats.common.envelope import (
    dated,
    instant_of_text,
    number_or_zero,
    outcome,
    select_envelope,
)
from spark_jobs.formats.common.overlaid_rows import overlaid
from spark_jobs.formats.common.row_image import absent_columns
from spark_jobs.formats.common.scans import union
from spark_jobs.formats.common.tabular import columns_of
from spark_jobs.formats.common.tabular_columns import REPEATS, ROW
from spark_jobs.position_text import full_load_position, number, source_position


class AwsDms(Format):
    """The decoder of `format: aws_dms`."""

    name: ClassVar[str] = "aws_dms"
    bytes_as: ClassVar[str] = "hex"
    plain: ClassVar[frozenset[str]] = NUMBERS_AND_TIMES
    drops_to_load: ClassVar[bool] = True

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: AwsDmsOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode messages in JSON, and rows in CSV, Parquet and Avro."""
        rows = tuple(f for f in files if holds_rows(f))
        messages = tuple(f for f in files if not holds_rows(f))
        scans = [read_table_rows(spark, rows, options)] if rows else []
        if messages or not rows:
            scans.append(read_messages(spark, messages, options))
        records = union(scans).withColumns(_images(options)).withColumns(_logged(options))
        return select_envelope(records, _envelope(options))

    def columns(self, types: str, options: AwsDmsOptions) -> list[SourceColumn]:
        """The columns of Parquet files, without those of old values."""
        described = columns_of(types)
        names = {column.name for column in described}
        return [c for c in described if not is_old(c.name, options.before_affixes, names)]


def _images(options: AwsDmsOptions) -> dict[str, Column]:
    """Separate the old values, NULL if there are none, from the row.

    Old values are in a field of their own, or beside the new ones under names with affixes; where
    a message has both, the field's count, unless it is empty.
    """
    # A repeated name would be an error below; such a row is rejected anyway.
    row, before = (F.when(~F.col(REPEATS), F.col(name)) for name in (ROW, BEFORE))
    if not any(options.before_affixes):
        return {"_old": before, "_new": row}
    both = OldBesideNew(row, *options.before_affixes)
    mixed, old = both.may_have_old(), both.old()
    return {
        "_old": F.coalesce(_unless_empty(before), F.when(mixed, _unless_empty(old)), before),
        "_new": F.when(mixed, both.new()).otherwise(row),
    }


def _unless_empty(row: Column) -> Column:
    return F.when(F.size(row) > 0, row)


def _logged(options: AwsDmsOptions) -> dict[str, Column]:
    """Return the images without the values that a file marks as not logged, and `_unlogged`: the
    names of such old values, which are unknown and not unchanged."""
    if not options.csv_not_logged:
        return {"_unlogged": F.array().cast("array<string>")}

    def marked(value: Column) -> Column:
        return F.col("_marked") & value.eqNullSafe(options.csv_not_logged)

    def logged(image: str) -> Column:
        return F.map_filter(image, lambda _, value: ~marked(value))

    def unknown(name: Column, value: Column) -> Column:
        return marked(value) & F.try_element_at("_old", name).isNull()

    none = F.array().cast("array<string>")
    old = F.coalesce(F.map_keys(F.map_filter("_old", lambda _, value: marked(value))), none)
    gone = F.coalesce(F.map_keys(F.map_filter("_new", unknown)), none)
    unlogged = F.when(F.col("_kind") == OP_DELETE, F.array_union(old, gone)).otherwise(old)
    return {"_old": logged("_old"), "_new": logged("_new"), "_unlogged": unlogged}


def _known(row: Column) -> Column:
    """Return an old row without the columns whose old value was not logged."""
    known = F.map_filter(row, lambda name, _: ~F.array_contains("_unlogged", name))
    return F.when(F.size("_unlogged") > 0, known).otherwise(row)


def _envelope(options: AwsDmsOptions) -> dict[str, Column]:
    control, reason = F.col("_control"), F.col("_reason")
    op = F.when(control, F.lit(OP_DDL)).otherwise(F.col("_kind"))
    new = F.col("_new")
    # Columns without an old value did not change; a deleted row may have old values alone.
    old = _over(new, F.col("_old"))
    gone = _over(new, _carried(F.col("_old"), new))
    # A message leaves out old values that were all NULL: the old row is not known then.
    updated = (op == OP_UPDATE) & (F.size("_old") > 0)
    before = _known(F.when(op == OP_DELETE, F.coalesce(gone, new)).when(updated, old))
    return {
        "outcome": outcome(F.lit(False), reason),
        "reason": reason,
        "schema": F.nullif("schema", F.lit("")),
        "table": F.nullif("table", F.lit("")),
        "op": op,
        "position": _position(),
        "before": before,
        "after": F.when(op.isin(OP_INSERT, OP_UPDATE), new),
        "source_ts": instant_of_text(F.when(~F.col("_full_load"), F.col("_time"))),
        "ddl": F.when(control, F.col("_statement")),
        **_left_out(options, absent_columns(op, before, new)),
    }


def _left_out(options: AwsDmsOptions, absent: dict[str, Column]) -> dict[str, Column]:
    """The columns that were not logged: missing ones if an option says so, marked ones
    of CSV files."""
    if options.is_partial:
        return absent
    marked = absent.items() if options.csv_not_logged else ()
    return {name: F.when(F.col("_marked"), names) for name, names in marked}


def _over(row: Column, values: Column) -> Column:
    """The row with these values over it, or the values alone."""
    return F.coalesce(overlaid(row, values), values)


def _carried(values: Column, row: Column) -> Column:
    """The old values of a deleted row.

    Files have these columns in every row, but leave them empty if the deleted row is in the other
    columns.
    """

    def in_row(name: Column) -> Column:
        return F.coalesce(F.map_contains_key(row, name), F.lit(False))

    return F.map_filter(values, lambda name, value: value.isNotNull() | ~in_row(name))


def _position() -> Column:
    """The position: the order column of a change, the time of reading of a full-load row."""
    read = F.unix_micros(dated(F.col("_time")).try_cast("timestamp")).cast("string")
    return F.when(F.col("_full_load"), full_load_position(number_or_zero(read))).otherwise(
        source_position(number(F.col("_order")))
    )
