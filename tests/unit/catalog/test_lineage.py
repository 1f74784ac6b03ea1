"""Which snapshots change rows, and which of those nobody of Sluice wrote."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from sluice.catalog.lineage import before_first, changes_rows, foreign


def snapshot(number: int, operation: Operation, **summary: str) -> Snapshot:
    named = {name.replace("_", "-"): value for name, value in summary.items()}
    return Snapshot(
        snapshot_id=number, parent_snapshot_id=number - 1, sequence_number=number,
        timestamp_ms=number, manifest_list="m", summary=Summary(operation, **named),
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


def test_the_oldest_snapshot_that_is_kept_from_before_some_batches() -> None:
    """Those of other lines do not count, as after an undo; nor any without the one before it."""
    batches = {3: "a", 4: "b", 5: "", 6: "b", 7: "c"}
    written = [snapshot(n, Operation.OVERWRITE, **{"sluice.batch": b}) for n, b in batches.items()]
    found = {one.snapshot_id: one for one in written}
    table: Any = SimpleNamespace(snapshot_by_id=found.get)
    asked = (7, {"b"}), (7, {"c"}), (7, {"a", "c"}), (7, {"a"}), (6, {"c"}), (None, {"b"})
    assert [before_first(table, *one) for one in asked] == [3, 6, 6, None, None, None]
