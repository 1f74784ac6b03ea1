"""The plans of a batch, from its events, its DDL and the existing tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Final

from pyspark.sql import DataFrame

from sluice.column_renames import Renames, dropped_since, nowhere_columns
from sluice.config.pipeline import TableConfig
from sluice.config.source_tables import truncate_policy
from sluice.errors import PlanError, UnknownKeyError
from sluice.ledger.column_log import ColumnStatement
from sluice.names import PROP_SHAPES, PROP_SOURCE
from sluice.source_names import stored_name
from sluice.types.columns import parse_type, widest
from spark_jobs.decoding.known_tables import known_tables
from spark_jobs.decoding.missing_target import refuse_missing_target
from spark_jobs.decoding.other_source import refuse_other_source
from spark_jobs.decoding.refused_records import lines_by_table
from spark_jobs.decoding.shape_cache import decode_shapes
from spark_jobs.formats import FORMATS
from spark_jobs.job import Job, advice
from spark_jobs.lake.evolution import retyped
from spark_jobs.lake.table_id import TableId, changelog_of, target_id
from spark_jobs.planning.additions import additions_of
from spark_jobs.planning.dropped import leaves_target, may_go, refuse_fixed
from spark_jobs.planning.key_names import key_for_names
from spark_jobs.planning.other_names import known_names
from spark_jobs.planning.partition_fields import refuse_fields, refuse_taken
from spark_jobs.planning.plan import TablePlan, plan_table
from spark_jobs.planning.renames_known import (
    following,
    of_table,
    published,
    refuse_renames,
    renames_from,
    renames_matter,
    renames_of,
)
from spark_jobs.planning.shared_targets import refuse_shared_targets
from spark_jobs.planning.stored_types import stored_form
from spark_jobs.planning.table_columns import target_columns
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import table_config, target_name
from spark_jobs.planning.type_changes import TypeChange, refuse_widening

NO_STATEMENTS: Final[Mapping[Source, list[ColumnStatement]]] = {}


def make_plans(
    job: Job,
    summaries: list[TableSummary],
    statements: Mapping[Source, list[ColumnStatement]] = NO_STATEMENTS,
    envelope: DataFrame | None = None,
) -> list[TablePlan]:
    """Plan every table with row events, or with columns that the batch's DDL changes
    (`statements`, by table).

    Raises one PlanError that names every mistake and shows, where it has the batch's records
    (`envelope`), some of those that are refused.
    """
    plans, refused = _planned(job, _candidates(job, summaries, statements))
    if refused:
        raise _refusal(job, envelope, refused)
    refuse_shared_targets(plans, job.pipeline.format)
    return plans


def _candidates(
    job: Job,
    summaries: Sequence[TableSummary],
    statements: Mapping[Source, list[ColumnStatement]],
) -> Iterator[_Candidate]:
    known, tables = {summary.source for summary in summaries}, known_tables(job, summaries)
    others = cache(lambda: [source.name for source in tables.all()])
    with_published = [*published(job.lake.catalog, job.pipeline.name), *chain(*statements.values())]
    unknown = (TableSummary(source) for source in statements if source not in known)
    for summary in (*summaries, *unknown):
        config = table_config(job.pipeline, summary.source)
        if config is not None:
            mine = of_table(with_published, summary.source.name, tables.as_typed, others)
            yield _Candidate(summary, config, statements.get(summary.source, []), mine)


def _planned(
    job: Job, candidates: Iterable[_Candidate]
) -> tuple[list[TablePlan], list[tuple[TableSummary, PlanError]]]:
    """Return the plans, and the tables that cannot be planned with the reason."""
    plans: list[TablePlan] = []
    refused: list[tuple[TableSummary, PlanError]] = []
    for candidate in candidates:
        try:
            if _is_planned(job, candidate):
                plans.append(_plan(job, candidate))
        except UnknownKeyError as error:
            if not _is_gone(job, candidate.summary):
                refused.append((candidate.summary, error))
        except PlanError as error:
            refused.append((candidate.summary, error))
    return plans, refused


def _refusal(
    job: Job, envelope: DataFrame | None, refused: Sequence[tuple[TableSummary, PlanError]]
) -> PlanError:
    """Return one error for all tables; unless only keys or types are unknown, it shows records and
    how to go on without the batch."""
    of_events = [one for one in refused if not isinstance(one[1], UnknownKeyError)]
    mistakes = {summary.source.name: str(error) for summary, error in refused}
    mistakes |= _with_records(job, envelope, of_events)
    lines = [line for text in mistakes.values() for line in text.split("\n")]
    return PlanError(*lines, *(advice(job) if of_events else ())).of_tables(mistakes)


def _with_records(
    job: Job, envelope: DataFrame | None, refused: Sequence[tuple[TableSummary, PlanError]]
) -> dict[str, str]:
    """Return, by source table, why it is refused and the records that show it."""
    shown = [(summary, error.evidence) for summary, error in refused if error.evidence is not None]
    lines = {} if envelope is None else lines_by_table(job, envelope, shown)
    errors = {summary.source.name: str(error) for summary, error in refused}
    return {name: "\n".join([text, *lines.get(name, ())]) for name, text in errors.items()}


@dataclass(frozen=True)
class _Candidate:
    """A table of the batch that the pipeline loads.

    `news`: the batch's DDL about the table; `statements`: all known DDL about it.
    """

    summary: TableSummary
    config: TableConfig
    news: Sequence[ColumnStatement]
    statements: Sequence[ColumnStatement]


def _is_planned(job: Job, candidate: _Candidate) -> bool:
    changes = not _changes_nothing(
        candidate.summary, truncate_policy(job.pipeline, candidate.config)
    )
    return changes or (bool(candidate.news) and _changes_columns(job, candidate))


def _is_gone(job: Job, summary: TableSummary) -> bool:
    """Whether a table without a target has only been dropped or re-created in the batch.

    The ledger records the drop, and rows from before it are refused (`early_drops`).
    """
    only = bool(summary.drops) and not summary.images and len(summary.drops) == summary.truncates
    return only and job.lake.load(_target(job, summary)) is None


def _changes_nothing(summary: TableSummary, on_truncate: str) -> bool:
    return not summary.images and summary.records == summary.passed_over(on_truncate)


def _changes_columns(job: Job, candidate: _Candidate) -> bool:
    """Whether the batch's DDL renames stored columns, gives them defaults or ends these."""
    stored = job.lake.columns(_target(job, candidate.summary))
    if stored is None:
        return False
    renamed = renames_matter(job.pipeline) and renames_from(candidate.statements, candidate.config)
    renames = renames_of(job.pipeline, candidate.config, candidate.statements) or ()
    dropped = any(one.drops_table for one in candidate.news)
    told = candidate.statements if dropped else candidate.news
    return bool(renamed or additions_of(told, candidate.config, stored, renames))


