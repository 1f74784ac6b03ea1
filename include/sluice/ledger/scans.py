"""Reads of the ledger's tables, cached by snapshot: a snapshot never changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

from sluice.catalog.damage import explained_damage

if TYPE_CHECKING:
    import pyarrow as pa

ALL_COLUMNS: Final = ("*",)
_KEPT: Final = 16
# The ledger of a million files is too large to keep in memory.
_KEPT_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class _Query:
    table: object
    where: BooleanExpression
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Cached:
    snapshot: int | None
    rows: pa.Table


def scan(
    table: Table, where: BooleanExpression, columns: tuple[str, ...] = ALL_COLUMNS
) -> pa.Table:
    """Read rows of the table object's snapshot into Arrow; raises LedgerDamagedError over a damaged
    file."""
    wanted = table.scan(row_filter=where, selected_fields=columns)
    with explained_damage(wanted, table.name()):
        return wanted.to_arrow()


class Scans:
    """A cache of the last result of each query.

    Between two writes a run asks for the same rows many times, and each read opens several files.
    """

    def __init__(self) -> None:
        self._last: list[tuple[_Query, _Cached]] = []

    def read(
        self, table: Table, where: BooleanExpression, columns: tuple[str, ...] = ALL_COLUMNS
    ) -> pa.Table:
        """Return what `scan` returns, from the cache if the snapshot is the same."""
        query = _Query(table.metadata.table_uuid, where, columns)
        snapshot = table.current_snapshot()
        at = snapshot.snapshot_id if snapshot else None
        for other, cached in self._last:
            if other == query and cached.snapshot == at:
                return cached.rows
        rows = scan(table, where, columns)
        self._keep(query, _Cached(at, rows))
        return rows

    def _keep(self, query: _Query, result: _Cached) -> None:
        """Replace the list instead of changing it: threads that renew leases read it meanwhile."""
        others = [(other, cached) for other, cached in self._last if other != query]
        new = [(query, result)] if result.rows.nbytes <= _KEPT_BYTES else []
        self._last = (new + others)[:_KEPT]
