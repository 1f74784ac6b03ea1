"""Which snapshots change rows, and which of those nobody of Sluice wrote."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from sluice.catalog.lineage import changes_rows, foreign


def snapshot(number: int, operation: Operation, **summary: str) -> Snapshot:
    named = {name.replace("_", "-"): value for name, value in summary.items()}
    return Snapshot(
        snapshot_id=number, sequence_number=number, timestamp_ms=number, manifest_list="m",
        summary=Summary(operation, **named),
    )  # fmt: skip


def test_files_that_another_engine_rewrote_have_the_same_rows() -> None:
    assert not changes_rows(snapshot(1, Operation.REPLACE))
    assert changes_rows(snapshot(1, Operation.OVERWRITE))


def test_an_empty_snapshot_is_nobodys_write() -> None:
    written = [
        snapshot(1, Operation.APPEND, changed_partition_count="0"),
        snapshot(2, Operation.APPEND, changed_partition_count="1"),
    ]
    table: Any = SimpleNamespace(metadata=SimpleNamespace(snapshots=written))
    assert foreign(table, {1, 2}) == ["2 (append)"]
