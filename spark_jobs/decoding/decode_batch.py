"""decode, the stage: write every table's changes into the batch's partition of its changelog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pyspark.sql import DataFrame, Observation

from sluice import names
from sluice.config.policies import FAIL
from sluice.config.source_tables import truncate_policy
from sluice.errors import PlanError
from sluice.faults import Point, reach
from sluice.ledger import comment_log
from sluice.ledger.changelogs import forget_changes
from sluice.ledger.column_log import ColumnStatement, record
from sluice.result import LeftOut
from spark_jobs.decoding import early_drops, lookalikes, table_isolation, transactions
from spark_jobs.decoding.changelog_rows import Decoded, decode_table
from spark_jobs.decoding.ddl_columns import statements_of_batch
from spark_jobs.decoding.ddl_comments import comments_by
from spark_jobs.decoding.envelope_parts import require_all, write_parts
from spark_jobs.decoding.plans import make_plans
from spark_jobs.decoding.record_rules import apply_record_rules
from spark_jobs.decoding.shape_cache import (
    ShapeCheck,
    ShapeCheckResult,
    decode_shapes,
    encode_shapes,
    load_shapes,
)
from spark_jobs.decoding.whole_envelope import whole_envelope
from spark_jobs.formats import FORMATS
from spark_jobs.formats.base import PriorFacts
from spark_jobs.job import Job
from spark_jobs.lake.table_id import changelog_id, target_id
from spark_jobs.planning import defaults
from spark_jobs.planning.additions import report_unreadable_defaults
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.sources import refuse_unclear
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.threads import map_concurrently


@dataclass(frozen=True)
class DecodedBatch:
    """The batch: its records in generic form, the tables that it has, and the decoded ones."""

    envelope: DataFrame
    summaries: list[TableSummary]
    tables: list[Decoded]
    left_out: tuple[LeftOut, ...] = ()


def decode_batch(job: Job) -> DecodedBatch:
    """Decode with cached shapes, in one pass per table, or discover the batch's shapes first.

    Raises one PlanError that names every mistake.
    """
    if job.left_out or job.pipeline.holds_transactions:
        return _decode_with_discovery(job)
    return _decode_with_cached_shapes(job) or _decode_with_discovery(job)


def _decode_with_cached_shapes(job: Job) -> DecodedBatch | None:
    """Decode with the cached shapes; None if the batch needs discovery, as for a record of an
    unknown shape or for DDL."""
    known = load_shapes(job.lake, job.pipeline.namespace)
    plans = _plans_from_cache(job, known)
    if plans is None:
        return None
    prior_facts = _known_to_reader(known, plans)
    envelope = whole_envelope(job, prior_facts)
    whole_before = prior_facts.old_columns is None
    seeming = FORMATS[job.pipeline.format].seeming
    checks = [
        ShapeCheck(tuple(known), plan.summary, plan.key_columns, whole_before, seeming)
        for plan in plans
    ]
    results = map_concurrently(
        zip(plans, checks, strict=True), lambda pair: _decode_checked(job, envelope, *pair)
    )
    if not all(_is_proven(job, table, seen) for table, seen in results):
        return None
    # Every table's check saw the records without a table, so the first one speaks for all.
    _, first = results[0]
    if first.unsure and lookalikes.has_lookalikes(job):
        return None
    elsewhere = TableSummary(Source("", "", ""), ignored=first.elsewhere)
    tables = [table for table, seen in results if seen.summary.records]
    return DecodedBatch(envelope, [elsewhere, *(seen.summary for _, seen in results)], tables)


def _plans_from_cache(job: Job, known: list[TableSummary]) -> list[TablePlan] | None:
    """Plan all tables with known shapes; None if there are none, or one has no plan."""
    try:
        refuse_unclear(job.pipeline, known)
        plans = make_plans(job, known)
    except PlanError:
        return None  # discovery gives a better message
    return plans if plans and len(plans) == len(known) else None


def _is_proven(job: Job, table: Decoded, seen: ShapeCheckResult) -> bool:
    """Whether the batch has nothing of a table that the cached shapes do not tell."""
    if seen.summary.ddl:
        return False  # it may rename columns
    return seen.expected and _allowed(job, table) and _covers_defaults(job, table)


def _known_to_reader(known: list[TableSummary], plans: list[TablePlan]) -> PriorFacts:
    keys = [key for plan in plans for key in plan.key_columns]
    # A reader restricted to known columns cannot show whether an image had others.
    few = all(plan.keyed for plan in plans) and not any(key.holds_nulls for key in keys)
    names_of_keys = frozenset(name for key in keys for name in key.spellings)
    return PriorFacts(
        names_of_keys if few else None, partial=any(summary.partial for summary in known)
    )


def _allowed(job: Job, table: Decoded) -> bool:
    refused = truncate_policy(job.pipeline, table.plan.config) == FAIL
    return not (table.plan.summary.truncates and refused)


def _covers_defaults(job: Job, table: Decoded) -> bool:
    """Whether the target's property has the batch's column defaults.

    The cached shapes do not prove it: they may come from a failed attempt or a batch that was
    rolled back.
    """
    plan, known = table.plan, job.lake.column_history(target_id(table.plan)).defaults
    return defaults.covers(known, plan.defaults, table.span, plan.described)


def _decode_checked(
    job: Job, envelope: DataFrame, plan: TablePlan, check: ShapeCheck
) -> tuple[Decoded, ShapeCheckResult]:
    noticed = Observation()
    table = decode_table(job, check.classify(envelope).observe(noticed, *check.counters()), plan)
    seen = check.result(noticed.get)
    return replace(table, plan=replace(table.plan, summary=seen.summary)), seen


def _decode_with_discovery(job: Job) -> DecodedBatch:
    """Discover the batch's shapes, plan and decode its tables, and cache the shapes."""
    kept, written = write_parts(job, whole_envelope(job))
    reach(Point.LOAD_READ)
    envelope, summaries = apply_record_rules(job, kept)
    require_all(job, written, summaries)
    left_out = table_isolation.left_out(job, summaries)
    envelope, summaries = table_isolation.ignore_left_out(job, envelope, summaries)
    transactions.record_transactions(job, envelope)
    statements = _record_ddl(job, envelope, summaries)
    plans = make_plans(job, summaries, statements, envelope)
    if dropped := early_drops.unplanned_drops(job.pipeline, summaries, plans):
        _record(job, statements, dropped)
    for plan in (plan for plan in plans if plan.source in statements):
        report_unreadable_defaults(
            job.spark, plan.source.name, plan.types, plan.defaults, plan.additions
        )
    tables = _decode_planned(job, envelope, plans)
    map_concurrently(tables, lambda table: _store_shapes(job, table))
    return DecodedBatch(envelope, summaries, tables, left_out)


