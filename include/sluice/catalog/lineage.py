"""What lies behind a snapshot of a table: what it is built on, and who changed rows there."""

from __future__ import annotations

from collections.abc import Container, Iterator

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sluice.names import SUMMARY_BATCH, SUMMARY_MAINTENANCE


def ancestors(table: Table, snapshot: int | None) -> set[int]:
    """The snapshot and everything before it that the table still knows."""
    parents = {s.snapshot_id: s.parent_snapshot_id for s in table.metadata.snapshots}
    found: set[int] = set()
    while snapshot is not None and snapshot not in found:
        found.add(snapshot)
        snapshot = parents.get(snapshot)
    return found


def passes_over(table: Table, past: Container[int], snapshot: int) -> bool:
    """Whether a line of `ancestors` goes back to before a snapshot that is not among them. Where it
    ends after it, what lay between may have expired: of the last one Iceberg still tells the
    parent, pyiceberg none."""
    other = table.snapshot_by_id(snapshot)
    line = [s.sequence_number or 0 for s in table.metadata.snapshots if s.snapshot_id in past]
    return other is not None and min(line, default=0) <= (other.sequence_number or 0)


def with_equal_rows(table: Table, snapshot: int | None) -> Iterator[int]:
    """A snapshot, and those before it, as long as maintenance alone lies between."""
    while snapshot is not None:
        yield snapshot
        found = table.snapshot_by_id(snapshot)
        if found is None or changes_rows(found):
            return
        snapshot = found.parent_snapshot_id


def foreign(table: Table, among: Container[int]) -> list[str]:
    """Snapshots by which neither a batch nor maintenance changed rows, with their operation."""
    found = [s for s in table.metadata.snapshots if s.snapshot_id in among and _is_foreign(s)]
    newest_first = sorted(found, key=lambda s: s.sequence_number or 0, reverse=True)
    return [f"{s.snapshot_id} ({operation_of(s)})" for s in newest_first]


def _is_foreign(snapshot: Snapshot) -> bool:
    """To make a branch of an empty table writes a snapshot that changed nothing."""
    told = snapshot.summary.additional_properties if snapshot.summary else {}
    empty = told.get("changed-partition-count") == "0"
    return changes_rows(snapshot) and SUMMARY_BATCH not in told and not empty


def operation_of(snapshot: Snapshot) -> str:
    """What a snapshot did, in Iceberg's word."""
    return snapshot.summary.operation.value if snapshot.summary else "unknown"


def changes_rows(snapshot: Snapshot) -> bool:
    """Not by our maintenance: what retention deletes the floor covers, a wider type is the same
    values."""
    told = snapshot.summary.additional_properties if snapshot.summary else {}
    return operation_of(snapshot) != "replace" and SUMMARY_MAINTENANCE not in told
