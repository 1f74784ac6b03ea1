"""DDL and TRUNCATE events that spell their table as the statement did.

Before planning, such events get the name of the one table that differs from theirs only in case and
that has rows, is stored or is listed. Events without such a table keep their name.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.pipeline import Pipeline
from sluice.config.source_tables import listed_name
from sluice.ddl.stated_names import may_name
from sluice.ddl.statements import UnreadableDdlError
from spark_jobs.canonical import OP_DDL, OP_TRUNCATE, OUTCOME_EVENT, SOURCE_PARTS
from spark_jobs.decoding.decode import is_of
from spark_jobs.decoding.known_tables import KnownTables, known_tables
from spark_jobs.driver_messages import emit
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import Source, TableSummary


def with_spelling_of_rows(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> DataFrame | None:
    """Return the envelope with tables spelled as in row events; None if nothing changes."""
    tables = known_tables(job, summaries)
    if not tables.as_typed:
        return None
    asked = [summary for summary in summaries if summary.records and summary.source.table]
    others = [summary for summary in asked if summary.source not in tables.with_rows]
    names = dict(pair for summary in others for pair in _respelled(job.pipeline, summary, tables))
    return envelope.withColumns(_parts(names)) if names else None


def _respelled(
    pipeline: Pipeline, summary: TableSummary, tables: KnownTables
) -> Iterator[tuple[Source, Source]]:
    stated, listed = summary.source, pipeline.tables or {}
    if listed_name(listed, stated.name) is not None:
        return
    also = [_as_listed(stated, name) for name in listed if may_name(name, stated.name)]
    try:
        one = tables.one(stated, also)
    except UnreadableDdlError as problem:
        if summary.truncates:
            emit(f"{stated.name}: it is unknown which table a TRUNCATE concerns ({problem})")
        return
    if one != stated:
        yield stated, one


def _as_listed(stated: Source, listed: str) -> Source:
    """Return the source with the last parts of its name spelled as in `tables:`."""
    name_parts = listed.split(".")[::-1]
    of = [part for part in ("table", "schema", "database") if getattr(stated, part)]
    spelled = dict(zip(of, name_parts, strict=False))
    return Source(*(spelled.get(part, getattr(stated, part)) for part in SOURCE_PARTS))


def _parts(names: dict[Source, Source]) -> dict[str, Column]:
    of_table = F.col("op").isin(OP_DDL, OP_TRUNCATE) & (F.col("outcome") == OUTCOME_EVENT)
    parts = {}
    for part in SOURCE_PARTS:
        spelled = F.col(part)
        for stated, one in names.items():
            stated_part = F.nullif(F.lit(getattr(one, part)), F.lit(""))
            spelled = F.when(of_table & is_of(stated), stated_part).otherwise(spelled)
        parts[part] = spelled
    return parts
