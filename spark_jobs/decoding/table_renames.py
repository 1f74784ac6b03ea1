"""RENAME TABLE by `on_rename_table`: it is told, or stops the batch.

Events come under the new name from then on. `sources` of a table make them those of the old one:
such a rename is followed, and nothing needs to be said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame, Row

from sluice.config.policies import FAIL
from sluice.config.project import Pipeline
from sluice.config.source_tables import claimants, matches, with_sources
from sluice.ddl.statements import UnreadableDdl
from sluice.ddl.tables import SPEAKS_OF_TABLE_RENAMES, TableName, renamed_tables
from sluice.errors import PlanError
from spark_jobs.decoding.statements import ddl_events, told_columns
from spark_jobs.job import Job
from spark_jobs.planning.discover import Found, Source, source_of
from spark_jobs.telling import tell

_MOST: Final = 1_000


def by_policy(job: Job, envelope: DataFrame, found: list[Found]) -> None:
    """Tell of every loaded table that got a name under which its events go elsewhere.

    Raises PlanError with all of them where the pipeline wants to fail for one.
    """
    if not any(table.ddl for table in found):
        return
    asked = ddl_events(envelope, SPEAKS_OF_TABLE_RENAMES).select(*told_columns()).limit(_MOST + 1)
    rows = asked.collect()
    told = sorted({line for row in rows[:_MOST] for line in _told(job.pipeline, row)})
    if len(rows) > _MOST:
        told.append(f"the batch has more than {_MOST} DDL statements that may rename a table")
    if told and job.pipeline.on_rename_table == FAIL:
        raise PlanError(
            "\n".join(told) + f"\non_rename_table is {FAIL}: see to it, or set it to keep, and "
            "run again; or roll the batch back to go on without its files"
        )
    for line in told:
        tell(line)


def _told(pipeline: Pipeline, row: Row) -> Iterator[str]:
    event = source_of(row)
    try:
        renames = renamed_tables(row["ddl"])
    except UnreadableDdl as problem:
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
    """A table of a statement by its full name; the event's own as the event spells it."""
    name = event.table if table.name.lower() == event.table.lower() else table.name
    if event.schema or not table.schema:
        return Source(event.database, table.schema or event.schema, name)
    return Source(table.schema, "", name)


def _parts(pipeline: Pipeline, old: Source, new: Source) -> bool:
    """Whether the pipeline loads what came under the old name, and the new one goes elsewhere."""
    if pipeline.tables is None:
        return True
    before = _claimants(pipeline, old)
    return bool(before) and before != _claimants(pipeline, new)


def _claimants(pipeline: Pipeline, source: Source) -> list[str]:
    """Those of `tables:` that a table is of. A database may write a name in another case, and one
    of several `sources` has lost the parts that its table's own name does not say."""
    tables = pipeline.tables or {}
    for name in (source.table, source.table.upper(), source.table.lower()):
        found = claimants(tables, Source(source.database, source.schema, name).name)
        if found:
            return found
    ends = {n: [p.rpartition(".")[2] for p in ps] for n, ps in with_sources(tables).items()}
    bare = not (source.database or source.schema)
    return sorted(n for n, patterns in ends.items() if bare and matches(patterns, source.table))
