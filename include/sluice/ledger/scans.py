"""Reading the ledger's tables: a snapshot never changes, so what was read of one is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

ALL_COLUMNS: Final = ("*",)
_KEPT: Final = 16
# A lake of a million files has a ledger that nobody wants in memory for longer than he reads it.
_KEPT_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class _Asked:
    table: object
    where: BooleanExpression
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Found:
    snapshot: int | None
    rows: Any


def scan(table: Table, where: BooleanExpression, columns: tuple[str, ...] = ALL_COLUMNS) -> Any:
    """Read the rows of the snapshot that the table object holds into Arrow."""
    return table.scan(row_filter=where, selected_fields=columns).to_arrow()


class Scans:
    """Remembers what was read last of each table by each filter.

    Between two writes a run asks for the same rows many times, each time for several files of the
    warehouse.
    """

    def __init__(self) -> None:
        self._last: list[tuple[_Asked, _Found]] = []

    def read(
        self, table: Table, where: BooleanExpression, columns: tuple[str, ...] = ALL_COLUMNS
    ) -> Any:
        """What `scan` reads, or has read already."""
        asked = _Asked(table.metadata.table_uuid, where, columns)
        snapshot = table.current_snapshot()
        at = snapshot.snapshot_id if snapshot else None
        for known, found in self._last:
            if known == asked and found.snapshot == at:
                return found.rows
        rows = scan(table, where, columns)
        self._keep(asked, _Found(at, rows))
        return rows

    def _keep(self, asked: _Asked, found: _Found) -> None:
        """In a new list, for the threads that renew leases read beside the run."""
        others = [(known, old) for known, old in self._last if known != asked]
        room = [(asked, found)] if found.rows.nbytes <= _KEPT_BYTES else []
        self._last = (room + others)[:_KEPT]
