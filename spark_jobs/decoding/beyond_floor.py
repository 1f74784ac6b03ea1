"""Events at or below the floor of which it is unknown whether they apply: they go to quarantine."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.operations.open_transactions import REASON as OPEN
from sluice.result import Counts
from spark_jobs.decoding import changelog_write, quarantine, reprocessed
from spark_jobs.decoding.changelog_rows import Decoded, typed_changes
from spark_jobs.decoding.decode import BAD, RECORD
from spark_jobs.decoding.record_numbers import located
from spark_jobs.evaluated_once import optimizer_barrier
from spark_jobs.folding.floor import (
    BEYOND_FLOOR,
    mark_below,
    mark_between_versions,
    mark_other_halves,
    mark_undecidable,
)
from spark_jobs.folding.half_matching import position_place
from spark_jobs.folding.resolve import StoredState
from spark_jobs.job import Job
from spark_jobs.lake.stored import stored_at
from spark_jobs.lake.table_id import changelog_id, history_id, target_id, tombstone_id
from spark_jobs.materialize import materialize
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import by_name
from spark_jobs.record_places import as_place
from spark_jobs.row_conditions import in_batch

REASON: Final = "beyond_floor"
_PLACE: Final = "_sluice_place"
_ACCEPTED: Final = "_sluice_accepted"


def quarantine_beyond_floor(job: Job, envelope: DataFrame, table: Decoded) -> Counts:
    """Move events at or below the floor, of which it is unknown whether they apply, to quarantine;
    return how many records.

    A batch above the floor only costs one read of the target's properties. Events that an operator
    accepts stay, and apply at their own positions. Events that a reprocess reads again, and that
    were applied before, count as late.
    """
    plan, lowest = table.plan, table.span.lowest
    floor = job.lake.floor(target_id(plan))
    if floor is None or lowest is None or lowest > floor:
        return Counts()
    changelog = changelog_id(plan)
    seen = changelog_write.snapshot_before(job, changelog)
    mine = in_batch(job.manifest.batch_id)
    marked = materialize(_marked(job, plan, job.spark.table(changelog.sql()).where(mine), floor))
    if marked.where(BEYOND_FLOOR).isEmpty():
        return Counts()
    marked = materialize(mark_other_halves(marked))
    if job.manifest.accepts_late:
        marked = materialize(_without_accepted(job, envelope, plan, marked))
    counted = marked.where(F.col(BEYOND_FLOOR) & F.col(names.COUNTED))
    read = counted.count()
    waiting = _quarantine(job, envelope, plan, counted, floor) if read else 0
    changelog_write.overwrite_batch(
        job, changelog, marked.where(~F.col(BEYOND_FLOOR)).drop(BEYOND_FLOOR), seen
    )
    return Counts(read=read, quarantined=waiting, late=read - waiting)


def drop_beyond_floor(job: Job, plan: TablePlan, changes: DataFrame) -> tuple[DataFrame, int]:
    """Return changes that are in no changelog yet, without their undecidable events at or below
    the floor, and the number of these."""
    floor = job.lake.floor(target_id(plan))
    if floor is None:
        return changes, 0
    marked = mark_other_halves(_marked(job, plan, changes, floor))
    found = marked.where(F.col(BEYOND_FLOOR) & F.col(names.COUNTED)).count()
    return marked.where(~F.col(BEYOND_FLOOR)).drop(BEYOND_FLOOR), found


def _marked(job: Job, plan: TablePlan, changes: DataFrame, floor: str) -> DataFrame:
    if _merges_events(job, plan):
        return mark_below(changes, floor)
    marked = mark_undecidable(
        changes, _stored(job, plan), floor, plan.key, keeps_deleted=plan.soft_delete
    )
    versions = _versions(job, plan)
    return marked if versions is None else mark_between_versions(marked, versions, floor, plan.key)


def _versions(job: Job, plan: TablePlan) -> DataFrame | None:
    table = history_id(plan)
    return job.lake.rows(table, job.lake.base(table).snapshot) if plan.history else None


def _merges_events(job: Job, plan: TablePlan) -> bool:
    """Whether the table's rows merge several events. Known from a property of the target, since the
    changelog expires."""
    partial = job.lake.property(target_id(plan), names.PROP_PARTIALS) is not None
    return not plan.keyed or plan.summary.partial or partial


def _stored(job: Job, plan: TablePlan) -> StoredState:
    bases = {table: job.lake.base(table) for table in (target_id(plan), tombstone_id(plan))}
    return stored_at(job.lake, plan, bases)


def _without_accepted(
    job: Job, envelope: DataFrame, plan: TablePlan, marked: DataFrame
) -> DataFrame:
    """Clear BEYOND_FLOOR in all halves of accepted records: those in quarantine as beyond the floor
    and, if open transactions are accepted too, those of open transactions."""
    reasons = [REASON, *([OPEN] if job.manifest.accepts_open else [])]
    beyond = marked.where(F.col(BEYOND_FLOOR) & F.col(names.COUNTED))
    accepted = reprocessed.quarantined(job, _located(job, envelope, plan, beyond), reasons)
    at = (names.ORIGIN_FILE, _PLACE)
    places = accepted.select(
        F.col("origin").alias(names.ORIGIN_FILE), position_place().alias(_PLACE)
    )
    stays = places.distinct().withColumn(_ACCEPTED, F.lit(True))
    found = marked.withColumn(_PLACE, position_place()).join(stays, list(at), "left")
    beyond_still = F.col(BEYOND_FLOOR) & F.col(_ACCEPTED).isNull()
    return found.withColumn(BEYOND_FLOOR, beyond_still).select(*by_name(marked.columns))


def _located(job: Job, envelope: DataFrame, plan: TablePlan, beyond: DataFrame) -> DataFrame:
    """Return the events' bytes and places, found again in the batch's files by file,
    position and key."""
    by = [names.ORIGIN_FILE, names.POSITION, *(() if _merges_events(job, plan) else plan.key)]
    typed = optimizer_barrier(typed_changes(job, envelope, plan))
    events = typed.where(names.COUNTED).where(F.col(BAD) == "")
    found = events.join(beyond.select(*by_name(by)).distinct(), by, "left_semi")
    rejects = found.select(names.POSITION, F.col(RECORD).alias("raw"), *as_place())
    return located(job, envelope, rejects)


def _quarantine(
    job: Job, envelope: DataFrame, plan: TablePlan, beyond: DataFrame, floor: str
) -> int:
    """Write the events that were not applied before to the quarantine; return their number."""
    rejects = _located(job, envelope, plan, beyond)
    if job.manifest.reprocess is not None:
        rejects = reprocessed.unapplied(job, rejects)
    columns = {
        "source_table": F.lit(plan.source.name),
        "reason": F.lit(REASON),
        "detail": F.concat(F.lit(f"floor {floor}, position "), F.col(names.POSITION)),
    }
    rows = quarantine.rows(rejects.withColumns(columns), job.pipeline.name, job.manifest.batch_id)
    rows = materialize(rows)
    quarantine.write(job.spark, rows)
    return rows.count()
