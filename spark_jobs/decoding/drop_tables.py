"""DROP TABLE by `on_drop_table`: ignore it, empty the target, or stop the batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.pipeline import Pipeline
from sluice.config.policies import APPLY, FAIL, KEEP
from sluice.config.source_tables import matches, truncate_policy
from sluice.ddl.statements import (
    MENTIONS_DROPS,
    UnreadableDdlError,
    dropped_tables,
    replaces_table,
)
from sluice.errors import PlanError
from spark_jobs.canonical import OP_TRUNCATE
from spark_jobs.decoding.refused_records import lines_of_statements
from spark_jobs.decoding.statements import (
    Statement,
    has_statements,
    ordered_tables,
    placed_statements,
    with_drops,
)
from spark_jobs.driver_messages import emit
from spark_jobs.expressions import changed_where
from spark_jobs.formats import FORMATS
from spark_jobs.job import Job, advice
from spark_jobs.planning.discover import discover
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import table_config
from spark_jobs.record_places import PLACE

_MOST: Final = 1_000


def by_policy(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> tuple[DataFrame, list[TableSummary]]:
    """Return the records and the tables' summaries, with each DROP TABLE as a TRUNCATE.

    Raises PlanError if the policy is to fail, or if it is unclear what is dropped.
    """
    if job.pipeline.on_drop_table == KEEP or not has_statements(summaries):
        return envelope, summaries
    ordered = ordered_tables(summaries)
    found = placed_statements(job, envelope, MENTIONS_DROPS, _MOST, "drop a table")
    drops = [one for one in found if _drops(job, one, ordered)]
    _report_others(found, drops)
    if not drops:
        return envelope, summaries
    if job.pipeline.on_drop_table == FAIL:
        seen = lines_of_statements(job, envelope, drops)
        raise PlanError(*sorted({*map(_refusal, drops)}), *seen, *advice(job))
    emptied = envelope.withColumns(changed_where(_is_among(drops), {"op": F.lit(OP_TRUNCATE)}))
    return emptied, with_drops(discover(emptied), drops)


def _drops(job: Job, statement: Statement, ordered: Collection[Source]) -> bool:
    """Whether a statement drops the table that its event names. Unclear statements are reported
    and change nothing."""
    source = statement.source
    try:
        tables = dropped_tables(statement.text)
        if not tables or (source.table and table_config(job.pipeline, source) is None):
            return False
        if not any(_is_of(job.pipeline, source, table) for table in tables):
            raise UnreadableDdlError(f"it drops {', '.join(tables)}, and its event names another")
        if job.pipeline.on_drop_table != FAIL:
            _refuse_unsafe(job.pipeline, statement, ordered)
    except UnreadableDdlError as problem:
        emit(
            f"{source.name}: a DDL statement that may drop a table could not be followed "
            f"({problem}); it changes nothing"
        )
        return False
    return True


def _refuse_unsafe(pipeline: Pipeline, statement: Statement, ordered: Collection[Source]) -> None:
    """Raise UnreadableDdlError for a DROP TABLE that must not remove all rows below it."""
    source = statement.source
    if FORMATS[pipeline.format].drops_to_load:
        raise UnreadableDdlError("a full load may begin with it, and its rows would go too")
    if _of_a_part(pipeline, source):
        raise UnreadableDdlError(
            "the target has several `sources`; `on_truncate: apply` of the table lets one of them "
            "empty it"
        )
    if statement.lost and source in ordered:
        raise UnreadableDdlError("its place in the source's order is unknown")


def _report_others(statements: Sequence[Statement], drops: Sequence[Statement]) -> None:
    """Report dropped tables that have no event of their own: for a DROP of several tables Maxwell
    1.22.6 writes one event each, Canal 1.1.7 only one for the first."""
    reported = {(one.source.table.lower(), one.text) for one in statements}
    for drop in drops:
        tables = dropped_tables(drop.text)
        silent = [name for name in tables if (name.lower(), drop.text) not in reported]
        if len(tables) > 1 and silent:
            emit(
                f"{drop.source.name}: a DROP TABLE is of {', '.join(silent)} too, of which the "
                "batch has no event: the rows stay"
            )


def _is_of(pipeline: Pipeline, source: Source, dropped: str) -> bool:
    """Whether `dropped` is the event's table. With `sources`, the event has the target's name."""
    config = table_config(pipeline, source)
    patterns = [p.rpartition(".")[2] for p in (config and config.sources) or ()]
    own = dropped.lower() == source.table.lower()
    return own or (bool(patterns) and matches(patterns, dropped))


def _of_a_part(pipeline: Pipeline, source: Source) -> bool:
    """Whether the table is one of several `sources` of a target, none of which may
    empty it alone."""
    config = table_config(pipeline, source)
    if config is None or not config.sources:
        return False
    return config.on_truncate is None and truncate_policy(pipeline, config) == APPLY


def _refusal(drop: Statement) -> str:
    statement = "CREATE OR REPLACE TABLE" if replaces_table(drop.text) else "DROP TABLE"
    return (
        f"table {drop.source.name}: a {statement} came, and on_drop_table is {FAIL}; set it to "
        f"{KEEP} or empty and run again"
    )


def _is_among(statements: Iterable[Statement]) -> Column:
    places = (
        F.struct(*(F.lit(part).alias(name) for name, part in zip(PLACE, one.place, strict=True)))
        for one in statements
    )
    return F.struct(*PLACE).isin(*places)
