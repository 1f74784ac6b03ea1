"""Conditions under which a batch may not take or keep the pipeline's lease, and what their errors
say; and the fence for batches whose lease lapsed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Final

from sluice.errors import HalfwayError, LeaseHeldError
from sluice.ledger.leases import holder_in_words, new_attempt
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import (
    CLOSED,
    HALFWAY,
    LANDED,
    LOADING,
    MAINTAINING,
    MAINTENANCE,
    ROLLING_BACK,
)

_FENCED: Final = "overtaken-"
_AT_WORK: Final = frozenset({LOADING, MAINTAINING})


def refuse_held(
    batches: Iterable[BatchRow], batch_id: str, has_lapsed: Callable[[BatchRow], bool]
) -> None:
    """Raise LeaseHeldError while another batch has the lease."""
    for row in batches:
        # A landed batch waits, or is decoded without the lease.
        if row.batch_id == batch_id or row.state == LANDED:
            continue
        if not has_lapsed(row):
            raise LeaseHeldError(
                f"pipeline {row.pipeline}: batch {row.batch_id} is {row.state}; "
                f"{holder_in_words(row.holder)} has the lease until "
                f"{row.lease_until:%Y-%m-%d %H:%M:%SZ}. Wait for it, or retry later"
            )


def refuse_closed(row: BatchRow, attempt: str) -> None:
    """Raise LeaseHeldError for a batch that may not be loaded or published any more."""
    if row.state in CLOSED:
        raise LeaseHeldError(
            f"batch {row.batch_id} of {row.pipeline} is {row.state}; attempt {attempt} stops here"
        )


def refuse_halfway(batches: Iterable[BatchRow], besides: Container[str]) -> None:
    """Raise HalfwayError if a batch that is not in `besides` is half published or
    half rolled back."""
    for row in batches:
        if row.halfway and row.batch_id not in besides:
            half = "rolled back" if row.state == ROLLING_BACK else "published"
            raise HalfwayError(
                f"pipeline {row.pipeline}: batch {row.batch_id} is half {half}; "
                f"{completed_by(row)} first"
            )


def completed_by(row: BatchRow) -> str:
    """Return the command that completes a batch that is halfway.

    `reconcile` resumes an interrupted publication or rollback. A batch that failed halfway is
    loaded again or rolled back.
    """
    if row.state in HALFWAY:
        return f"sluice reconcile {row.pipeline}"
    undo = f"sluice rollback {row.pipeline} --batch {row.batch_id}"
    return f"sluice run {row.pipeline} (or {undo})"


def require_lease(batches: Mapping[str, BatchRow], attempt: str) -> None:
    """Raise LeaseHeldError, before a rollback marks its batches, if its attempt no longer has the
    pipeline's lease.

    A lease that lapsed is still its own until another process takes it.
    """
    row = batches.get(MAINTENANCE)
    if row is not None and row.attempt != attempt:
        raise LeaseHeldError(
            f"pipeline {row.pipeline}: the lease of this attempt lapsed, and another run had it "
            "meanwhile; nothing was changed: run this again"
        )


def fence_lapsed(batches: Iterable[BatchRow], batch_id: str) -> list[BatchRow]:
    """Return new rows for the other batches whose lease lapsed while they were loading or
    maintaining, with an attempt id that no process has.

    They are written together with a new lease. A process that was suspended then cannot renew its
    old lease and go on with an outdated list of published batches.
    """
    lapsed = [r for r in batches if r.batch_id != batch_id and r.state in _AT_WORK and r.holder]
    return [replace(r, attempt=f"{_FENCED}{new_attempt()}").without_lease() for r in lapsed]


def is_fenced(row: BatchRow) -> bool:
    """Whether the batch's last attempt lost its lease to another batch and none has followed it."""
    return row.attempt.startswith(_FENCED)


def lost_batch_message(pipeline: str, batch_id: str, attempt: str, row: BatchRow | None) -> str:
    """Return the message for an attempt that no longer owns its batch."""
    if row is None:
        now = "the ledger does not know it"
    elif is_fenced(row):
        now = "its lease lapsed, and another run had the pipeline meanwhile"
    else:
        now = f"attempt {row.attempt} has taken it over"
    return f"pipeline {pipeline}, batch {batch_id}: {now}; attempt {attempt} stops here"
