"""The rows of AWS DMS: CSV and Parquet files of its S3 target."""

from __future__ import annotations

import re
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import AwsDmsOptions
from sluice.containers import csv_rows
from sluice.landing.table_folders import CHANGES_FILE, folders
from sluice.manifest import JSON_LINES, SourceFile
from spark_jobs.canonical import IMAGE_TYPE
from spark_jobs.formats.aws_dms.reasons import BEFORE, with_reason
from spark_jobs.formats.common.envelope import CORRUPT
from spark_jobs.formats.common.scans import with_facts
from spark_jobs.formats.common.tabular import read_rows
from spark_jobs.formats.common.tabular_columns import META, REPEATS, ROW, Meta
from spark_jobs.record_places import PLACE

_OPERATION: Final = "Op"
_FULL_LOAD_FILE: Final = re.compile(r"(SEGMENT[0-9A-Z]+_)?LOAD[0-9A-F]+\.", re.IGNORECASE)


def holds_rows(file: SourceFile) -> bool:
    """Whether a file holds rows, not messages."""
    return file.container != JSON_LINES or csv_rows.is_csv(file.key)


def read_table_rows(
    spark: SparkSession, files: tuple[SourceFile, ...], options: AwsDmsOptions
) -> DataFrame:
    """Read rows of the S3 target into the columns of `messages.read_messages`; the object's key
    names the table."""
    order, time = options.order_column, options.timestamp_column
    meta = Meta((_OPERATION,), tuple(filter(None, (order, time))))
    rows = with_facts(spark, read_rows(spark, files, meta), files, _facts_of_key)
    operation = F.col(META)[_OPERATION]
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
        F.lit(None).cast(IMAGE_TYPE).alias(BEFORE),
        none.alias("_statement"),
        REPEATS,
        "types",
        (F.lit(options.csv_not_logged != "") & F.col("csv")).alias("_marked"),
        CORRUPT,
        *PLACE,
        META,
    )
    return with_reason(records, bool(order), (META, ROW)).drop(META)


def _facts_of_key(file: SourceFile) -> dict[str, Any]:
    """Read `<folder>/<schema>/<table>[/<date>]/<file>`, the S3 target's layout of objects."""
    schema, table = ["", "", *folders(file.key)][-2:]
    name = file.key.rpartition("/")[2]
    loaded, changes = (kind.match(name) is not None for kind in (_FULL_LOAD_FILE, CHANGES_FILE))
    kinds = {"loaded": loaded, "changes": changes, "csv": csv_rows.is_csv(file.key)}
    return {"schema": schema, "table": table, **kinds}
