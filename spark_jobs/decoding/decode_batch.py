"""decode, the stage: write every table's changes into the batch's partition of its changelog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.config.policies import APPLY, FAIL
from sluice.config.project import Pipeline
from sluice.config.source_tables import truncate_policy
from sluice.errors import PlanError, TransientError
from sluice.faults import Point, reach
from sluice.ledger import comment_log
from sluice.ledger.changelogs import forget_changes
from sluice.ledger.rename_log import ColumnStatement, record
from sluice.manifest import SourceFile
from sluice.result import LeftOut, Nulled
from spark_jobs.canonical import OUTCOME_IGNORE, OUTCOME_REJECT, PLACE, SOURCE_PARTS, quoted
from spark_jobs.decoding import (
    apart,
    drop_tables,
    drops_before,
    lookalikes,
    nulled,
    own_changes,
    quarantine,
    table_renames,
    transactions,
    truncates,
)
from spark_jobs.decoding.comments_told import comments_by
from spark_jobs.decoding.decode import BAD, Batch, changes, of_table, with_origin
from spark_jobs.decoding.plans import make_plans
from spark_jobs.decoding.recall import Seen, Watch, recall, recall_all, remember
from spark_jobs.decoding.renames_told import statements_of_batch
from spark_jobs.decoding.respelled import with_spelling_of_rows
from spark_jobs.formats import FORMATS
from spark_jobs.formats.base import NOTHING_KNOWN, Known
from spark_jobs.job import Job
from spark_jobs.lake.gaps import begin_soft_delete
from spark_jobs.lake.tables import changelog_id, target_id
from spark_jobs.planning import defaults, opening
from spark_jobs.planning.additions import tell_unfit
from spark_jobs.planning.discover import Found, Source, discover, short_name
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.sources import as_listed, refuse_unclear
from spark_jobs.planning.span import Span
from spark_jobs.planning.unfit import refuse_too_many, unfit_names
from spark_jobs.threads import side_by_side

_PART: Final = "part"
_MOST_FOLDERS: Final = 512


@dataclass(frozen=True)
class Decoded:
    """A table whose changes are in the changelog.

    `bad`: number of counted records that did not fit; `moved`: whether an update changed the key;
    `nulled`: the values that were replaced by NULL.
    """

    plan: TablePlan
    created: bool
    bad: int
    moved: bool
    span: Span
    nulled: tuple[Nulled, ...] = ()


@dataclass(frozen=True)
class DecodedBatch:
    """The batch: its records in generic form, the tables that it has, and the decoded ones."""

    envelope: DataFrame
    found: list[Found]
    tables: list[Decoded]
    left_out: tuple[LeftOut, ...] = ()


def decode_batch(job: Job) -> DecodedBatch:
    """Decode with cached shapes, in one pass per table, or discover the batch's shapes first.

    Raises one PlanError that names every mistake.
    """
    if job.left_out or job.pipeline.holds_transactions:
        return _decode_as_found(job)
    return _decode_as_known(job) or _decode_as_found(job)


def _decode_as_known(job: Job) -> DecodedBatch | None:
    """Decode with the cached shapes; None if the batch needs discovery, as for a record of an
    unknown shape or for DDL."""
    known = recall_all(job.lake, job.pipeline.namespace)
    try:
        refuse_unclear(job.pipeline, known)
        plans = make_plans(job, known)
    except PlanError:
        return None  # discovery gives a better message
    if not plans or len(plans) != len(known):
        return None
    told = _known_to_reader(known, plans)
    envelope = whole_envelope(job, told)
    whole_before = told.old_columns is None
    seeming = FORMATS[job.pipeline.format].seeming
    watches = [
        Watch(tuple(known), plan.found, plan.key_columns, whole_before, seeming) for plan in plans
    ]
    results = side_by_side(
        zip(plans, watches, strict=True), lambda pair: _decode_watched(job, envelope, *pair)
    )
    if any(seen.found.ddl for _, seen in results):
        return None  # it may rename columns
    if not all(
        seen.expected and _allowed(job, t) and _covers_defaults(job, t) for t, seen in results
    ):
        return None
    if results[0][1].unsure and lookalikes.any_there(job):
        return None
    elsewhere = Found(Source("", "", ""), ignored=results[0][1].elsewhere)
    tables = [table for table, seen in results if seen.found.records]
    return DecodedBatch(envelope, [elsewhere, *(seen.found for _, seen in results)], tables)


def _known_to_reader(known: list[Found], plans: list[TablePlan]) -> Known:
    keys = [key for plan in plans for key in plan.key_columns]
    # A reader restricted to known columns cannot show whether an image had others.
    few = all(plan.keyed for plan in plans) and not any(key.holds_nulls for key in keys)
    names_of_keys = frozenset(name for key in keys for name in key.spellings)
    return Known(names_of_keys if few else None, partial=any(table.partial for table in known))


def _allowed(job: Job, table: Decoded) -> bool:
    refused = truncate_policy(job.pipeline, table.plan.config) == FAIL
    return not (table.plan.found.truncates and refused)


def _covers_defaults(job: Job, table: Decoded) -> bool:
    """Whether the target's property has the batch's column defaults.

    The cached shapes do not prove it: they may come from a failed attempt or a batch that was
    rolled back.
    """
    known, plan, span = (
        job.lake.column_history(target_id(table.plan)).defaults,
        table.plan,
        table.span,
    )
    return defaults.covers(known, plan.defaults, span.lowest, span.highest, plan.described)


def _decode_watched(
    job: Job, envelope: DataFrame, plan: TablePlan, watch: Watch
) -> tuple[Decoded, Seen]:
    noticed = Observation()
    table = _decode_table(job, watch.mark(envelope).observe(noticed, *watch.columns()), plan)
    seen = watch.seen(noticed.get)
    return replace(table, plan=replace(table.plan, found=seen.found)), seen


def _decode_as_found(job: Job) -> DecodedBatch:
    """Discover the batch's shapes, plan and decode its tables, and cache the shapes."""
    kept, written = _write_parts(job, whole_envelope(job))
    envelope, found = look_through(job, kept)
    _require_all(job, written, found)
    envelope, found, left_out = apart.without(job, envelope, found)
    transactions.remember(job, envelope)
    told = statements_of_batch(job, envelope, found)
    said = comments_by(job, envelope, found)
    comment_log.record(job.lake.catalog, job.pipeline.name, job.manifest.batch_id, said)
    # An earlier attempt may have recorded DDL of tables that are left out or without a target.
    if told or job.left_out or any(table.drops for table in found):
        _record(job, told)
    plans = make_plans(job, found, told)
    if dropped := drops_before.waiting(job.pipeline, found, plans):
        _record(job, told, dropped)
    for plan in (plan for plan in plans if plan.source in told):
        tell_unfit(job.spark, plan.source.name, plan.types, plan.defaults, plan.additions)
    job.lake.ensure_namespaces(job.pipeline.namespace)
    tables = apart.each(
        job.pipeline,
        plans,
        lambda plan: plan.source.name,
        lambda plan: _decode_table(job, envelope, plan),
    )
    # Unplanned tables may have changes of an earlier attempt, or of the pass with cached shapes.
    planned = {(changelog.namespace, changelog.name) for changelog in map(changelog_id, plans)}
    namespace, batch_id = job.pipeline.namespace, job.manifest.batch_id
    forget_changes(job.lake.catalog, namespace, batch_id, planned, confirm=job.require_mine)
    side_by_side(tables, lambda table: _remember(job, table))
    return DecodedBatch(envelope, found, tables, left_out)


