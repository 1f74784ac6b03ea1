"""A target's tables, computed from its published changes, and the merge that makes them so.

Differences to the stored tables are merged into the batch's branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.errors import RollbackRefusedError
from sluice.manifest import Rebuild
from spark_jobs.folding.fold import fold_columns
from spark_jobs.folding.moves import with_moved_values
from spark_jobs.folding.no_key import NoKeyChanges, plan_rows
from spark_jobs.lake.table_id import target_id, tombstone_id
from spark_jobs.lake.writer import Writer
from spark_jobs.materialize import materialize
from spark_jobs.merging.desired_state import DesiredState
from spark_jobs.merging.rebuilt_versions import write_versions
from spark_jobs.merging.stored_column_updates import fill_defaults
from spark_jobs.modes import events
from spark_jobs.quoting import by_name
from spark_jobs.row_conditions import is_delete, of_batches

_BEFORE: Final = "_sluice_before"


def rebuild_all(writer: Writer) -> None:
    """Rebuild a target's tables from all published changes and the batch's own, whatever the tables
    hold and whatever their columns are called. No change may have expired."""
    write_desired(
        DesiredState.open(writer, Rebuild((writer.plan.target,), at=""), from_changes=True)
    )


def write_desired(desired: DesiredState) -> None:
    """Write the rebuilt content of the target's tables to the batch's branches."""
    writer, plan = desired.writer, desired.plan
    replaced = False
    if plan.keyed:
        replaced = _write_keyed(desired)
    else:
        _write_unkeyed(desired)
    if plan.append:
        _write_events(desired)
    marked_at = None if replaced else desired.stored.truncated_at
    fill_defaults(writer, anew=desired.from_changes)
    if desired.truncated_at != marked_at:
        if marked_at is not None:
            writer.unmark()
        if desired.truncated_at is not None:
            writer.mark(desired.truncated_at, _truncated_by(desired, desired.truncated_at))


def _truncated_by(desired: DesiredState, position: str) -> str:
    """Return the batch that brought the TRUNCATE at `position`, from the changelog or the
    stored tombstone."""
    truncates = desired.truncates.where(F.col(names.POSITION) == position)
    first = truncates.agg(F.min(names.BATCH_ID)).first()
    batch = first[0] if first else None
    return batch or desired.stored.truncated_by or desired.writer.attempt.batch_id


def _write_unkeyed(desired: DesiredState) -> None:
    """Write a table without a key: count its rows again from all changes."""
    data = tuple(desired.plan.data)
    changes = NoKeyChanges(
        desired.changes, desired.changes.limit(0), data, desired.truncated_at, anew=True
    )
    plan, wanted = desired.plan, plan_rows(changes).living()
    desired.write_to(target_id(plan), wanted, desired.stored.rows, by=plan.row_key)


def _write_keyed(desired: DesiredState) -> bool:
    """Write target, tombstones and history; return whether all tombstones were replaced."""
    plan = desired.plan
    _refuse_expired(desired)
    data = plan.data
    known = with_moved_values(desired.known(), desired.moved, desired.truncates, plan.key, data)
    folded = materialize(fold_columns(known, plan.key, data))
    deleted = is_delete()
    tombstones = folded.where(deleted).select(*_columns(plan.key))
    if desired.stored.tombstones is not None and desired.floor is not None:
        forgotten = _up_to_floor(desired, desired.stored.tombstones, desired.floor)
        forgotten = forgotten.join(folded, list(plan.key), "left_anti")
        tombstones = tombstones.unionByName(forgotten.select(*_columns(plan.key)))
    there = desired.stored.tombstones
    replaced = desired.write_to(tombstone_id(plan), tombstones, there, by=plan.key)
    rows = folded.where(~deleted).select(*_columns(data))
    if plan.history or plan.soft_delete:
        rows = write_versions(desired, rows)
    desired.write_to(target_id(plan), rows, desired.stored.rows, by=plan.row_key)
    return replaced


def _write_events(desired: DesiredState) -> None:
    writer, log = desired.writer, desired.writer.changelog()
    if desired.from_changes:
        events.replace(writer, events.once(log, desired.plan.data), None)
    else:
        events.rebuild(writer, log, desired.undone, desired.floor)


def _columns(data: Sequence[str]) -> list[Column]:
    return by_name((*data, *names.TARGET_METADATA))


def _up_to_floor(desired: DesiredState, rows: DataFrame, floor: str) -> DataFrame:
    """Return stored tombstones up to the floor, without those of undone events."""
    rows = desired.of_keys(rows).where(F.col(names.POSITION) <= floor)
    if desired.undone is None:
        return rows
    return rows.join(desired.undone, [*desired.plan.key, names.POSITION], "left_anti")


def _refuse_undone(desired: DesiredState, before: DataFrame, floor: str) -> None:
    """Raise RollbackRefusedError if the snapshot from before has rows of batches undone since."""
    published = of_batches(desired.writer.attempt.published)
    if not before.where((F.col(names.POSITION) <= floor) & ~published).isEmpty():
        raise RollbackRefusedError(
            f"{desired.plan.name}: the snapshot from before the batch, which replaces what "
            f"maintenance has forgotten up to {floor}, has rows that were undone since: it is "
            "unknown what their keys held without the batch"
        )


def _refuse_expired(desired: DesiredState) -> None:
    """Raise RollbackRefusedError if rows from before the undone batches cannot replace
    expired events."""
    floor, plan = desired.floor, desired.plan
    if desired.undone is None or floor is None:
        return
    if desired.writer.partial:
        raise RollbackRefusedError(
            f"{plan.name}: its rows are put together from changes of which maintenance has "
            f"forgotten those up to {floor}: a batch that others followed cannot be undone"
        )
    known = desired.changes.where(F.col(names.POSITION) <= floor)
    keys = by_name(plan.key)
    if desired.before is not None:
        _refuse_undone(desired, desired.of_keys(desired.before), floor)
        before = desired.before.select(*keys, F.col(names.POSITION).alias(_BEFORE))
        known = known.join(before, list(plan.key), "left")
        known = known.where(F.col(_BEFORE).isNull() | (F.col(names.POSITION) > F.col(_BEFORE)))
    if not known.isEmpty():
        raise RollbackRefusedError(
            f"{plan.name}: some keys have late changes that came up to the floor {floor}, where "
            "deletes are forgotten: without the batch it is unknown whether they apply"
        )
