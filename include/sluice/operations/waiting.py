"""Concurrent runs of one pipeline: one loads a batch, the others wait for their turn.

Correctness does not depend on it, since commits are guarded. It avoids drivers that wait for the
pipeline's lease, each with a machine's memory, until they give up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Final

from sluice.errors import LeaseHeldError
from sluice.ledger import states
from sluice.ledger.leases import holder_in_words, new_attempt, this_holder
from sluice.ledger.rows import BatchRow
from sluice.operations.context import Context

Rows = list[BatchRow]

_LONGEST_POLL_SECONDS: Final = 10
_TAKEN_UP: Final = "taken-up-"
_GIVEN_UP: Final = "given-up-"


def taken_up() -> str:
    """Return a new attempt id for a batch that a run takes up and gives to a driver later.

    With it, the process that had the batch before can no longer go on.
    """
    return f"{_TAKEN_UP}{new_attempt()}"


def given_up() -> str:
    """Return an attempt id that no process has, for a batch that is taken from the
    process that has it."""
    return f"{_GIVEN_UP}{new_attempt()}"


def is_taken_up(row: BatchRow) -> bool:
    """Whether a run took the batch up and has not given it to a driver yet."""
    return row.state == states.LANDED and row.attempt.startswith(_TAKEN_UP)


def is_held(ctx: Context, row: BatchRow) -> bool:
    """Whether another process has the batch, and its lease has not lapsed."""
    return not ctx.ledger.lease.has_lapsed(row) and row.holder != this_holder()


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


def is_at_work(row: BatchRow) -> bool:
    """Whether a driver, a publisher or maintenance has the batch, rather than a run that waits.

    A batch that was undone and landed again has a given-up attempt until a driver has it.
    """
    waits = row.attempt == "" or row.attempt.startswith((_TAKEN_UP, _GIVEN_UP))
    return row.state != states.LANDED or not waits


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
    return [row for row in rows if is_held(ctx, row)], list(filter(_is_mine, rows))


def _unfinished(ctx: Context) -> Rows:
    """Return the unfinished batches, the one that has not changed for longest first, and the row of
    maintenance, which a rollback also has.

    Claimed files whose batch is not recorded are left out: nobody holds that, and it is not
    halfway. To find them is to read all files, and a run that waits asks every few seconds.
    """
    rows = [row for row in ctx.ledger.batches.all() if row.state not in states.FINISHED]
    maintenance = ctx.ledger.batches.get(states.MAINTENANCE)
    return [*reversed(rows), *([maintenance] if maintenance else [])]


def renewing_landed(ctx: Context) -> AbstractContextManager[None]:
    """Renew the leases of the landed batches that this process holds, while the context lasts."""
    return renewing(ctx, lambda: renew_waiting(ctx))


@contextmanager
def pipeline_lease(ctx: Context, *undone: str) -> Iterator[str]:
    """Hold the pipeline's lease, as maintenance does, under the attempt that it yields; raises
    LeaseHeldError while another process has it.

    `undone`: batches that may be half rolled back, because their rollback is completed here.
    """
    attempt, lease = new_attempt(), ctx.ledger.lease
    lease.acquire_for_maintenance(attempt, ctx.lease, *undone)
    renew = partial(lease.renew, states.MAINTENANCE, attempt, ctx.lease)
    try:
        with renewing(ctx, renew):
            yield attempt
    finally:
        lease.release(states.MAINTENANCE, attempt)


def renewing(ctx: Context, renew: Callable[[], object]) -> AbstractContextManager[None]:
    """Renew a lease of the pipeline while the context lasts, after each third of its length."""
    third = ctx.lease.seconds / 3
    return repeating(renew, third, first=third)


@contextmanager
def repeating(action: Callable[[], object], seconds: float, first: float) -> Iterator[None]:
    """Call `action` every `seconds` while the context lasts, the first time after `first` seconds;
    its errors are ignored."""
    stop = threading.Event()
    thread = threading.Thread(target=_repeat, args=(action, seconds, first, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _repeat(
    action: Callable[[], object], seconds: float, first: float, stop: threading.Event
) -> None:
    pause = first
    while not stop.wait(pause):
        with suppress(Exception):  # a lease that is not renewed lapses, and another run goes on
            action()
        pause = seconds


def renew_waiting(ctx: Context) -> None:
    """Renew the leases of the landed batches that this process holds."""
    ctx.ledger.batches.renew_landed(ctx.lease, _is_mine)


def _is_mine(row: BatchRow) -> bool:
    return row.state == states.LANDED and row.holder == this_holder()