def _record(
    job: Job, told: Mapping[Source, list[ColumnStatement]], dropped: Sequence[ColumnStatement] = ()
) -> None:
    batch = (job.pipeline.name, job.manifest.batch_id)
    record(job.lake.catalog, *batch, [*chain.from_iterable(told.values()), *dropped])


def look_through(job: Job, envelope: DataFrame) -> tuple[DataFrame, list[Found]]:
    """Return the envelope after all rules about whole records, and a summary of each table."""
    found = discover(envelope)
    refuse_unclear(job.pipeline, found)
    told = lookalikes.rejected(job, envelope) if any(map(_may_seem, found)) else None
    if told is not None:
        envelope = told
        found = discover(envelope)
    if FORMATS[job.pipeline.format].ignorable and any(f.rejected for f in found):
        envelope = _without_tombstones(job, envelope)
        found = discover(envelope)
    if unfit := unfit_names(job.pipeline, found):
        envelope = unfit.rejected(envelope)
        found = discover(envelope)
    held_back = transactions.hold_back(job, envelope) if transactions.holds(job) else None
    if held_back is not None:
        envelope = held_back
        found = discover(envelope)
    refuse_too_many(job.pipeline, found)
    truncates.report_unclear(job.pipeline, envelope, found)
    table_renames.by_policy(job, envelope, found)
    respelled = with_spelling_of_rows(job, envelope, found)
    if respelled is not None:
        envelope = _in_parts(respelled) if _PART in envelope.columns else respelled
        found = discover(envelope)
    envelope, found = drop_tables.by_policy(job, envelope, found)
    truncates.set_aside(job, envelope, found)
    return envelope, found


