"""Shares that are undone while their batch stays published without their table.

A share claims no files that could be held. So it is held itself: nothing loads it until it is
released. Then it waits as before, and the next run loads it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from sluice.counting import counted
from sluice.ledger import states
from sluice.ledger.details import (
    LEFT_OUT_BY,
    SHARE_OF,
    TABLES,
    left_out_by,
    of_released_share,
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


def without_its_table(ctx: Context, row: BatchRow) -> dict[str, str]:
    """Details of a share that is undone: which attempt at its batch is published without its
    table. Empty for any other batch, and if its batch is not published."""
    return _left_out_of(_origin(ctx, row))


def _left_out_of(origin: BatchRow | None) -> dict[str, str]:
    if origin is None or origin.state != states.PUBLISHED:
        return {}
    return left_out_by(origin.attempt)


def as_if_undone(
    rows: Iterable[BatchRow], batches: Container[str], release: bool
) -> dict[str, BatchRow]:
    """Return all batches of a pipeline, `rows`, as a rollback of some of them would leave them;
    `release`: one that releases what it would hold."""
    before = {row.batch_id: row for row in rows}
    gone = {b: replace(row, state=states.ROLLED_BACK) for b, row in before.items() if b in batches}
    after = before | gone
    shares = (before[batch] for batch in gone if SHARE_OF in before[batch].details)
    return after | {row.batch_id: _share_if_undone(row, after, release) for row in shares}


def _share_if_undone(row: BatchRow, after: Mapping[str, BatchRow], release: bool) -> BatchRow:
    origin, undone = after.get(row.details[SHARE_OF]), after[row.batch_id]
    if row.state != states.ROLLED_BACK:
        undone = undone.with_details(row.details | _left_out_of(origin))
    waits = release and is_held_share(undone, origin)
    return replace(undone, state=states.FAILED) if waits else undone


def release_batch(ctx: Context, batch_id: str) -> str:
    """Release what the rollback of a batch holds, its files or, of a share, the batch itself;
    return what was done. Raises TerminalError unless the batch is rolled back."""
    count = release(ctx, batch_id)
    row = known_batch(ctx, batch_id)
    if is_held_share(row, _origin(ctx, row)):
        _let_wait(ctx, row)
        return in_words(known_batch(ctx, batch_id))
    if not count:
        return f"no file of batch {batch_id} is held any more"
    return f"{counted(count, 'file')} of batch {batch_id} may be landed again"


def _origin(ctx: Context, row: BatchRow) -> BatchRow | None:
    """Return the batch of which this is a share; None for any other batch."""
    return ctx.ledger.batches.get(row.details.get(SHARE_OF, ""))


def _let_wait(ctx: Context, row: BatchRow) -> None:
    """Let a share wait for the next run, unless it has changed since."""
    ctx.ledger.batches.record(
        row.batch_id, states.FAILED, replace_details=of_released_share(row.details),
        expected=lambda now: seq_of(now) == row.seq,
    )  # fmt: skip


def in_words(share: BatchRow) -> str:
    """Say what becomes of a share that was undone and is held or released."""
    what = f"{', '.join(share.details[TABLES])} of batch {share.details[SHARE_OF]}"
    if share.state == states.ROLLED_BACK:
        return f"{what} is held until: sluice release {share.pipeline} --batch {share.batch_id}"
    return f"{what} waits again for the next run, as batch {share.batch_id}"
