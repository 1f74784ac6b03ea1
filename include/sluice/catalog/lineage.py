"""The history behind a snapshot of a table: its ancestors, and which writers changed rows."""

from __future__ import annotations

from collections.abc import Container, Iterator

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sluice.names import SUMMARY_BATCH, SUMMARY_MAINTENANCE


def ancestors(table: Table, snapshot: int | None) -> set[int]:
    """Return the snapshot and its ancestors, as far as the table still has them."""
    parents = {s.snapshot_id: s.parent_snapshot_id for s in table.metadata.snapshots}
    line: set[int] = set()
    while snapshot is not None and snapshot not in line:
        line.add(snapshot)
        snapshot = parents.get(snapshot)
    return line


def passes_over(table: Table, past: Container[int], snapshot: int) -> bool:
    """Whether `past`, a line of ancestors without the snapshot, goes back to before the snapshot.

    If the line ends after it, snapshots in between may have expired: Iceberg keeps the parent of
    the oldest one, pyiceberg does not.
    """
    other = table.snapshot_by_id(snapshot)
    line = [s.sequence_number or 0 for s in table.metadata.snapshots if s.snapshot_id in past]
    return other is not None and min(line, default=0) <= (other.sequence_number or 0)


def with_equal_rows(table: Table, snapshot: int | None) -> Iterator[int]:
    """Yield a snapshot and its ancestors, as long as only maintenance lies between them."""
    while snapshot is not None:
        yield snapshot
        current = table.snapshot_by_id(snapshot)
        if current is None or changes_rows(current):
            return
        snapshot = current.parent_snapshot_id


def foreign(table: Table, among: Container[int]) -> list[str]:
    """Return those of the snapshots that changed rows and that neither a batch nor
    maintenance wrote."""
    others = [s for s in table.metadata.snapshots if s.snapshot_id in among and _is_foreign(s)]
    newest_first = sorted(others, key=lambda s: s.sequence_number or 0, reverse=True)
    return [f"{s.snapshot_id} ({operation_of(s)})" for s in newest_first]


def _is_foreign(snapshot: Snapshot) -> bool:
    """Whether a snapshot changed rows and was written by neither a batch nor maintenance.

    An empty snapshot does not count: creating a branch of an empty table writes one.
    """
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    empty = summary.get("changed-partition-count") == "0"
    return changes_rows(snapshot) and SUMMARY_BATCH not in summary and not empty


def operation_of(snapshot: Snapshot) -> str:
    """Return a snapshot's operation, as Iceberg names it."""
    return snapshot.summary.operation.value if snapshot.summary else "unknown"


def changes_rows(snapshot: Snapshot) -> bool:
    """Whether a snapshot changes rows.

    Sluice's maintenance does not count: the floor covers what retention deletes, and a wider type
    keeps the values.
    """
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return operation_of(snapshot) != "replace" and SUMMARY_MAINTENANCE not in summary