def _may_seem(table: Found) -> bool:
    return table.ignored > 0 and not table.source.table


def _write_parts(job: Job, envelope: DataFrame) -> tuple[DataFrame, int]:
    """Write the records partitioned by source table, so that each table's pass reads only its part;
    return them and their number."""
    written = Observation()
    parts = _in_parts(envelope)
    counted = parts.observe(written, F.count(F.lit(1)).alias("records"))
    writer = counted.write.partitionBy(_PART).option("compression", "lz4_raw")
    writer.mode("overwrite").parquet(job.scratch)
    # Without records there is no file, so the schema is given.
    return job.spark.read.schema(parts.schema).parquet(job.scratch), written.get["records"]


def _in_parts(envelope: DataFrame) -> DataFrame:
    names_of = (F.coalesce(part, F.lit("")) for part in SOURCE_PARTS)
    return envelope.withColumn(_PART, _folder(F.concat_ws(".", *names_of)))


def _require_all(job: Job, written: int, found: list[Found]) -> None:
    """Raise TransientError if records are missing from the scratch files.

    Another driver that takes this one for dead removes its files, and Spark would go on without
    them.
    """
    there = sum(table.total for table in found)
    if there != written:
        raise TransientError(
            f"batch {job.manifest.batch_id}: of {written} records that were read, {there} are left "
            "in what this attempt keeps: somebody removed the rest; it is loaded again"
        )


def _part_of(envelope: DataFrame, source: Source) -> DataFrame:
    if _PART not in envelope.columns:
        return envelope
    name = F.lit(f"{source.database}.{source.schema}.{source.table}")
    return envelope.where(F.col(_PART) == _folder(name))


def _folder(name: Column) -> Column:
    """Return the folder of a table; with very many tables, several share one."""
    return F.pmod(short_name(name), F.lit(_MOST_FOLDERS))


def _remember(job: Job, table: Decoded) -> None:
    """Store the shapes in a property of the target, unless it once had too many."""
    target = target_id(table.plan)
    before = job.lake.property(target, names.PROP_SHAPES)
    if before != "":
        found = replace(table.plan.found, moves=table.moved)
        known = _still_known(job, table, recall(before))
        job.lake.set_property(target, names.PROP_SHAPES, remember(found, known))


def _still_known(job: Job, table: Decoded, known: Found | None) -> Found | None:
    """Return the cached shapes, or None if they have a column of which no origin is known.

    No batch could use them: nothing published has that column.
    """
    mine = table.plan.defaults
    told = defaults.lowest(job.lake.column_history(target_id(table.plan)).defaults, mine)
    kinds = {kind for default in mine.values() for kind in default.firsts}
    firsts = {name.lower(): default.firsts.keys() for name, default in told.items()}
    named = {name.lower() for name in known.columns} if known and kinds else ()
    return known if all(n in firsts and kinds <= firsts[n] for n in named) else None


