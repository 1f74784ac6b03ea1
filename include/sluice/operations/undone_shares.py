"""Shares that are undone while their batch stays published without their table.

A share claims no files that could be held. So it is held itself: nothing loads it until it is
released. Then it waits as before, and the next run loads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from sluice.counting import counted
from sluice.ledger import states
from sluice.ledger.details import (
    KEEP_FILES_HELD,
    LEFT_OUT_BY,
    RELEASE,
    SHARE_OF,
    TABLES,
    UndoOrder,
    left_out_by,
    of_released_share,
    of_undo,
    of_undone,
)
from sluice.ledger.rows import BatchRow, seq_of
from sluice.operations.context import Context, known_batch
from sluice.operations.held_files import release


def is_held_share(row: BatchRow, origin: BatchRow | None) -> bool:
    """Whether a batch is a share of `origin` that waits for its release.

    It does not if its batch was undone and loaded again since, which either has the table now, or
    made the share anew.
    """
    if row.state != states.ROLLED_BACK or origin is None or origin.state != states.PUBLISHED:
        return False
    return row.details.get(LEFT_OUT_BY) == origin.attempt


def as_ended(row: BatchRow, origin: BatchRow | None) -> BatchRow:
    """Return a batch as its rollback, whose order is in its details, leaves it.

    It is rolled back; a share of `origin` that is ordered to be released waits as one that failed.
    """
    left_out = _left_out_of(origin)
    ended = row.with_details(of_undone(row.details) | left_out)
    if left_out and RELEASE in row.details:
        return _released(ended)
    return replace(ended, state=states.ROLLED_BACK)


def _left_out_of(origin: BatchRow | None) -> dict[str, str]:
    """Details of an undone share: which attempt at its batch is published without its table; empty
    if none is, and for a batch that is no share."""
    if origin is None or origin.state != states.PUBLISHED:
        return {}
    return left_out_by(origin.attempt)


def _released(share: BatchRow) -> BatchRow:
    """Return an undone share as its release leaves it."""
    return replace(share, state=states.FAILED).with_details(of_released_share(share.details))


def as_if_undone(
    rows: Iterable[BatchRow], batches: Collection[str], orders: Mapping[str, UndoOrder]
) -> dict[str, BatchRow]:
    """Return all batches of a pipeline, `rows`, as a rollback of some of them would leave them.

    `orders` of those whose rollback begins, or goes on with another order, or ended before.
    """
    before = {row.batch_id: row for row in rows}
    newest = max((row.seq for row in before.values()), default=0)
    named = [row for batch, row in before.items() if batch in batches]
    going = before | {
        row.batch_id: replace(_ordered(row, orders), state=states.ROLLING_BACK, seq=newest + 1)
        for row in named
        if row.state != states.ROLLED_BACK
    }
    return going | {row.batch_id: _as_undone(row, going, orders) for row in named}


def _ordered(row: BatchRow, orders: Mapping[str, UndoOrder]) -> BatchRow:
    order = orders.get(row.batch_id)
    return row if order is None else row.with_details(of_undo(row.details, order))


def _as_undone(
    before: BatchRow, batches: Mapping[str, BatchRow], orders: Mapping[str, UndoOrder]
) -> BatchRow:
    row, origin = batches[before.batch_id], batches.get(before.details.get(SHARE_OF, ""))
    if row.state == states.ROLLING_BACK:
        return as_ended(row, origin)
    order = orders.get(row.batch_id, KEEP_FILES_HELD)
    return _released(row) if order.release and is_held_share(row, origin) else row


def release_batch(ctx: Context, batch_id: str) -> str:
    """Release what the rollback of a batch holds, its files or, of a share, the batch itself;
    return what was done. Raises TerminalError unless the batch is rolled back."""
    count = release(ctx, batch_id)
    row = known_batch(ctx, batch_id)
    if is_held_share(row, origin_of(ctx, row)):
        _let_wait(ctx, row)
        return in_words(known_batch(ctx, batch_id))
    if not count:
        return f"no file of batch {batch_id} is held any more"
    return f"{counted(count, 'file')} of batch {batch_id} may be landed again"


def origin_of(ctx: Context, row: BatchRow) -> BatchRow | None:
    """Return the batch of which this is a share; None for any other batch."""
    return ctx.ledger.batches.get(row.details.get(SHARE_OF, ""))


def _let_wait(ctx: Context, row: BatchRow) -> None:
    """Let a share wait for the next run, unless it has changed since."""
    released = _released(row)
    ctx.ledger.batches.record(
        row.batch_id, released.state, replace_details=released.details,
        expected=lambda now: seq_of(now) == row.seq,
    )  # fmt: skip


def in_words(share: BatchRow) -> str:
    """Say what becomes of a share that was undone and is held or released."""
    what = f"{', '.join(share.details[TABLES])} of batch {share.details[SHARE_OF]}"
    if share.state == states.ROLLED_BACK:
        return f"{what} is held until: sluice release {share.pipeline} --batch {share.batch_id}"
    return f"{what} waits again for the next run, as batch {share.batch_id}"
