"""Mode history (SCD type 2): a table beside the target with every version of each row.

| column | what |
|---|---|
| the source's | as the row was |
| _valid_from, _valid_to | source time of the events that began and ended the version; may be NULL |
| _is_current | true while nothing has ended it |
| _position, _position_to | position of those events, by which versions are ordered; NULL: open |
| _batch_id | the batch that brought the event that began it |
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.folding.resolve import StoredState
from spark_jobs.folding.versions import ENDED_AT, ENDED_TS
from spark_jobs.lake.rows_at_cut import live_rows
from spark_jobs.lake.table_id import history_id, target_id
from spark_jobs.lake.writer import Writer
from spark_jobs.modes.mode_gaps import has_gap, written_by
from spark_jobs.modes.replay import LiveRows, StoredVersions, replay
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import by_name


def write(writer: Writer, stored: StoredState, newer: bool) -> None:
    """Write the versions that the batch begins or ends to the history's branch.

    `newer`: the batch is above everything stored.
    """
    if not writer.plan.history:
        return
    table = history_id(writer.plan)
    # A history with a gap is completed by any batch that writes to it, even if that only has a
    # rename: after the write it counts as complete.
    whole = not has_gap(writer, table)
    if writer.span.lowest is None and whole and not writer.needs_fold_again():
        return
    rows = writer.lake.rows(table, writer.bases[table].snapshot)
    kept = StoredVersions(
        None if rows is None else writer.now.rows(rows, written_by(writer, table), writer.types),
        source_ts=names.VALID_FROM,
        ended_at=names.POSITION_TO,
        ended_ts=names.VALID_TO,
        complete=whole,
        live_rows=_live_rows(writer, stored),
    )
    found = replay(writer, kept, newer, stored)
    rows = rows_of(found, writer.plan)
    writer.upsert(table, rows, by=(*writer.plan.key, names.POSITION))


def _live_rows(writer: Writer, stored: StoredState) -> LiveRows | None:
    floor = writer.lake.floor(target_id(writer.plan))
    if floor is None or stored.rows is None:
        return None
    return LiveRows(live_rows(writer.baseline_rows(stored.rows, floor)), floor)


def rows_of(found: DataFrame, plan: TablePlan) -> DataFrame:
    """Return versions (see `versions.versions`) as rows of the history."""
    return found.select(
        *by_name(plan.data),
        F.col(names.SOURCE_TS).alias(names.VALID_FROM),
        F.col(ENDED_TS).alias(names.VALID_TO),
        F.col(ENDED_AT).isNull().alias(names.IS_CURRENT),
        names.POSITION,
        F.col(ENDED_AT).alias(names.POSITION_TO),
        names.BATCH_ID,
    )
