"""A transaction of PyIceberg's that costs the same however many snapshots its table has."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate


def transaction_on(table: Table) -> Transaction:
    """Return a transaction on a table, as `table.transaction()` does. It may raise on commit what
    that one raises."""
    return _Transaction(table)


@dataclass(frozen=True)
class _Staged:
    """A table's metadata after some updates."""

    before: TableMetadata
    updates: tuple[TableUpdate, ...]
    after: TableMetadata

    def is_of(self, before: TableMetadata, updates: tuple[TableUpdate, ...]) -> bool:
        return self.before is before and self.updates is updates


class _Transaction(Transaction):
    """Applies its updates once for each stage, that is each time that some are added. PyIceberg
    applies them, and copies all snapshots, each time that its own code looks at the metadata:
    twenty times an append, of two stages (apache/iceberg-python#3784). The catalog's commit applies
    them once more."""

    _staged: _Staged | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the updates of this transaction so far."""
        # Neither is ever changed: what takes its place is another object.
        before, updates = self._table.metadata, self._updates
        if self._staged is None or not self._staged.is_of(before, updates):
            self._staged = _Staged(before, updates, super().table_metadata)
        return self._staged.after
