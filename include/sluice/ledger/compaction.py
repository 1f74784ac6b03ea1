"""Compaction of the ledger: one file for each table, without rows that a later row repeats.

Every renewal of a lease is a row. For each state that a batch, file or publication had, its last
row is kept, so the history of states stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.catalog import Catalog

from sluice.ledger.appends import LedgerTables
from sluice.ledger.arrow_rows import newest
from sluice.ledger.tables import SAME_STATE


@dataclass(frozen=True)
class Compacted:
    """The number of rows of a ledger table before and after compaction (also for a dry run)."""

    before: int
    after: int


def compact_ledger(catalog: Catalog, name: str, *, dry_run: bool) -> Compacted:
    """Compact one table of the ledger; if another process writes meanwhile, nothing is changed."""

    def shrink(rows: pa.Table) -> pa.Table:
        return newest(rows, *SAME_STATE[name])

    return Compacted(*LedgerTables(catalog).compact(name, shrink, dry_run=dry_run))