def _plan(job: Job, candidate: _Candidate) -> TablePlan:
    """Plan a table by its current column names and all known DDL."""
    summary, config = candidate.summary, candidate.config
    refuse_renames(job.pipeline, summary.source, candidate.news)
    target = _target(job, summary)
    refuse_missing_target(job.lake, target)
    stored = job.lake.columns(target) or {}
    renames = renames_of(job.pipeline, config, candidate.statements)
    known = {**stored, **_returning(job, candidate, stored, renames or ())} if stored else stored
    plan = following(job.pipeline, _by_events(job, candidate, known, renames or ()), renames, known)
    _refuse_partitions(job, plan, stored)
    _refuse_widening(job, plan, stored)
    return replace(
        plan,
        additions=additions_of(candidate.statements, config, plan.types, plan.renames),
        may_go=_may_go(job, candidate, plan, renames or ()),
    )


def _returning(
    job: Job, candidate: _Candidate, stored: Mapping[str, str], renames: Renames
) -> Mapping[str, str]:
    """Return columns that left the target, with the types in the changelog, which has their values,
    if the batch has them or its DDL may say that they stand again."""
    gone = nowhere_columns(renames).difference(map(str.lower, stored))
    if not gone:
        return {}
    carried = {stored_name(name).lower() for name in candidate.summary.columns}
    wanted = gone if any(one.columns for one in candidate.news) else gone & carried
    kept = job.lake.columns(changelog_of(_target(job, candidate.summary))) or {}
    return {name: kind for name, kind in kept.items() if name.lower() in wanted}


def _may_go(job: Job, candidate: _Candidate, plan: TablePlan, renames: Renames) -> tuple[str, ...]:
    """Return the columns that go unless a change has a value in them (`dropped.may_go`); raise
    PlanError if the target's rows need one that was dropped."""
    if not (renames and leaves_target(candidate.config)):
        return ()
    refuse_fixed(plan.source.name, renames, _fixed(job, plan))
    aside = dropped_since(job.lake.column_history(target_id(plan)).renames, renames)
    return may_go(candidate.statements, candidate.config, plan.types, aside)


def _fixed(job: Job, plan: TablePlan) -> set[str]:
    placed = {partition.column for partition in plan.config.partitions}
    return placed | job.lake.fixed_columns(target_id(plan), tuple(plan.identity))


def _by_events(
    job: Job, candidate: _Candidate, stored: Mapping[str, str], renames: Renames
) -> TablePlan:
    summary, config, target = candidate.summary, candidate.config, _target(job, candidate.summary)
    key = job.lake.key(target)
    loaded = job.lake.load(target)
    properties = loaded.properties if loaded else {}
    refuse_other_source(properties.get(PROP_SOURCE), target, summary, config)
    script = job.pipeline.ddl_table(summary.source.name)
    key_columns = key_for_names(summary, config, key, script.key if script else (), renames)
    names = known_names(summary, config, key_columns, renames, candidate.statements)
    fmt = FORMATS[job.pipeline.format]
    shapes = decode_shapes(properties.get(PROP_SHAPES))
    described = shapes.types if shapes else {}
    return plan_table(
        job.pipeline, fmt, summary, config, StoredTable(stored, key, names, described)
    )


def _refuse_partitions(job: Job, plan: TablePlan, stored: Mapping[str, str]) -> None:
    table = plan.source.name
    if not stored:
        types = {column.name: column.type for column in target_columns(plan)}
        refuse_fields(table, plan.config.partitions, types)
    elif new := [name for name in plan.data if name not in stored]:
        refuse_taken(table, job.lake.partition_fields(target_id(plan)), new)


def _refuse_widening(job: Job, plan: TablePlan, stored: Mapping[str, str]) -> None:
    """Raise PlanError if a stored column needs a wider type that it cannot get."""
    changes = retyped(target_columns(plan), stored)
    fixed = job.lake.fixed_columns(target_id(plan), plan.key) if changes else set()
    for change in changes:
        wider = _wider(plan, change)
        refuse_widening(plan.name, change, plan.follows, change.column in fixed, wider)


def _wider(plan: TablePlan, change: TypeChange) -> list[int]:
    """Return the descriptions of a column whose values its stored type does not hold."""
    before = parse_type(change.before)
    of_column = (c.readings.items() for c in plan.columns if c.name == change.column)
    kinds = ((i, stored_form(kind)) for i, kind in chain.from_iterable(of_column))
    return [i for i, kind in kinds if i is not None and widest(before, kind) != before]


def _target(job: Job, summary: TableSummary) -> TableId:
    return TableId(job.pipeline.namespace, target_name(job.pipeline, summary.source))
