"""One table's changes: from the batch's records to its partition of the changelog."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from sluice import names
from sluice.config.policies import APPLY
from sluice.config.source_tables import truncate_policy
from sluice.faults import Point, reach
from spark_jobs.decoding import changelog_write
from spark_jobs.decoding.decode import BAD, Batch, changes, of_table, with_origin
from spark_jobs.decoding.envelope_parts import part_of
from spark_jobs.decoding.misfit_counts import Misfits, misfit_counts, misfits_found
from spark_jobs.job import Job
from spark_jobs.lake.gap_start import begin_soft_delete
from spark_jobs.lake.table_id import changelog_id
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.span import Span


@dataclass(frozen=True)
class Decoded:
    """A table whose changes are in the changelog; `moved`: whether an update changed the key."""

    plan: TablePlan
    created: bool
    moved: bool
    span: Span
    misfits: Misfits


def decode_table(job: Job, envelope: DataFrame, plan: TablePlan) -> Decoded:
    """Write the batch's partition of the changelog; a batch without events opens no epoch."""
    begin_soft_delete(job.lake, plan)
    created = job.lake.ensure(plan)
    typed = typed_changes(job, envelope, plan)
    seen = Observation()
    fits = F.col(BAD) == ""
    good = typed.observe(seen, *_observed(plan, fits)).where(fits)
    changelog = changelog_id(plan)
    rows = changelog_write.as_stored(job.spark, changelog, good)
    reach(Point.LOAD_PLANNED)
    changelog_write.overwrite_batch(
        job, changelog, rows, changelog_write.snapshot_before(job, changelog)
    )
    found = seen.get
    span = Span(found["lowest"], found["highest"])
    if span.highest is None:
        plan = replace(plan, opening=None)
    elif plan.opening is not None:
        changelog_write.append_opening(job.spark, changelog, plan.opening, job.manifest.batch_id)
    return Decoded(plan, created, found["halves"] > 0, span, misfits_found(plan, found))


def _observed(plan: TablePlan, fits: Column) -> list[Column]:
    return [
        *misfit_counts(plan, fits),
        F.min(names.POSITION).alias("lowest"),
        F.max(F.when(fits, F.col(names.POSITION))).alias("highest"),
        F.count_if(~F.col(names.COUNTED)).alias("halves"),
    ]


def typed_changes(
    job: Job, envelope: DataFrame, plan: TablePlan, with_values: bool = False
) -> DataFrame:
    """Return the changelog rows of one table, misfits included; `with_values` as in
    `decode.changes`."""
    applied = truncate_policy(job.pipeline, plan.config) == APPLY
    events = of_table(part_of(envelope, plan.source), plan, truncates=applied)
    located = with_origin(plan.type_split.of_events(events), job.spark, job.manifest.files)
    batch = Batch(job.manifest.batch_id, job.pipeline.epoch)
    return changes(located, plan, batch, with_values)