def _decode_planned(job: Job, envelope: DataFrame, plans: Sequence[TablePlan]) -> list[Decoded]:
    """Write the changes of the planned tables, and forget those that others have of the batch."""
    namespace, batch_id = job.pipeline.namespace, job.manifest.batch_id
    job.lake.ensure_namespaces(namespace)
    reach(Point.LOAD_NAMESPACES)
    tables = table_isolation.for_each_table(
        job.pipeline,
        plans,
        lambda plan: plan.source.name,
        lambda plan: decode_table(job, envelope, plan),
    )
    # Unplanned tables may have changes of an earlier attempt, or of the pass with cached shapes.
    planned = {changelog_id(plan).identifier for plan in plans}
    forget_changes(job.lake.catalog, namespace, batch_id, planned, confirm=job.require_current)
    return tables


def _record_ddl(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> dict[Source, list[ColumnStatement]]:
    """Record the comments and column statements of the batch's DDL; return the statements."""
    statements = statements_of_batch(job, envelope, summaries)
    table_comments = comments_by(job, envelope, summaries)
    comment_log.record(job.lake.catalog, job.pipeline.name, job.manifest.batch_id, table_comments)
    reach(Point.LOAD_STATEMENTS)
    # An earlier attempt may have recorded DDL of tables that are left out or without a target.
    if statements or job.left_out or any(summary.drops for summary in summaries):
        _record(job, statements)
    return statements


def _record(
    job: Job,
    statements: Mapping[Source, list[ColumnStatement]],
    dropped: Sequence[ColumnStatement] = (),
) -> None:
    batch = (job.pipeline.name, job.manifest.batch_id)
    record(job.lake.catalog, *batch, [*chain.from_iterable(statements.values()), *dropped])
    reach(Point.LOAD_STATEMENTS)


def _store_shapes(job: Job, table: Decoded) -> None:
    """Store the shapes in a property of the target, unless it once had too many."""
    target = target_id(table.plan)
    before = job.lake.property(target, names.PROP_SHAPES)
    if before != "":
        summary = replace(table.plan.summary, may_move=table.moved)
        known = _still_known(job, table, decode_shapes(before))
        job.lake.set_property(target, names.PROP_SHAPES, encode_shapes(summary, known))


def _still_known(job: Job, table: Decoded, known: TableSummary | None) -> TableSummary | None:
    """Return the cached shapes, or None if they have a column of which no origin is known.

    No batch could use them: nothing published has that column.
    """
    mine = table.plan.defaults
    both = defaults.merged(job.lake.column_history(target_id(table.plan)).defaults, mine)
    kinds = {kind for default in mine.values() for kind in default.firsts}
    firsts = {name.lower(): default.firsts.keys() for name, default in both.items()}
    named = {name.lower() for name in known.columns} if known and kinds else ()
    return known if all(n in firsts and kinds <= firsts[n] for n in named) else None
