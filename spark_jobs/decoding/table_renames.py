"""RENAME TABLE by `on_rename_table`: report it, or stop the batch.

Later events have the new name. If a table's `sources` list both names, its target follows the
rename, and nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame

from sluice.config.pipeline import Pipeline
from sluice.config.policies import FAIL
from sluice.config.source_tables import claimants, matches, with_sources
from sluice.ddl.statements import UnreadableDdlError
from sluice.ddl.tables import MENTIONS_TABLE_RENAMES, TableName, renamed_tables
from sluice.errors import PlanError
from spark_jobs.decoding.refused_records import lines_of_statements
from spark_jobs.decoding.statements import Statement, any_statements, has_statements
from spark_jobs.driver_messages import emit
from spark_jobs.job import Job, advice
from spark_jobs.planning.table_summary import Source, TableSummary

_MOST: Final = 1_000


def by_policy(job: Job, envelope: DataFrame, summaries: list[TableSummary]) -> None:
    """Report every loaded table whose later events go to another target, by its new name.

    Raises one PlanError for all of them if the policy is to fail.
    """
    if not has_statements(summaries):
        return
    found = any_statements(envelope, MENTIONS_TABLE_RENAMES, _MOST + 1)
    told = [(one, [*_messages(job.pipeline, one)]) for one in found[:_MOST]]
    messages = sorted({line for _, lines in told for line in lines})
    if len(found) > _MOST:
        messages.append(f"the batch has more than {_MOST} DDL statements that may rename a table")
    if messages and job.pipeline.on_rename_table == FAIL:
        raise PlanError(
            *messages,
            *lines_of_statements(job, envelope, (one for one, lines in told if lines)),
            f"on_rename_table is {FAIL}: see to it, or set it to keep, and run again",
            *advice(job),
        )
    for line in messages:
        emit(line)


def _messages(pipeline: Pipeline, statement: Statement) -> Iterator[str]:
    event = statement.source
    try:
        renames = renamed_tables(statement.text)
    except UnreadableDdlError as problem:
        yield (
            f"{event.name}: a DDL statement that may rename a table could not be read ({problem})"
        )
        return
    for rename in renames:
        old, new = _source(event, rename.old), _source(event, rename.new)
        if _parts(pipeline, old, new):
            yield (
                f"table {old.name}: it was renamed to {new.name}, and what comes under that name "
                f"is not loaded into its target; list {new.name} under `tables:` with "
                f"`sources: [{old.name}]` and with the target's `table_name`, to go on with one"
            )


def _source(event: Source, table: TableName) -> Source:
    """Return the full name of a table in a statement; the event's own table is spelled as
    in the event."""
    name = event.table if table.name.lower() == event.table.lower() else table.name
    if event.schema or not table.schema:
        return Source(event.database, table.schema or event.schema, name)
    return Source(table.schema, "", name)


def _parts(pipeline: Pipeline, old: Source, new: Source) -> bool:
    """Whether the pipeline loads the old name, and the new name belongs to another
    target or none."""
    if pipeline.tables is None:
        return True
    before = _claimants(pipeline, old)
    return bool(before) and before != _claimants(pipeline, new)


def _claimants(pipeline: Pipeline, source: Source) -> list[str]:
    """Return the entries of `tables:` that match a source table.

    A database may change the case of a name, and one of several `sources` may lack a schema.
    """
    tables = pipeline.tables or {}
    for name in (source.table, source.table.upper(), source.table.lower()):
        found = claimants(tables, Source(source.database, source.schema, name).name)
        if found:
            return found
    ends = {n: [p.rpartition(".")[2] for p in ps] for n, ps in with_sources(tables).items()}
    unqualified = not (source.database or source.schema)
    return sorted(
        n for n, patterns in ends.items() if unqualified and matches(patterns, source.table)
    )
