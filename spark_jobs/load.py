"""One attempt at one batch: decode → fold → merge → audit, for all its tables side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.config import Pipeline
from sluice.errors import AuditFailed, PlanError
from sluice.ledger_tables import QUARANTINE
from sluice.manifest import Manifest
from sluice.result import BatchResult, Counts, TableResult
from sluice.snapshots import drop_branches
from spark_jobs import quarantine
from spark_jobs.canonical import OUTCOME_IGNORE, OUTCOME_REJECT
from spark_jobs.decode import BAD, Batch, changes, of_table, quoted, with_origin
from spark_jobs.discover import Found, discover
from spark_jobs.formats import FORMATS
from spark_jobs.lake import Lake, TableId, changelog_id, target_id, tombstone_id
from spark_jobs.merge import Attempt, merge_table
from spark_jobs.plan import TablePlan, plan_table, refuse_shared_targets, table_config, target_name

T = TypeVar("T")
TABLES_AT_ONCE = 4


@dataclass(frozen=True)
class Job:
    """What one driver works on."""

    spark: SparkSession
    lake: Lake
    pipeline: Pipeline
    manifest: Manifest
    attempt: Attempt
    attempt_id: str


def load(job: Job, hold_lease: Callable[[], tuple[str, ...]], retried: bool) -> BatchResult:
    """Decode into the changelogs, take the lease, merge into branches, audit.

    `hold_lease` returns the pipeline's published batches once the lease is held.

    Raises PlanError, AuditFailed, LeaseHeld; nothing of it moves `main` of a target.
    """
    started = time.monotonic()
    envelope = _envelope(job)
    found = discover(envelope)
    if FORMATS.get(job.pipeline.format).ignorable and any(f.rejected for f in found):
        envelope = _without_tombstones(job, envelope)
        found = discover(envelope)
    plans = make_plans(job, found)
    job.lake.ensure_namespaces(job.pipeline.namespace)
    decoded = _side_by_side(plans, lambda plan: _decode_table(job, envelope, plan))
    created = {plan.name: made for plan, made, _ in decoded}
    bad = {plan.name: count for plan, _, count in decoded}
    unassigned = _unassigned(found, plans)
    quarantined = _quarantine(job, envelope, found, plans, bad, retried)
    unassigned += quarantined
    _refuse_too_many_bad(job, found, bad, unassigned)
    # Only with the lease nobody publishes: now it is known which changes count.
    job = replace(job, attempt=replace(job.attempt, published=hold_lease()))
    for plan in plans:
        _drop_older_branches(job, plan)
    tables = _side_by_side(
        plans, lambda plan: _merge(job, plan, created[plan.name], bad[plan.name])
    )
    result = BatchResult(
        job.pipeline.name,
        job.manifest.batch_id,
        job.attempt_id,
        tuple(tables),
        unassigned,
        round(time.monotonic() - started, 2),
    )
    audit(result)
    return result


def _envelope(job: Job) -> DataFrame:
    files = job.manifest.files
    fmt = FORMATS.get(job.pipeline.format)
    if not files:
        raise PlanError(f"batch {job.manifest.batch_id} has no files")
    envelope = fmt.read(job.spark, files, job.pipeline.format_options)
    if "absent" not in envelope.columns:
        envelope = envelope.withColumn("absent", F.lit(None).cast("array<string>"))
    return envelope


def _without_tombstones(job: Job, envelope: DataFrame) -> DataFrame:
    """Records with nothing in them that the format knows by their text are ignored, not bad."""
    lines = quarantine.texts(job.spark, job.manifest.files)
    known = lines.where(F.col("value").rlike(FORMATS.get(job.pipeline.format).ignorable))
    marks = F.broadcast(known.select(*quarantine.PLACE, F.lit(True).alias("known")))
    marked = envelope.join(marks, list(quarantine.PLACE), "left")
    passed = F.col("known") & (F.col("outcome") == OUTCOME_REJECT)
    outcome = F.when(passed, F.lit(OUTCOME_IGNORE)).otherwise(F.col("outcome"))
    return marked.withColumn("outcome", outcome).drop("known")


def make_plans(job: Job, found: list[Found]) -> list[TablePlan]:
    """Plan every table that has events; raises PlanError with all that is wrong at once."""
    plans, mistakes = [], []
    for table in found:
        config = table_config(job.pipeline, table.source)
        if table.records == table.ddl or config is None:
            continue
        try:
            plans.append(_plan(job, table))
        except PlanError as error:
            mistakes.append(str(error))
    if mistakes:
        raise PlanError("\n".join(mistakes))
    refuse_shared_targets(plans)
    return plans


def _plan(job: Job, found: Found) -> TablePlan:
    target = TableId(job.pipeline.namespace, target_name(job.pipeline, found.source))
    config = table_config(job.pipeline, found.source)
    if config is None:
        raise PlanError(f"table {found.source.name} is not configured")
    fmt = FORMATS.get(job.pipeline.format)
    return plan_table(
        job.pipeline, fmt, found, config, job.lake.columns(target), job.lake.key(target)
    )


def _side_by_side(plans: list[TablePlan], work: Callable[[TablePlan], T]) -> list[T]:
    with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
        return list(pool.map(work, plans))


def _decode_table(job: Job, envelope: DataFrame, plan: TablePlan) -> tuple[TablePlan, bool, int]:
    """Write the batch's partition of the changelog; how many counted records did not fit."""
    created = job.lake.ensure(plan)
    typed = _typed(job, envelope, plan)
    seen = Observation()
    bad = F.count_if((F.col(BAD) != "") & F.col(names.COUNTED)).alias("bad")
    good = typed.observe(seen, bad).where(F.col(BAD) == "")
    table = changelog_id(plan).sql()
    stored = [f.name for f in job.spark.table(table).schema]
    planned = [c if c in typed.columns else F.lit(None).alias(c) for c in stored]
    mine = F.col(names.BATCH_ID) == job.manifest.batch_id
    rows = good.select(*(quoted(c) if isinstance(c, str) else c for c in planned))
    rows.writeTo(table).overwrite(mine)
    return plan, created, int(seen.get["bad"])


