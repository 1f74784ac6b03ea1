"""Comments on tables and columns in a batch's DDL, for the ledger; publishing applies them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame

from sluice.ddl.comments import MENTIONS_COMMENTS, Comment, comments
from sluice.ddl.statements import Altered, UnreadableDdlError
from sluice.ledger.comment_log import CommentStatement
from sluice.source_names import is_reserved, stored_name
from spark_jobs.decoding.ddl_columns import named_by
from spark_jobs.decoding.known_tables import KnownTables, known_tables
from spark_jobs.decoding.statements import Statement, has_statements, placed_statements
from spark_jobs.driver_messages import emit
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import table_config, target_name

_MOST: Final = 10_000


def comments_by(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> list[CommentStatement]:
    """Return the comments on targets in the batch's DDL.

    A target with `sources` gets none, since each source table has its own. Raises PlanError for
    more statements than a driver can read.
    """
    if not has_statements(summaries):
        return []
    found = placed_statements(job, envelope, MENTIONS_COMMENTS, _MOST, "set a comment")
    tables = known_tables(job, summaries)
    return list(
        dict.fromkeys(one for stated in found for one in _of_statement(job, stated, tables))
    )


def _of_statement(
    job: Job, statement: Statement, tables: KnownTables
) -> Iterator[CommentStatement]:
    event = statement.source
    try:
        table_comments = [(_table_of(one, event, tables), one) for one in comments(statement.text)]
    except UnreadableDdlError as problem:
        emit(f"{event.name}: a DDL statement may set a comment and is skipped ({problem})")
        return
    for turn, (of, one) in enumerate(table_comments):
        config = None if of is None else table_config(job.pipeline, of)
        column = None if one.column is None else stored_name(one.column)
        own = column is not None and is_reserved(column)
        if of is not None and config is not None and not (config.sources or own):
            target = (job.pipeline.namespace, target_name(job.pipeline, of))
            yield CommentStatement(*target, statement.at, turn, column, one.text)


def _table_of(one: Comment, event: Source, tables: KnownTables) -> Source | None:
    """Return the table of a comment: the event's, or that in the statement if the event names none.
    None if the two differ.

    Raises UnreadableDdlError if the table is ambiguous.
    """
    if not event.table or "," in event.table:
        return named_by(Altered(one.table, (), one.schema), event, tables)
    return event if one.table.lower() == event.table.lower() else None
