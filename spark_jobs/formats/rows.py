"""Plain rows as a full load: CSV, Parquet, Avro and JSON lines without change metadata.

Every row is an insert. For each key the last row wins: by `order_column`, else by the natural sort
of the objects' keys and the place in the file, so that dated dumps follow each other.
"""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import RowsOptions
from sluice.landing.table_folders import folders
from sluice.manifest import SourceFile
from spark_jobs.canonical import IMAGE_TYPE, OP_INSERT
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
    column_of,
    line_or,
    outcome,
    select_envelope,
)
from spark_jobs.formats.common.scans import with_facts
from spark_jobs.formats.common.tabular import columns_of, read_rows
from spark_jobs.formats.common.tabular_columns import REPEATS, ROW, Meta
from spark_jobs.position_text import number, source_position


class Rows(Format):
    """The decoder of `format: rows`."""

    name: ClassVar[str] = "rows"
    # An export that leaves NULLs out may leave a column out of a whole file, as DataHub Tuple does.
    whole_rows: ClassVar[bool] = True
    plain: ClassVar[frozenset[str]] = NUMBERS_AND_TIMES

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: RowsOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode rows; the option `table` names their table, else the file's folder."""
        rows = read_rows(spark, files, Meta())
        named = with_facts(spark, rows, files, lambda file: {"table": _table(file, options)})
        order = options.order_column
        return select_envelope(named, _envelope(column_of(F.col(ROW), order) if order else None))

    def columns(self, types: str, options: RowsOptions) -> list[SourceColumn]:
        """The columns of Parquet and Avro files; JSON and CSV have no types."""
        return columns_of(types)


def _table(file: SourceFile, options: RowsOptions) -> str:
    return options.table or ["", *folders(file.key)][-1]


def _envelope(order: Column | None) -> dict[str, Column]:
    reason = (
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json"))
        .when(F.coalesce("table", F.lit("")) == "", F.lit("table_missing"))
        .when(F.col(REPEATS), F.lit("duplicate_column"))
    )
    if order is not None:
        reason = reason.when(~F.coalesce(order, F.lit("")).rlike(f"^{DIGITS}$"), F.lit("bad_order"))
    position = F.lit(None).cast("string") if order is None else source_position(number(order))
    return {
        "outcome": outcome(F.lit(False), reason),
        "reason": reason,
        "op": F.lit(OP_INSERT),
        "position": position,
        "before": F.lit(None).cast(IMAGE_TYPE),
        "after": F.col(ROW),
        "source_ts": F.lit(None).cast("timestamp"),
        "raw": F.when(reason.isNotNull(), line_or(ROW)),
    }
