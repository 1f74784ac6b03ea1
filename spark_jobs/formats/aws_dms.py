"""AWS DMS: messages of its Kafka and Kinesis targets, CSV and Parquet files of its S3 target.

Order: the column that a mapping rule fills from `AR_H_CHANGE_SEQ`, if the pipeline names one;
otherwise arrival, since nothing else in a record gives an order. Full-load rows rank below every
change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import AwsDmsOptions
from sluice.containers import csv_rows
from sluice.landing.table_folders import CHANGES_FILE, folders
from sluice.manifest import JSON_LINES, SourceFile
from spark_jobs.canonical import (
    IMAGE_TYPE,
    OP_DDL,
    OP_DELETE,
    OP_INSERT,
    OP_UPDATE,
    PLACE,
    full_load_position,
    number,
    quoted,
    source_position,
)
from spark_jobs.formats.base import (
    NO_PRIOR_FACTS,
    NUMBERS_AND_TIMES,
    Format,
    PriorFacts,
    SourceColumn,
)
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    DIGITS,
    any_repeats_column,
    instant_of_text,
    line_or,
    looked_up,
    name_of,
    number_or_zero,
    outcome,
    overlaid,
    read_lines,
    select_envelope,
    union,
    with_facts,
)
from spark_jobs.formats.common.row_image import absent_columns
from spark_jobs.formats.common.tabular import (
    META,
    REPEATS,
    ROW,
    Meta,
    columns_of,
    read_rows,
)

OPERATION: Final = "Op"
LOAD: Final = "load"
OPS: Final = {
    LOAD: OP_INSERT, "insert": OP_INSERT, "update": OP_UPDATE, "delete": OP_DELETE,
    "I": OP_INSERT, "U": OP_UPDATE, "D": OP_DELETE,
}  # fmt: skip
CONTROL: Final = "control"
DROP: Final = "drop-table"
_SCHEMA: Final = f"""
    data {IMAGE_TYPE}, control string,
    metadata struct<timestamp:string, `record-type`:string, operation:string,
        `schema-name`:string, `table-name`:string, `transaction-id`:string,
        `commit-timestamp`:string>
"""
_BEFORE: Final = "_before"
_FULL_LOAD_FILE: Final = re.compile(r"(SEGMENT[0-9A-Z]+_)?LOAD[0-9A-F]+\.", re.IGNORECASE)


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
        rows = tuple(f for f in files if _holds_rows(f))
        messages = tuple(f for f in files if not _holds_rows(f))
        scans = [_read_rows(spark, rows, options)] if rows else []
        if messages or not rows:
            scans.append(_read_messages(spark, messages, options))
        records = union(scans).withColumns(_images(options)).withColumns(_logged(options))
        return select_envelope(records, _envelope(options))

    def columns(self, types: str, options: AwsDmsOptions) -> list[SourceColumn]:
        """The columns of Parquet files, without those of old values."""
        described = columns_of(types)
        names = {column.name for column in described}
        return [c for c in described if not _is_old(c.name, options.before_affixes, names)]


def _holds_rows(file: SourceFile) -> bool:
    return file.container != JSON_LINES or csv_rows.is_csv(file.key)


def _is_old(name: str, affixes: tuple[str, str], names: set[str]) -> bool:
    prefix, suffix = affixes
    surrounded = name.startswith(prefix) and name.endswith(suffix)
    return any(affixes) and surrounded and name[len(prefix) : len(name) - len(suffix)] in names


def _read_messages(
    spark: SparkSession, files: tuple[SourceFile, ...], options: AwsDmsOptions
) -> DataFrame:
    field = options.before_field
    lines = read_lines(spark, files, f"{quoted(field)} {IMAGE_TYPE}, {_SCHEMA}")
    lines = lines.withColumnRenamed(field, _BEFORE)
    about = F.col("metadata")
    operation = about["operation"]
    order = options.order_column
    ordering = name_of(F.col("data"), order) if order else F.lit(None).cast("string")
    records = lines.withColumn("_ordering", ordering).select(
        about["schema-name"].alias("schema"),
        about["table-name"].alias("table"),
        operation.alias("_op"),
        F.coalesce(about["record-type"] == CONTROL, F.lit(False)).alias("_control"),
        (operation == LOAD).alias("_full_load"),
        F.try_element_at("data", F.col("_ordering")).alias("_order"),
        F.coalesce(about["commit-timestamp"], about["timestamp"]).alias("_time"),
        about["transaction-id"].alias("tx_id"),
        _without(F.col("data"), F.col("_ordering")).alias(ROW),
        _BEFORE,
        F.when(operation == DROP, _drop(about))
        .otherwise(F.coalesce("control", operation))
        .alias("_statement"),
        any_repeats_column(F.col("data"), F.col(_BEFORE)).alias(REPEATS),
        F.lit(None).cast("string").alias("types"),
        F.lit(False).alias("_marked"),
        CORRUPT,
        *PLACE,
        "data",
        "metadata",
    )
    parts = ("data", F.col(_BEFORE).alias(field), "metadata")
    return _with_reason(records, bool(order), parts).drop("data", "metadata")


def _drop(about: Column) -> Column:
    """The statement of a `drop-table` record, which has no text."""
    parts = (F.nullif(about[name], F.lit("")) for name in ("schema-name", "table-name"))
    named = (F.concat(F.lit('"'), F.replace(p, F.lit('"'), F.lit('""')), F.lit('"')) for p in parts)
    return F.concat(F.lit("DROP TABLE "), F.concat_ws(".", *named))


def _without(row: Column, name: Column) -> Column:
    return F.when(name.isNull(), row).otherwise(F.map_filter(row, lambda key, _: key != name))


def _read_rows(
    spark: SparkSession, files: tuple[SourceFile, ...], options: AwsDmsOptions
) -> DataFrame:
    """Read rows of the S3 target into the columns of `_read_messages`; the object's key
    names the table."""
    order, time = options.order_column, options.timestamp_column
    meta = Meta((OPERATION,), tuple(filter(None, (order, time))))
    rows = with_facts(spark, read_rows(spark, files, meta), files, _facts_of_key)
    operation = F.col(META)[OPERATION]
    none = F.lit(None).cast("string")
    records = rows.select(
        "schema",
        "table",
        F.coalesce(operation, F.lit("I")).alias("_op"),
        F.lit(False).alias("_control"),
        ((operation.isNull() & ~F.col("changes")) | F.col("loaded")).alias("_full_load"),
        (F.col(META)[order] if order else none).alias("_order"),
        (F.col(META)[time] if time else none).alias("_time"),
        none.alias("tx_id"),
        ROW,
        F.lit(None).cast(IMAGE_TYPE).alias("_before"),
        none.alias("_statement"),
        REPEATS,
        "types",
        (F.lit(options.csv_not_logged != "") & F.col("csv")).alias("_marked"),
        CORRUPT,
        *PLACE,
        META,
    )
    return _with_reason(records, bool(order), (META, ROW)).drop(META)


def _with_reason(records: DataFrame, ordered: bool, parts: Sequence[str | Column]) -> DataFrame:
    """Add a record's kind of change, the reason to reject it, and then its `parts` as text."""
    with_kind = records.withColumn("_kind", looked_up(F.col("_op"), OPS))
    reasoned = with_kind.withColumn("_reason", _reason(ordered))
    return reasoned.withColumn("raw", F.when(F.col("_reason").isNotNull(), line_or(*parts)))


