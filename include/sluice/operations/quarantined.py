"""Quarantined records that are not resolved yet, derived from the ledger and stored nowhere else.

A record is resolved when a reprocess of its batch is published. The ledger's row of the reprocess
also names the batches that it repeated, so nothing has to be marked afterwards: a crash cannot come
in between, and if the reprocess is rolled back, the records are unresolved again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sluice.errors import TerminalError
from sluice.ledger import quarantine
from sluice.ledger.details import EPOCH, QUARANTINED, REPROCESSED
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import PUBLISHED
from sluice.operations.context import Context, known_batch


@dataclass(frozen=True)
class Unresolved:
    """A published batch with unresolved quarantined records, counted by file.

    `epoch`: that at which it was loaded, None if unknown. `reasons`: why the records are in
    quarantine.
    """

    batch_id: str
    files: Counter[str]
    epoch: int | None = None
    reasons: frozenset[str] = frozenset()

    @property
    def records(self) -> int:
        """The number of unresolved records."""
        return self.files.total()

    def waits_for(self, reason: str) -> bool:
        """Whether a record is in quarantine for a reason, given with or without the part
        after its colon."""
        return any(reason in (stored, stored.partition(":")[0]) for stored in self.reasons)


def repeated(rows: Iterable[BatchRow]) -> dict[str, list[str]]:
    """Return, for every batch, the batches whose quarantined records it decoded again."""
    return {row.batch_id: list(row.details.get(REPROCESSED, ())) for row in rows}


def resolutions(rows: Iterable[BatchRow]) -> dict[str, str]:
    """Return, for every batch whose quarantined records are resolved, the reprocess that did it."""
    published = [row for row in rows if row.state == PUBLISHED]
    first_wins = sorted(published, key=lambda row: row.seq, reverse=True)
    return {old: row.batch_id for row in first_wins for old in row.details.get(REPROCESSED, ())}


def unresolved_records(row: BatchRow, resolved: Iterable[str]) -> int:
    """Return the number of a batch's unresolved records in quarantine.

    It is 0 for a batch that is not published, since that is loaded again itself.
    """
    if row.state != PUBLISHED or row.batch_id in resolved:
        return 0
    return int(row.details.get(QUARANTINED) or 0)


def unresolved(ctx: Context, batch_id: str = "") -> list[Unresolved]:
    """Return the published batches with unresolved records, oldest first, or the named one.

    Raises TerminalError if the named batch is not published.
    """
    rows = ctx.ledger.batches.all()
    if batch_id:
        require_published(ctx, batch_id)
    resolved = resolutions(rows)
    found = {
        row.batch_id: row.details.get(EPOCH)
        for row in sorted(rows, key=lambda row: row.seq)
        if unresolved_records(row, resolved) and batch_id in ("", row.batch_id)
    }
    return _counted(ctx, found)


def require_published(ctx: Context, batch_id: str) -> None:
    """Raise TerminalError if a batch is unknown or not published."""
    row = known_batch(ctx, batch_id)
    if row.state != PUBLISHED:
        raise TerminalError(
            f"pipeline {ctx.pipeline.name}: batch {batch_id} is {row.state}, and only what is "
            "published is reprocessed. One that failed is loaded again as itself (sluice run); "
            "the files of one that is rolled back land again after sluice release"
        )


def _counted(ctx: Context, epochs: dict[str, int | None]) -> list[Unresolved]:
    batches = list(epochs)
    if not batches:
        return []
    files: dict[str, Counter[str]] = {batch_id: Counter() for batch_id in batches}
    reasons: dict[str, set[str]] = {batch_id: set() for batch_id in batches}
    for found in quarantine.counted(ctx.catalog, ctx.pipeline.name, batches):
        files[found.batch_id][found.file] += found.records
        reasons[found.batch_id].add(found.reason)
    return [
        Unresolved(batch, counted, epochs[batch], frozenset(reasons[batch]))
        for batch, counted in files.items()
        if counted
    ]