def whole_envelope(job: Job, known: Known = NOTHING_KNOWN) -> DataFrame:
    """Return the batch's records in generic form; raise PlanError for a batch without files."""
    files = job.manifest.files
    if not files:
        raise PlanError(f"batch {job.manifest.batch_id} has no files")
    known = replace(known, transactions=job.pipeline.holds_transactions)
    return read_envelope(job.spark, job.pipeline, files, known)


def read_envelope(
    spark: SparkSession, pipeline: Pipeline, files: tuple[SourceFile, ...], known: Known
) -> DataFrame:
    """Return the records in generic form, with tables renamed by their `sources`.

    `absent` and `old_absent` exist for formats without partial rows too.
    """
    envelope = FORMATS[pipeline.format].read(spark, files, pipeline.format_options, known)
    lacking = {"absent", "old_absent"} - set(envelope.columns)
    whole = {name: F.lit(None).cast("array<string>") for name in sorted(lacking)}
    return as_listed(envelope.withColumns(whole), pipeline)


def _without_tombstones(job: Job, envelope: DataFrame) -> DataFrame:
    """Ignore empty records that the format recognises by their text, such as tombstones."""
    lines = quarantine.texts(job.spark, job.manifest.files)
    known = lines.where(F.col("value").rlike(FORMATS[job.pipeline.format].ignorable))
    marks = F.broadcast(known.select(*PLACE, F.lit(True).alias("known")))
    marked = envelope.join(marks, list(PLACE), "left")
    passed = F.col("known") & (F.col("outcome") == OUTCOME_REJECT)
    outcome = F.when(passed, F.lit(OUTCOME_IGNORE)).otherwise(F.col("outcome"))
    return marked.withColumn("outcome", outcome).drop("known")


def _decode_table(job: Job, envelope: DataFrame, plan: TablePlan) -> Decoded:
    """Write the batch's partition of the changelog; a batch without events opens no epoch."""
    begin_soft_delete(job.lake, plan)
    created = job.lake.ensure(plan)
    typed = typed_changes(job, envelope, plan)
    seen = Observation()
    fits = F.col(BAD) == ""
    good = typed.observe(
        seen,
        F.count_if(~fits & F.col(names.COUNTED)).alias("bad"),
        F.min(names.POSITION).alias("lowest"),
        F.max(F.when(fits, F.col(names.POSITION))).alias("highest"),
        F.count_if(~F.col(names.COUNTED)).alias("halves"),
        *nulled.counts(plan, fits),
    ).where(fits)
    table = changelog_id(plan).sql()
    stored = [f.name for f in job.spark.table(table).schema]
    planned = [c if c in typed.columns else F.lit(None).alias(c) for c in stored]
    rows = good.select(*(quoted(c) if isinstance(c, str) else c for c in planned))
    reach(Point.LOAD_PLANNED)
    own_changes.put(job, changelog_id(plan), rows, own_changes.seen(job, changelog_id(plan)))
    found = seen.get
    span = Span(found["lowest"], found["highest"])
    if span.highest is None:
        plan = replace(plan, opening=None)
    elif plan.opening is not None:
        opening.write(job.spark, table, plan.opening, job.manifest.batch_id)
    some = nulled.found(plan, found)
    return Decoded(plan, created, int(found["bad"]), found["halves"] > 0, span, some)


def typed_changes(
    job: Job, envelope: DataFrame, plan: TablePlan, with_values: bool = False
) -> DataFrame:
    """Return the changelog rows of one table, misfits included; `with_values` as in
    `decode.changes`."""
    applied = truncate_policy(job.pipeline, plan.config) == APPLY
    events = of_table(_part_of(envelope, plan.source), plan, truncates=applied)
    located = with_origin(plan.besides.of_events(events), job.spark, job.manifest.files)
    batch = Batch(job.manifest.batch_id, job.pipeline.epoch)
    return changes(located, plan, batch, with_values)
