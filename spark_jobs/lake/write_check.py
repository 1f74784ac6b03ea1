"""Compare the row count in a snapshot's summary with the number of rows that were
counted before."""

from __future__ import annotations

from typing import Final

from pyiceberg.table import Table

from sluice.catalog.snapshots import head
from sluice.counting import counted
from sluice.errors import AuditFailedError
from spark_jobs.attempt import Attempt

_APPENDED: Final = "added-records"
_MERGED: Final = tuple(f"spark.merge-into.num-target-rows-{n}" for n in ("inserted", "updated"))


def refuse_row_loss(
    table: Table, pipeline: str, attempt: Attempt, base: int | None, rows: int
) -> None:
    """Raise AuditFailedError unless the attempt's first write to its branch inserted or updated
    this many rows.

    The rows are counted by a separate query, whose result may differ from the rows written.
    """
    newest = head(table, attempt.branch)
    snapshot = None if newest is None else table.snapshot_by_id(newest)
    summary = None if snapshot is None or newest == base else snapshot.summary
    metrics = {} if summary is None else summary.additional_properties
    metric_names = _MERGED if _MERGED[0] in metrics else (_APPENDED,)
    written = sum(int(metrics.get(name, 0)) for name in metric_names)
    if written != rows:
        raise AuditFailedError(
            f"{'.'.join(table.name())}: batch {attempt.batch_id}: {counted(rows, 'row')} to be "
            f"written to branch {attempt.branch}, but its snapshot {newest} says {written}; "
            f"nothing is published. Run the batch again: sluice run {pipeline}"
        )
