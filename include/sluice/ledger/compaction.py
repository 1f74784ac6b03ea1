"""Compaction of the ledger: one file a table, without rows that say the same as a later one.

Every renewal of a lease is a row. Of a batch, file or publication that stayed in a state only the
last row of that state says anything; the states it went through stay on record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.catalog import Catalog

from sluice.ledger.newest import newest
from sluice.ledger.tables import BATCHES, FILES, PUBLICATIONS, LedgerTables

_SAME_STATE: Final = {
    FILES: ("pipeline", "object_key", "batch_id", "state"),
    BATCHES: ("pipeline", "batch_id", "attempt", "state"),
    PUBLICATIONS: ("pipeline", "batch_id", "attempt", "namespace", "table_name", "state"),
}


@dataclass(frozen=True)
class Compacted:
    """How many rows a table of the ledger had, and has (dry run: would have)."""

    before: int
    after: int


def compact_ledger(catalog: Catalog, name: str, dry_run: bool = False) -> Compacted:
    """Compact one table of the ledger, unless somebody writes it meanwhile."""

    def shrink(rows: Any) -> Any:
        return newest(rows, *_SAME_STATE[name])

    return Compacted(*LedgerTables(catalog).compact(name, shrink, dry_run))
