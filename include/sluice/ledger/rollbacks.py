"""The mark that a rollback of several batches has begun."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from sluice.ledger.filters import of_pipeline
from sluice.ledger.newest import latest
from sluice.ledger.rows import ROLLING_BACK, BatchRow
from sluice.ledger.tables import BATCHES, LedgerTables, Row


def mark_rolling_back(
    catalog: Catalog,
    pipeline: str,
    batch_ids: Collection[str],
    attempt: str,
    expected: Callable[[BatchRow], bool],
) -> str:
    """Make the batches `rolling_back` under this attempt, all in one commit: a process that dies
    leaves all of them marked or none.

    Where one is unknown, or `expected` rejects its current row, nothing is written and its id is
    returned.
    """
    tables = LedgerTables(catalog)

    def decide(table: Table) -> tuple[list[Row], str]:
        known = latest(BatchRow, tables.scan(table, of_pipeline(pipeline)), "batch_id")
        rejected = next((b for b in batch_ids if b not in known or not expected(known[b])), "")
        if rejected:
            return [], rejected
        now = datetime.now(UTC)
        rows = (known[batch_id].without_lease() for batch_id in batch_ids)
        marks = (replace(row, state=ROLLING_BACK, attempt=attempt, at=now) for row in rows)
        return list(map(asdict, marks)), ""

    return tables.append(BATCHES, decide)
