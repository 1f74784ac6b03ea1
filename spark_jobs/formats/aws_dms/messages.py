"""The messages of AWS DMS: its Kafka and Kinesis targets."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import AwsDmsOptions
from sluice.manifest import SourceFile
from spark_jobs.canonical import IMAGE_TYPE
from spark_jobs.formats.aws_dms.reasons import BEFORE, LOAD, with_reason
from spark_jobs.formats.common.envelope import CORRUPT, any_repeats_column, name_of, read_lines
from spark_jobs.formats.common.tabular_columns import REPEATS, ROW
from spark_jobs.quoting import quoted
from spark_jobs.record_places import PLACE

_CONTROL: Final = "control"
_DROP: Final = "drop-table"
_WITHOUT_STATEMENT: Final = ("rename-column", "drop-column", "rename-table")
_SCHEMA: Final = f"""
    data {IMAGE_TYPE}, control string,
    metadata struct<timestamp:string, `record-type`:string, operation:string,
        `schema-name`:string, `table-name`:string, `transaction-id`:string,
        `commit-timestamp`:string>
"""


def read_messages(
    spark: SparkSession, files: tuple[SourceFile, ...], options: AwsDmsOptions
) -> DataFrame:
    field = options.before_field
    lines = read_lines(spark, files, f"{quoted(field)} {IMAGE_TYPE}, {_SCHEMA}")
    lines = lines.withColumnRenamed(field, BEFORE)
    about = F.col("metadata")
    operation = about["operation"]
    order = options.order_column
    ordering = name_of(F.col("data"), order) if order else F.lit(None).cast("string")
    records = lines.withColumn("_ordering", ordering).select(
        about["schema-name"].alias("schema"),
        about["table-name"].alias("table"),
        operation.alias("_op"),
        F.coalesce(about["record-type"] == _CONTROL, F.lit(False)).alias("_control"),
        (operation == LOAD).alias("_full_load"),
        F.try_element_at("data", F.col("_ordering")).alias("_order"),
        F.coalesce(about["commit-timestamp"], about["timestamp"]).alias("_time"),
        about["transaction-id"].alias("tx_id"),
        _without(F.col("data"), F.col("_ordering")).alias(ROW),
        BEFORE,
        _statement(about).alias("_statement"),
        any_repeats_column(F.col("data"), F.col(BEFORE)).alias(REPEATS),
        F.lit(None).cast("string").alias("types"),
        F.lit(False).alias("_marked"),
        CORRUPT,
        *PLACE,
        "data",
        "metadata",
    )
    parts = ("data", F.col(BEFORE).alias(field), "metadata")
    return with_reason(records, bool(order), parts).drop("data", "metadata")


def _statement(about: Column) -> Column:
    """The text of a control record, which has no statement.

    That of a renamed table, or of a renamed or dropped column, is one that no grammar reads, such
    as `drop column of orders`, so that a load reports it.
    """
    operation, control = about["operation"], F.col("control")
    done = F.replace(operation, F.lit("-"), F.lit(" "))
    unread = F.concat_ws(" ", done, F.lit("of"), about["table-name"])
    return (
        F.when(operation == _DROP, _drop(about))
        .when(operation.isin(*_WITHOUT_STATEMENT), unread)
        .otherwise(F.coalesce(control, operation))
    )


def _drop(about: Column) -> Column:
    """The statement that a `drop-table` record stands for."""
    parts = (F.nullif(about[name], F.lit("")) for name in ("schema-name", "table-name"))
    named = (F.concat(F.lit('"'), F.replace(p, F.lit('"'), F.lit('""')), F.lit('"')) for p in parts)
    return F.concat(F.lit("DROP TABLE "), F.concat_ws(".", *named))


def _without(row: Column, name: Column) -> Column:
    return F.when(name.isNull(), row).otherwise(F.map_filter(row, lambda key, _: key != name))
