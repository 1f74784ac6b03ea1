"""TRUNCATEs that a format sends as DDL: of an unknown table, of a part of a table, or of a table
without other events."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.config.pipeline import Pipeline
from spark_jobs.canonical import OP_TRUNCATE, OUTCOME_EVENT, SOURCE_PARTS
from spark_jobs.decoding.statements import ddl_events, has_statements, statements_of, with_drops
from spark_jobs.driver_messages import emit
from spark_jobs.formats import FORMATS
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import TableSummary, source_of
from spark_jobs.planning.targets import table_config


def report_unclear(pipeline: Pipeline, envelope: DataFrame, summaries: list[TableSummary]) -> None:
    """Report TRUNCATEs of an unknown table or of a part of one, in formats that send them."""
    pattern = FORMATS[pipeline.format].unclear_truncates
    if not (pattern and has_statements(summaries)):
        return
    tables = ddl_events(envelope, pattern).select(*SOURCE_PARTS).distinct()
    sources = {source_of(row) for row in tables.collect()}
    listed = (s for s in sources if not s.table or table_config(pipeline, s) is not None)
    for name in sorted(source.name for source in listed):
        emit(
            f"{name or 'an event without a table'}: a TRUNCATE came as a statement for an unknown "
            "table, or for a part of a table: it changes nothing, and the rows stay"
        )


def with_lone_truncates(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> list[TableSummary]:
    """Return the summaries with the TRUNCATEs of tables without other events among their `drops`,
    in formats that send statements of tables whose rows they do not send."""
    alone = [
        summary.source
        for summary in summaries
        if summary.truncates and summary.records == summary.truncates + summary.ddl
    ]
    if not (alone and FORMATS[job.pipeline.format].states_other_tables):
        return summaries
    is_event = (F.col("outcome") == OUTCOME_EVENT) & (F.col("op") == OP_TRUNCATE)
    stated = envelope.where(is_event & F.col("ddl").isNotNull())
    own = [one for one in statements_of(job, stated) if one.source in alone]
    return with_drops(summaries, own)
