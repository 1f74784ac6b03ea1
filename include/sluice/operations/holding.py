"""Who has a batch or the pipeline, and for how long: attempts, holders and their leases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Final

from sluice.ledger import states
from sluice.ledger.leases import new_attempt, this_holder
from sluice.ledger.rows import BatchRow
from sluice.operations.context import Context

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


def is_mine(row: BatchRow) -> bool:
    """Whether this process holds the batch, which has landed."""
    return row.state == states.LANDED and row.holder == this_holder()


def is_at_work(row: BatchRow) -> bool:
    """Whether a driver, a publisher or maintenance has the batch, rather than a run that waits.

    A batch that was undone and landed again has a given-up attempt until a driver has it.
    """
    waits = row.attempt == "" or row.attempt.startswith((_TAKEN_UP, _GIVEN_UP))
    return row.state != states.LANDED or not waits


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
    ctx.ledger.batches.renew_landed(ctx.lease, is_mine)
