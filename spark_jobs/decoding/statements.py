"""The DDL statements of a batch, as a driver reads them."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from sluice.ddl.statements import LONGEST
from sluice.errors import PlanError, landed_again
from sluice.positions import epoch_prefix
from spark_jobs.canonical import OP_DDL, OUTCOME_EVENT, PLACE, SOURCE_PARTS
from spark_jobs.decoding.decode import by_place, with_origin
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import Source, TableSummary


def has_statements(summaries: Iterable[TableSummary]) -> bool:
    """Whether a table of the batch has DDL events."""
    return any(table.ddl for table in summaries)


def ordered_tables(summaries: Iterable[TableSummary]) -> set[Source]:
    """Return the tables whose rows all have a position from the source."""
    return {t.source for t in summaries if t.has_changes and not t.unordered}


def ddl_events(envelope: DataFrame, pattern: str) -> DataFrame:
    """Return the DDL events whose statement matches the pattern."""
    ddl = (F.col("outcome") == OUTCOME_EVENT) & (F.col("op") == OP_DDL)
    return envelope.where(ddl & F.col("ddl").rlike(pattern))


def statement_position(job: Job) -> Column:
    """Return the position, with epoch, of an event to which `with_origin` was applied."""
    position = F.coalesce("position", by_place())
    return F.concat_ws(".", F.lit(epoch_prefix(job.pipeline.epoch)), position)


def statement_columns() -> list[Column]:
    """Return the columns of a statement: the parts of its event's table ("" if absent), `lost`
    (whether the source gives no position) and `ddl` (the text)."""
    parts = (F.coalesce(n, F.lit("")).alias(n) for n in SOURCE_PARTS)
    text, lost = F.substring("ddl", 1, LONGEST), F.col("position").isNull()
    return [*parts, lost.alias("lost"), text.alias("ddl")]


def placed_statements(
    job: Job, envelope: DataFrame, pattern: str, at_most: int, may: str
) -> list[Row]:
    """Return the statements that match the pattern, in record order, with their place and, as `at`,
    their position.

    Raises PlanError for more than a driver can read. `may`: what they may do, for the message.
    """
    located = with_origin(ddl_events(envelope, pattern), job.spark, job.manifest.files)
    statements = located.orderBy(by_place()).select(
        *statement_columns(), *PLACE, statement_position(job).alias("at")
    )
    rows = statements.limit(at_most + 1).collect()
    if len(rows) > at_most:
        again = landed_again(job.pipeline.name, job.manifest.batch_id)
        raise PlanError(
            f"the batch has more than {at_most} DDL statements that may {may}: lower "
            f"max_files_per_batch; {again}"
        )
    return rows
