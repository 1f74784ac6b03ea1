"""What a snapshot says that it wrote, against what it was to write."""

from __future__ import annotations

from typing import Final

from pyiceberg.table import Table

from sluice.catalog.snapshots import head
from sluice.errors import AuditFailed

_APPENDED: Final = "added-records"
_MERGED: Final = tuple(f"spark.merge-into.num-target-rows-{n}" for n in ("inserted", "updated"))


def refuse_loss(table: Table, branch: str, base: int | None, rows: int) -> None:
    """Raise AuditFailed unless the first write on the branch made exactly this many rows new.

    The rows are counted in a query of their own; a writer that saw others than the count would
    else be noticed by nobody.
    """
    newest = head(table, branch)
    snapshot = None if newest is None else table.snapshot_by_id(newest)
    summary = None if snapshot is None or newest == base else snapshot.summary
    found = {} if summary is None else summary.additional_properties
    counted = _MERGED if _MERGED[0] in found else (_APPENDED,)
    written = sum(int(found.get(name, 0)) for name in counted)
    if written != rows:
        raise AuditFailed(
            f"{'.'.join(table.name())}: {rows} rows were to be written to branch {branch}, but its "
            f"snapshot {newest} says {written}; nothing is published. Run the batch again"
        )
