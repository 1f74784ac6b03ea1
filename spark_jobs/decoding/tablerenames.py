"""RENAME TABLE by `on_rename_table`: it is told, or stops the batch.

Events come under the new name from then on. `sources` of a table make them those of the old one:
such a rename is followed, and nothing needs to be said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame, Row

from sluice.config.project import Pipeline
from sluice.config.sourcetables import claimants
from sluice.ddl import UnreadableDdl
from sluice.ddltables import SPEAKS_OF_TABLE_RENAMES, RenamedTable, renamed_tables
from sluice.errors import PlanError
from spark_jobs.decoding.statements import ddl_events, told_columns
from spark_jobs.job import Job
from spark_jobs.planning.discover import Found, Source, source_of
from spark_jobs.telling import tell

_FAIL: Final = "fail"
_MOST: Final = 1_000


def by_policy(job: Job, envelope: DataFrame, found: list[Found]) -> None:
    """Tell of every loaded table that got a name under which its events go elsewhere.

    Raises PlanError with all of them where the pipeline wants to fail for one.
    """
    if not any(table.ddl for table in found):
        return
    rows = ddl_events(envelope, SPEAKS_OF_TABLE_RENAMES).select(*told_columns()).limit(_MOST + 1)
    told = sorted({line for row in rows.collect() for line in _told(job.pipeline, row)})
    if told and job.pipeline.on_rename_table == _FAIL:
        raise PlanError(
            "\n".join(told) + f"\non_rename_table is {_FAIL}: see to it, or set it to keep, and "
            "run again; or roll the batch back to go on without its files"
        )
    for line in told:
        tell(line)


def _told(pipeline: Pipeline, row: Row) -> Iterator[str]:
    try:
        renames = renamed_tables(row["ddl"])
    except UnreadableDdl as problem:
        yield (
            f"{source_of(row).name}: a DDL statement that may rename a table could not be read "
            f"({problem})"
        )
        return
    for rename in renames:
        old, new = _sources(source_of(row), rename)
        if _parts(pipeline, old.name, new.name):
            yield (
                f"table {old.name}: it was renamed to {new.name}, and what comes under that name "
                f"is not loaded into its target; list {new.name} under `tables:` with "
                f"`sources: [{old.name}]` and with the target's `table_name`, to go on with one"
            )


def _sources(event: Source, rename: RenamedTable) -> tuple[Source, Source]:
    """Both tables by their full names; a schema stands where the event has its own."""
    old = Source(event.database, event.schema, rename.old)
    schema = rename.schema or event.schema
    if event.schema or not rename.schema:
        return old, Source(event.database, schema, rename.new)
    return old, Source(rename.schema, "", rename.new)


def _parts(pipeline: Pipeline, old: str, new: str) -> bool:
    """Whether the pipeline loads what came under the old name, and the new one goes elsewhere."""
    if pipeline.tables is None:
        return True
    before = claimants(pipeline.tables, old)
    return bool(before) and before != claimants(pipeline.tables, new)
