"""Concurrent runs of one pipeline: one loads a batch, the others wait for their turn.

Correctness does not depend on it, since commits are guarded. It avoids drivers that wait for the
pipeline's lease, each with a machine's memory, until they give up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sluice.errors import LeaseHeldError
from sluice.ledger import states
from sluice.ledger.leases import holder_in_words
from sluice.ledger.rows import BatchRow
from sluice.operations.context import Context
from sluice.operations.holding import is_at_work, is_held, is_mine

Rows = list[BatchRow]

_LONGEST_POLL_SECONDS: Final = 10


def wait_for_others(ctx: Context) -> None:
    """Block while another run holds a batch; if it died, until its lease has lapsed.

    Maintenance keeps nobody from reconciling and landing. Raises LeaseHeldError, as does
    `wait_for_turn`, if nothing changes for as long as a lease lasts.
    """
    _wait(ctx, lambda held, _: [row for row in held if row.batch_id != states.MAINTENANCE])


def wait_for_turn(ctx: Context, batch_id: str) -> None:
    """Block while another run's driver or publisher, maintenance or a rollback is at work, or
    another run holds a batch with a smaller id than the smallest that waits here.

    Runs load in order of batch id, so that they cannot wait for each other.
    """

    def before(held: Rows, own: Rows) -> Rows:
        first = min((row.batch_id for row in own), default=batch_id)
        return [row for row in held if row.batch_id < first or is_at_work(row)]

    _wait(ctx, before)


def is_blocked(ctx: Context) -> bool:
    """Whether a batch is halfway, and nobody is at work who may complete it or who is waited for:
    then nothing else can be loaded."""
    rows = _unfinished(ctx)
    if any(is_held(ctx, row) and is_at_work(row) for row in rows):
        return False
    return any(row.halfway for row in rows)


def _wait(ctx: Context, before: Callable[[Rows, Rows], Rows]) -> None:
    """Block while `before` returns batches, given those that others hold and those that wait in
    this process.

    The more batches it returns, the less often the ledger is polled.
    """
    reported, last, deadline = "", None, 0.0
    while ahead := before(*_held_and_own(ctx)):
        message = f"{_work_message(ahead[0])}, held by {holder_in_words(ahead[0].holder)}"
        now = [(row.batch_id, row.state, row.attempt) for row in ahead]
        if now != last:
            last, deadline = now, time.monotonic() + ctx.pipeline.lease_seconds
        elif time.monotonic() > deadline:
            raise LeaseHeldError(
                f"pipeline {ctx.pipeline.name}: {message}; run again when it is done"
            )
        if message != reported:
            ctx.say(f"waiting: {message}")
        reported = message
        time.sleep(min(len(ahead), _LONGEST_POLL_SECONDS))


def _work_message(row: BatchRow) -> str:
    if row.batch_id == states.MAINTENANCE:
        return "maintenance or a rollback is at work"
    return f"batch {row.batch_id} is {row.state}"


def _held_and_own(ctx: Context) -> tuple[Rows, Rows]:
    rows = _unfinished(ctx)
    return [row for row in rows if is_held(ctx, row)], list(filter(is_mine, rows))


def _unfinished(ctx: Context) -> Rows:
    """Return the unfinished batches, the one that has not changed for longest first, and the row of
    maintenance, which a rollback also has.

    Claimed files whose batch is not recorded are left out: nobody holds that, and it is not
    halfway. To find them is to read all files, and a run that waits asks every few seconds.
    """
    rows = [row for row in ctx.ledger.batches.all() if row.state not in states.FINISHED]
    maintenance = ctx.ledger.batches.get(states.MAINTENANCE)
    return [*reversed(rows), *([maintenance] if maintenance else [])]
