"""Events below a table's floor that could matter: out of the batch's changelog, into quarantine."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.result import Counts
from spark_jobs.canonical import as_place, quoted
from spark_jobs.decoding import own_changes, quarantine
from spark_jobs.decoding.decode import BAD, RECORD, with_origin
from spark_jobs.decoding.decode_batch import Decoded, typed_changes
from spark_jobs.folding.floor import BEYOND, mark, mark_all, mark_between, mark_halves
from spark_jobs.folding.resolve import Stored
from spark_jobs.job import Job
from spark_jobs.kept import keep
from spark_jobs.lake.stored import stored_at
from spark_jobs.lake.tables import changelog_id, history_id, target_id, tombstone_id
from spark_jobs.planning.plan import TablePlan

REASON: Final = "beyond_floor"


def quarantine_beyond(job: Job, envelope: DataFrame, table: Decoded) -> Counts:
    """Take the events out that the table can no longer judge; returns them as quarantined.

    Costs one look at the target's properties where the batch is above the floor, or there is none.
    None are, where an operator accepts them: they apply at their own places.
    """
    plan, lowest = table.plan, table.span.lowest
    floor = _floor(job, plan)
    if floor is None or lowest is None or lowest > floor:
        return Counts()
    changelog = changelog_id(plan)
    seen = own_changes.seen(job, changelog)
    mine = F.col(names.BATCH_ID) == job.manifest.batch_id
    marked = keep(_marked(job, plan, job.spark.table(changelog.sql()).where(mine), floor))
    if marked.where(BEYOND).isEmpty():
        return Counts()
    marked = keep(mark_halves(marked))
    beyond = marked.where(BEYOND)
    counted = beyond.where(names.COUNTED)
    found = counted.count()
    if found:
        _write(job, envelope, plan, counted, floor)
    own_changes.put(job, changelog, marked.where(~F.col(BEYOND)).drop(BEYOND), seen)
    return Counts(read=found, quarantined=found)


def without(job: Job, plan: TablePlan, changes: DataFrame) -> tuple[DataFrame, int]:
    """Changes that are in no changelog yet, without those, and how many records they are."""
    floor = _floor(job, plan)
    if floor is None:
        return changes, 0
    marked = mark_halves(_marked(job, plan, changes, floor))
    found = marked.where(F.col(BEYOND) & F.col(names.COUNTED)).count()
    return marked.where(~F.col(BEYOND)).drop(BEYOND), found


def _floor(job: Job, plan: TablePlan) -> str | None:
    accepted = job.manifest.accepts_late
    return None if accepted else job.lake.property(target_id(plan), names.PROP_FLOOR)


def _marked(job: Job, plan: TablePlan, changes: DataFrame, floor: str) -> DataFrame:
    if _put_together(job, plan):
        return mark_all(changes, floor)
    marked, versions = mark(changes, _stored(job, plan), floor, plan.key), _versions(job, plan)
    return marked if versions is None else mark_between(marked, versions, floor, plan.key)


def _versions(job: Job, plan: TablePlan) -> DataFrame | None:
    table = history_id(plan)
    return job.lake.rows(table, job.lake.base(table).snapshot) if plan.history else None


def _put_together(job: Job, plan: TablePlan) -> bool:
    """Which rows are partial is known of a table, not of a row, once its changelog is expired."""
    partial = job.lake.property(target_id(plan), names.PROP_PARTIALS) is not None
    return not plan.keyed or plan.found.partial or partial


def _stored(job: Job, plan: TablePlan) -> Stored:
    bases = {table: job.lake.base(table) for table in (target_id(plan), tombstone_id(plan))}
    return stored_at(job.lake, plan, bases)


def _write(job: Job, envelope: DataFrame, plan: TablePlan, beyond: DataFrame, floor: str) -> None:
    """The records' own bytes and places, found again by key and position."""
    by = [names.POSITION] if _put_together(job, plan) else [names.POSITION, *plan.key]
    events = typed_changes(job, envelope, plan).where(names.COUNTED).where(F.col(BAD) == "")
    found = events.join(beyond.select(*map(quoted, by)).distinct(), by, "left_semi")
    rejects = found.select(
        F.lit(plan.source.name).alias("source_table"),
        F.lit(REASON).alias("reason"),
        F.concat(F.lit(f"floor {floor}, position "), F.col(names.POSITION)).alias("detail"),
        F.col(RECORD).alias("raw"),
        *as_place(),
    )
    texts = quarantine.texts(job.spark, job.manifest.files, envelope)
    named = with_origin(quarantine.with_text(rejects, texts), job.spark, job.manifest.files)
    rows = quarantine.rows(named, job.pipeline.name, job.manifest.batch_id)
    quarantine.write(job.spark, rows)
