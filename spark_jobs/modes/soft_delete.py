"""Mode soft_delete: the target keeps deleted rows in their last version, marked as deleted.

| column | what |
|---|---|
| the source's | the row's newest version |
| _deleted_at | source time of the event that ended it; NULL for living rows, or without a time |
| _is_deleted | true for a row that a delete, a change of its key or a TRUNCATE ended |
| _deleted_position | position of that event; NULL for living rows |
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.folding.resolve import StoredState
from spark_jobs.folding.versions import ENDED_AT, ENDED_TS
from spark_jobs.lake.table_id import target_id
from spark_jobs.lake.writer import Writer
from spark_jobs.modes.mode_gaps import has_gap
from spark_jobs.modes.replay import StoredVersions, replay
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import by_name, quoted

_NEWEST: Final = "_sluice_newest"


def write(writer: Writer, stored: StoredState, newer: bool) -> None:
    """Write the newest version of every key that the batch may change to the target's branch.

    `newer`: the batch is above everything stored.
    """
    target = target_id(writer.plan)
    whole = not has_gap(writer, target)
    # DDL alone may give an empty target its first snapshot, after which it counts as complete.
    if (
        writer.span.lowest is None
        and stored.rows is not None
        and whole
        and not writer.needs_fold_again()
    ):
        return
    floor = writer.lake.floor(target)
    baseline = stored.rows
    if baseline is not None and floor is not None:
        baseline = writer.baseline_rows(baseline, floor)
    found = replay(writer, stored_versions(baseline, floor, whole), newer, stored)
    writer.upsert(target, newest(found, writer.plan), by=writer.plan.key)


def stored_versions(
    rows: DataFrame | None, floor: str | None = None, whole: bool = True
) -> StoredVersions:
    """Return the target's rows as versions, with the floor.

    A target from before this mode lacks deleted rows, so it is not `whole`.
    """
    rows = None if rows is None else with_marks(rows)
    return StoredVersions(
        rows, names.SOURCE_TS, names.DELETED_POSITION, names.DELETED_AT, whole, floor
    )


def with_marks(rows: DataFrame) -> DataFrame:
    """Return a target's rows with the delete columns, which rows from before this mode lack."""
    if names.DELETED_POSITION in rows.columns:
        return rows
    nothing = F.lit(None)
    return rows.withColumns(
        {
            names.DELETED_POSITION: nothing.cast("string"),
            names.DELETED_AT: nothing.cast("timestamp"),
        }
    )


def newest(found: DataFrame, plan: TablePlan) -> DataFrame:
    """Return the newest version of every key (see `versions.versions`) as rows of the target."""
    key, data = plan.key, plan.data
    kept = [*(c for c in data if c not in key), names.SOURCE_TS, names.BATCH_ID, ENDED_AT, ENDED_TS]
    order = F.struct(names.POSITION, *by_name(kept))
    last = found.groupBy(*by_name(key)).agg(F.max(order).alias(_NEWEST))
    values = [F.col(quoted(c)) if c in key else F.col(_NEWEST)[c].alias(c) for c in data]
    return last.select(
        *values,
        *(F.col(_NEWEST)[c].alias(c) for c in names.TARGET_METADATA),
        F.col(_NEWEST)[ENDED_TS].alias(names.DELETED_AT),
        F.col(_NEWEST)[ENDED_AT].isNotNull().alias(names.IS_DELETED),
        F.col(_NEWEST)[ENDED_AT].alias(names.DELETED_POSITION),
    )
