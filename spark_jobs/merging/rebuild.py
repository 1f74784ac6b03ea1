"""rebuild: rebuild targets from their changelogs, or undo batches that others followed.

The published changes, without the undone batches, determine target, tombstones and history. Where
these differ, the difference is merged into the batch's branches. Up to the floor, stored rows
replace expired changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from pyspark.sql import functions as F

from sluice import names
from sluice.config.pipeline import TableConfig
from sluice.errors import RollbackRefusedError
from sluice.manifest import Rebuild
from sluice.modes import APPEND, CURRENT, HISTORY, SOFT_DELETE
from sluice.result import BatchResult, Counts, TableResult
from sluice.types.columns import parse_type
from spark_jobs.job import Job
from spark_jobs.lake.table_id import (
    TableId,
    changelog_id,
    changelog_of,
    events_id,
    history_id,
    target_id,
)
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.writer import Writer
from spark_jobs.merging.desired_state import DesiredState
from spark_jobs.merging.floor_guard import floor_unchanged
from spark_jobs.merging.load import drop_older_branches
from spark_jobs.merging.rebuilt_tables import write_desired
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.renames import declared
from spark_jobs.planning.renames_known import follows_renames
from spark_jobs.planning.span import Span
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import table_config
from spark_jobs.row_conditions import is_partial, of_batches
from spark_jobs.threads import map_concurrently


def rebuild(job: Job, request: Rebuild, take_lease: Callable[[], tuple[str, ...]]) -> BatchResult:
    """Write the rebuilt content of the targets to branches; `take_lease` as in `load.load`.

    Raises RollbackRefusedError if the content without the batches is no longer known.
    """
    started = time.monotonic()
    remaining = tuple(b for b in take_lease() if b not in request.without)
    job = job.counting(remaining)
    plans = [_plan(job, target) for target in request.targets]
    for plan in plans:
        drop_older_branches(job, plan)
    tables = map_concurrently(plans, lambda plan: _rebuild_table(job, plan, request))
    seconds = round(time.monotonic() - started, 2)
    return BatchResult(
        job.pipeline.name, job.manifest.batch_id, job.attempt.id, tuple(tables),
        seconds=seconds, epoch=job.pipeline.epoch, folded=remaining,
    )  # fmt: skip


def _plan(job: Job, target: str) -> TablePlan:
    """Plan a table from its stored columns or, if it is gone, from those of its changelog."""
    namespace = job.pipeline.namespace
    table = TableId(namespace, target)
    changelog = changelog_of(table)
    loaded = job.lake.load(changelog)
    properties = {} if loaded is None else loaded.properties
    source = Source("", "", properties.get(names.PROP_SOURCE) or target)
    now = job.lake.columns(table) or {}
    # A rollback restores narrower types in the target alone.
    stored = {
        name: now.get(name, kind) for name, kind in (job.lake.columns(changelog) or {}).items()
    }
    columns = tuple(
        PlannedColumn(name, parse_type(kind), {})
        for name, kind in stored.items()
        if name not in names.RESERVED_COLUMNS
    )
    config = table_config(job.pipeline, source) or TableConfig()
    key, summary = names.key_of(properties), TableSummary(source)
    plan = TablePlan(source, namespace, target, columns, key, config, summary)
    renames = declared(config.renamed_columns) if follows_renames(job.pipeline) else None
    return replace(plan, modes=_modes(job, plan), declared=renames)


def _modes(job: Job, plan: TablePlan) -> tuple[str, ...]:
    """Return the modes that the stored tables have, whatever is configured now."""
    target = job.lake.columns(target_id(plan))
    if target is None:
        return tuple(job.pipeline.modes_of(plan.config))
    modes = [CURRENT]
    if job.lake.property(history_id(plan), names.PROP_HISTORY_OF) == plan.name:
        modes.append(HISTORY)
    if job.lake.property(events_id(plan), names.PROP_EVENTS_OF) == plan.name:
        modes.append(APPEND)
    return (*modes, SOFT_DELETE) if names.IS_DELETED in target else tuple(modes)


def _rebuild_table(job: Job, plan: TablePlan, request: Rebuild) -> TableResult:
    _refuse_unknown(job.lake, plan)
    created = job.lake.ensure(plan)
    plan, span = _of_changes(job.lake, plan, job.attempt.published)
    with floor_unchanged(job.lake, plan):
        writer = Writer(job.lake, plan, job.attempt, span, created)
        writer.mark_partials()
        write_desired(DesiredState.open(writer, request))
    return TableResult(
        plan.source.name, plan.name, Counts(), writer.staged(),
        compared=writer.unchanged_tables(), dropped=writer.gone,
    )  # fmt: skip


def _refuse_unknown(lake: Lake, plan: TablePlan) -> None:
    """Raise RollbackRefusedError if a dropped target held changes that maintenance expired."""
    floor = lake.floor(changelog_id(plan))
    if floor is not None and lake.load(target_id(plan)) is None:
        raise RollbackRefusedError(
            f"{plan.name} was dropped, and maintenance has forgotten its changes up to {floor}: "
            "they cannot make its rows again. Register its last metadata file in the catalog: "
            "CALL lake.system.register_table"
        )


def _of_changes(lake: Lake, plan: TablePlan, published: Collection[str]) -> tuple[TablePlan, Span]:
    """Return the plan and span of a target, derived from its changelog: whether any change is
    partial, and the highest position."""
    changes = lake.spark.table(changelog_id(plan).sql())
    counted = changes.where(of_batches(published))
    partial = F.bool_or(is_partial())
    row = counted.agg(F.max(names.POSITION).alias("highest"), partial.alias("partial")).first()
    highest = None if row is None else row["highest"]
    summary = replace(plan.summary, partial=bool(row and row["partial"]))
    return replace(plan, summary=summary), Span(highest=highest)
