"""The versions of a target's rows in a rebuild: its history, and its rows with soft deletes."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.folding.floor import Floor
from spark_jobs.folding.moves import with_moved_values
from spark_jobs.folding.versions import versions
from spark_jobs.lake.table_id import history_id
from spark_jobs.merging.desired_state import DesiredState
from spark_jobs.modes import history, soft_delete
from spark_jobs.modes.expired_values import with_expired_values
from spark_jobs.modes.replay import StoredVersions, with_stored_versions
from spark_jobs.quoting import by_name

_ENDED: Final = "_sluice_ended"


def write_versions(desired: DesiredState, rows: DataFrame) -> DataFrame:
    """Write the history; return the target's rows, which with soft deletes are versions too."""
    plan, there = desired.plan, desired.versions()
    if plan.history:
        old = None if there is None else _expired_versions(desired, there)
        kept = StoredVersions(old, names.VALID_FROM, names.POSITION_TO, names.VALID_TO)
        found = _versions(desired, kept, there)
        by = (*plan.key, names.POSITION)
        desired.write_to(history_id(plan), history.rows_of(found, plan), there, by)
    if not plan.soft_delete:
        return rows
    return soft_delete.newest(_versions(desired, _baseline_versions(desired)), plan)


def _baseline_versions(desired: DesiredState) -> StoredVersions:
    """Return the target's rows up to the floor, in place of expired changes.

    With partial changes also rows above the floor, since they may have values of expired changes.
    """
    rows = desired.baseline()
    if rows is None or desired.floor is None:
        return soft_delete.stored_versions(None)
    if desired.writer.partial:
        return soft_delete.stored_versions(desired.of_keys(rows), desired.floor)
    # They may be from before soft_delete was switched on.
    rows = soft_delete.with_marks(rows)
    return soft_delete.stored_versions(_below(desired, rows, desired.floor, names.DELETED_POSITION))


def _expired_versions(desired: DesiredState, there: DataFrame) -> DataFrame | None:
    """Return stored versions and their ends that may come from expired events, without undone ones;
    None if the table has no floor."""
    if desired.floor is None:
        return None
    if desired.undone is not None:
        by = [*desired.plan.key, names.POSITION]
        there = there.join(
            _undone_versions(desired, desired.undone, names.POSITION), by, "left_anti"
        )
        there = _reopened(
            desired, _undone_versions(desired, desired.undone, names.POSITION_TO), there
        )
    return _below(desired, there, desired.floor, names.POSITION_TO)


def _below(desired: DesiredState, rows: DataFrame, floor: str, ended_at: str) -> DataFrame:
    """Return stored versions and ends up to the floor; later ones are made again from
    their events."""
    rows = desired.of_keys(rows).where(F.col(names.POSITION) <= floor)
    return rows.withColumn(ended_at, F.when(F.col(ended_at) <= floor, F.col(ended_at)))


def _undone_versions(desired: DesiredState, undone: DataFrame, place: str) -> DataFrame:
    """Return key and position (as column `place`) of the undone events that began or ended a
    version.

    Positions that the history had before the undone batches are left out: another batch brought the
    same event.
    """
    key = by_name(desired.plan.key)
    found = undone.select(*key, F.col(names.POSITION).alias(place)).distinct()
    before = desired.versions_before
    return found if before is None else found.join(before, [*desired.plan.key, place], "left_anti")


def _reopened(desired: DesiredState, ends: DataFrame, rows: DataFrame) -> DataFrame:
    """Return stored versions without the ends that undone events made."""
    ended_at = names.POSITION_TO
    rows = rows.join(ends.withColumn(_ENDED, F.lit(True)), [*desired.plan.key, ended_at], "left")
    gone = F.col(_ENDED).isNotNull() | F.col(ended_at).isin(*desired.truncates_gone)
    return rows.withColumn(ended_at, F.when(~gone, F.col(ended_at))).drop(_ENDED)


def _versions(
    desired: DesiredState, kept: StoredVersions, states: DataFrame | None = None
) -> DataFrame:
    """Return the versions of the keys to rebuild; `states`: stored versions, to complete
    partial changes."""
    key, data = desired.plan.key, desired.plan.data
    truncates, floor = desired.truncates, desired.floor
    columns = (*data, names.OP, names.ABSENT, *names.TARGET_METADATA)
    changes = desired.changes.select(*by_name(columns))
    if states is not None and floor is not None and desired.writer.partial:
        states = desired.of_keys(states)
        changes = with_expired_values(changes, truncates, states, Floor(floor, key), data)
    changes = with_stored_versions(key, changes, kept)
    changes = with_moved_values(changes, desired.moved, truncates, key, data)
    return versions(changes, truncates, key, data)