def _typed(job: Job, envelope: DataFrame, plan: TablePlan) -> DataFrame:
    events = of_table(envelope, plan, truncates=job.pipeline.on_truncate == "apply")
    located = with_origin(events, job.spark, job.manifest.files)
    return changes(located, plan, Batch(job.manifest.batch_id, job.pipeline.epoch))


def _merge(job: Job, plan: TablePlan, created: bool, bad: int) -> TableResult:
    merged = merge_table(job.lake, plan, job.attempt, created)
    found = plan.found
    passed = found.ignored + found.ddl
    passed += found.truncates if job.pipeline.on_truncate == "ignore" else 0
    lost = bad + found.rejected
    counts = merged.counts + Counts(read=passed + lost, ignored=passed, quarantined=lost)
    expected = found.records + found.ignored + found.rejected
    if counts.read != expected:
        raise AuditFailed(
            f"{plan.name}: {expected} records were read, "
            f"but {counts.read} are accounted for: {counts}"
        )
    return TableResult(found.source.name, plan.name, counts, merged.staged, found.newest_source_ts)


def _unassigned(found: list[Found], plans: list[TablePlan]) -> Counts:
    planned = {plan.source for plan in plans}
    total = Counts()
    for table in found:
        if table.source not in planned:
            passed = table.ignored + table.records
            total += Counts(
                read=passed + table.rejected, ignored=passed, quarantined=table.rejected
            )
    return total


def _quarantine(
    job: Job,
    envelope: DataFrame,
    found: list[Found],
    plans: list[TablePlan],
    bad: dict[str, int],
    retried: bool,
) -> Counts:
    """Write the batch's dead letters; returns what landing rejected, and what was no reject."""
    rejected = sum(f.rejected for f in found)
    if not (rejected or any(bad.values()) or job.manifest.rejects or retried):
        return Counts()
    table = TableId("sluice", QUARANTINE).sql()
    at = F.current_timestamp()
    parts = [
        quarantine.landing_rows(
            job.spark, job.manifest.rejects, job.pipeline.name, job.manifest.batch_id, at
        )
    ]
    if rejected or any(bad.values()):
        rejects = _rejects(job, envelope, plans, bad)
        origins = job.spark.createDataFrame(
            [(f.url, f.key) for f in job.manifest.files], "url string, origin string"
        )
        parts.append(
            quarantine.rows(rejects, job.pipeline.name, job.manifest.batch_id, origins, at)
        )
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    columns = [f.name for f in job.spark.table(table).schema]
    rows = rows.select(*columns)
    rows.writeTo(table).overwrite(F.col("batch_id") == job.manifest.batch_id)
    lost = len(job.manifest.rejects)
    return Counts(read=lost, quarantined=lost)


def _rejects(
    job: Job, envelope: DataFrame, plans: list[TablePlan], bad: dict[str, int]
) -> DataFrame:
    """Records that are no events and records that did not fit, with their own text."""
    source = F.concat_ws(".", "database", "schema", "table")
    kept = [
        source.alias("source_table"),
        "reason",
        F.lit("").alias("detail"),
        "raw",
        *quarantine.PLACE,
    ]
    rejects = envelope.where(F.col("outcome") == OUTCOME_REJECT).select(*kept)
    for plan in plans:
        if bad[plan.name]:
            misfits = _typed(job, envelope, plan).where(F.col(BAD) != "")
            rejects = rejects.unionByName(
                misfits.select(
                    F.lit(plan.source.name).alias("source_table"),
                    F.lit("does_not_fit").alias("reason"),
                    F.col(BAD).alias("detail"),
                    F.lit(None).cast("string").alias("raw"),
                    *quarantine.PLACE,
                )
            )
    lines = quarantine.texts(job.spark, job.manifest.files)
    return quarantine.with_text(rejects, lines)


def _refuse_too_many_bad(
    job: Job, found: list[Found], bad: dict[str, int], unassigned: Counts
) -> None:
    read = sum(f.records + f.ignored + f.rejected for f in found)
    lost = sum(f.rejected for f in found) + sum(bad.values()) + len(job.manifest.rejects)
    if job.pipeline.too_many_bad(lost, read):
        raise AuditFailed(
            f"batch {job.manifest.batch_id}: {lost} of {read} records are bad, above the ceiling "
            f"of pipeline {job.pipeline.name} (on_bad_record, max_bad_records, max_bad_share). "
            'Look: sluice sql "SELECT * FROM sluice.quarantine '
            f"WHERE batch_id = '{job.manifest.batch_id}'\""
        )


def _drop_older_branches(job: Job, plan: TablePlan) -> None:
    prefix = names.branch_name(job.manifest.batch_id, "")
    for table in (target_id(plan), tombstone_id(plan)):
        drop_branches(job.lake.catalog, table.namespace, table.name, prefix)


def audit(result: BatchResult) -> None:
    """Every record has exactly one outcome, in every table; raises AuditFailed naming the table."""
    for table in result.tables:
        if not table.counts.balanced:
            raise AuditFailed(f"{table.target}: the counts do not add up: {table.counts}")
    if not result.unassigned.balanced:
        raise AuditFailed(f"the counts without a table do not add up: {result.unassigned}")