def _facts_of_key(file: SourceFile) -> dict[str, Any]:
    """Read `<folder>/<schema>/<table>[/<date>]/<file>`, the S3 target's layout of objects."""
    schema, table = ["", "", *folders(file.key)][-2:]
    name = file.key.rpartition("/")[2]
    loaded, changes = (kind.match(name) is not None for kind in (_FULL_LOAD_FILE, CHANGES_FILE))
    kinds = {"loaded": loaded, "changes": changes, "csv": csv_rows.is_csv(file.key)}
    return {"schema": schema, "table": table, **kinds}


def _images(options: AwsDmsOptions) -> dict[str, Column]:
    """Separate the old values, NULL if there are none, from the row.

    Old values are in a field of their own, or beside the new ones under names with a prefix or a
    suffix.
    """
    # A repeated name would be an error below; such a row is rejected anyway.
    row, before = (F.when(~F.col(REPEATS), F.col(name)) for name in (ROW, _BEFORE))
    prefix, suffix = options.before_affixes
    if not prefix + suffix:
        return {"_old": before, "_new": row}

    def surrounded(name: Column) -> Column:
        return name.startswith(prefix) & name.endswith(suffix)

    def bare(name: Column) -> Column:
        length = F.length(name) - len(prefix + suffix)
        return F.substr(name, F.lit(len(prefix) + 1), length)

    def names_another(name: Column) -> Column:
        return surrounded(name) & F.map_contains_key(row, bare(name))

    # A message leaves out a column that an update set to NULL, but has its old value.
    has_old = (F.col("_kind") == OP_UPDATE) & F.exists(F.map_keys(row), names_another)

    def is_old(name: Column) -> Column:
        return names_another(name) | (surrounded(name) & has_old)

    old_values = F.map_filter(row, lambda name, _: is_old(name))
    carried = F.transform_keys(old_values, lambda name, _: bare(name))
    # Few rows have such names, and a look at each name costs far more.
    any_old = F.array_join(F.map_keys(row), " ").contains(prefix or suffix)
    return {
        "_old": F.coalesce(before, F.when(any_old & (F.size(carried) > 0), carried)),
        "_new": F.when(any_old, F.map_filter(row, lambda name, _: ~is_old(name))).otherwise(row),
    }


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


def _reason(ordered: bool) -> Column:
    control = F.col("_control")
    misplaced = ~control & ~F.col("_full_load") & _lacks_order() if ordered else F.lit(False)
    return (
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json"))
        .when(F.col("_op").isNull(), F.lit("not_an_envelope"))
        .when(~control & F.col("_kind").isNull(), F.concat(F.lit("unknown_op:"), "_op"))
        .when(F.coalesce("table", F.lit("")) == "", F.lit("table_missing"))
        .when(~control & _lacks_image(), F.lit("image_missing"))
        .when(misplaced, F.lit("bad_order"))
        .when(F.col(REPEATS), F.lit("duplicate_column"))
    )


def _lacks_image() -> Column:
    """Whether a record has no row; a delete may have it in the old values alone."""
    deleted = F.col("_kind") == OP_DELETE
    return F.coalesce(F.col(ROW), F.when(deleted, F.col("_before"))).isNull()


def _lacks_order() -> Column:
    """Whether a change lacks its order, without which it would rank below all that have one."""
    return ~F.coalesce("_order", F.lit("")).rlike(f"^{DIGITS}$")


def _position() -> Column:
    """The position: the order column of a change, the time of reading of a full-load row."""
    read = F.unix_micros(F.col("_time").try_cast("timestamp")).cast("string")
    return F.when(F.col("_full_load"), full_load_position(number_or_zero(read))).otherwise(
        source_position(number(F.col("_order")))
    )
