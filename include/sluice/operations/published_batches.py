"""Which batches are published, and which are not finished."""

from __future__ import annotations

from collections.abc import Container

from sluice.ledger import states
from sluice.ledger.details import UNDOING, UNDONE
from sluice.ledger.rows import BatchRow
from sluice.operations.context import Context


def unfinished_except_undone(ctx: Context) -> list[BatchRow]:
    """Return the unfinished batches without those that one of them undoes."""
    rows = ctx.ledger.unfinished()
    taken = {batch for row in rows for batch in row.details.get(UNDONE, ())}
    return [row for row in rows if row.batch_id not in taken]


def present_batches(ctx: Context) -> set[str]:
    """Return the batches that are published, or whose rollback is not finished."""
    rows = ctx.ledger.batches.all()
    return {r.batch_id for r in rows if r.state in (states.PUBLISHED, states.ROLLING_BACK)}


def must_complete(ctx: Context, row: BatchRow) -> bool:
    """Whether a batch that undoes others has begun to delete their changes, and is not finished."""
    undone = row.details.get(UNDONE)
    if not undone or not row.halfway:
        return False
    return bool(set(undone) - present_batches(ctx)) or UNDOING in row.details


def published_rows(ctx: Context) -> list[BatchRow]:
    """Return the rows of the published batches, the one that was published last first."""
    return [r for r in ctx.ledger.batches.all() if r.state == states.PUBLISHED]


def followers(rows: list[BatchRow], batch_id: str, undone: Container[str]) -> list[BatchRow]:
    """Return the published batches after one that are not undone; none if it is not published."""
    since = next((r.seq for r in rows if r.batch_id == batch_id), None)
    return [r for r in rows if since is not None and r.seq > since and r.batch_id not in undone]


def published_until(rows: list[BatchRow], batch_id: str) -> list[str]:
    """Return the published batches up to this one."""
    last = next((r.seq for r in rows if r.batch_id == batch_id), 0)
    return [r.batch_id for r in rows if r.seq <= last]
