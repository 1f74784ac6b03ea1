"""An attempt's ownership of its batch: its row in the ledger, and the pipeline's lease."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from sluice.errors import LeaseHeldError, TransientError
from sluice.ledger import states
from sluice.ledger.leases import Lease, is_dead, new_attempt, this_holder
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.refusals import is_fenced, refuse_closed
from sluice.ledger.rows import BatchRow
from spark_jobs.driver_messages import emit

_POLL_SECONDS: Final = 2.0
# A waiting driver occupies a worker's slot, which the publish that it waits for may need.
_LEASE_WAIT_SECONDS: Final = 60.0


class AttemptLease:
    """One attempt at a batch: its id, its row in the ledger, and the pipeline's lease once it has
    it.

    `predecessor`: the attempt that the row named before, "" for none. `publisher`: the process that
    waits for the load (`leases.this_holder`); if it dies, the load ends.
    """

    def __init__(
        self, ledger: PipelineLedger, batch_id: str, publisher: str, lease_seconds: float
    ) -> None:
        self.ledger, self.batch_id = ledger, batch_id
        self.publisher, self.lease_seconds = publisher, lease_seconds
        self.attempt, self.predecessor = new_attempt(), ""
        self._held = threading.Event()
        self._stop = threading.Event()
        self._lost: LeaseHeldError | None = None

    def row(self) -> BatchRow | None:
        """Return the batch's row in the ledger; None if it has none yet."""
        return self.ledger.batches.get(self.batch_id)

    def begin(self, row: BatchRow | None) -> None:
        """Record this attempt as the owner of the batch while it decodes, so that the batch does
        not count as abandoned. This needs no lease of the pipeline.

        Raises LeaseHeldError if the batch is closed.
        """
        self.predecessor = "" if row is None else row.attempt
        if row is not None:
            refuse_closed(row, self.attempt)
        self._record_landed(lambda row: row is None or row.state in (states.LANDED, states.FAILED))

    def _record_landed(self, expected: Callable[[BatchRow | None], bool]) -> bool:
        return self.ledger.batches.record(
            self.batch_id, states.LANDED, attempt=self.attempt,
            lease=self._lease(), expected=expected,
        )  # fmt: skip

    def take_lease(
        self,
        is_half_published: Callable[[], bool],
        undone: Collection[str],
        refuse: Callable[[], None],
    ) -> tuple[str, ...]:
        """Wait a while for the pipeline's lease, and return the published batches.

        No other process publishes a batch while the lease is held. `is_half_published`: whether
        some tables have the batch already. `undone`: batches that this one undoes; they may be half
        rolled back. `refuse`: called once the lease is held; raises if the batch must not be
        loaded.

        Raises LeaseHeldError if another batch keeps the lease; the task then tries again later.
        """
        deadline, reported = time.monotonic() + _LEASE_WAIT_SECONDS, ""
        while True:
            self.require_current()  # else it would wait for what it is refused
            try:
                self.ledger.lease.acquire(
                    self.batch_id, self.attempt, self._lease(),
                    is_half_published=is_half_published, undone=undone, expected=self._may_take,
                )  # fmt: skip
                self._held.set()
                refuse()
                return tuple(sorted(self.ledger.batches.published()))
            except LeaseHeldError as held:
                if time.monotonic() > deadline:
                    raise
                if str(held) != reported:
                    emit(f"waiting: {held}")
                reported = str(held)
                time.sleep(_POLL_SECONDS)

    def _lease(self) -> Lease:
        return Lease(this_holder(), self.lease_seconds)

    @contextmanager
    def renewing(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Renew the lease during the work. If it is lost, call `cancel` until the work ends, and
        raise LeaseHeldError."""
        thread = threading.Thread(target=self._renew, args=(cancel,), daemon=True)
        thread.start()
        try:
            yield
        except Exception as error:
            if self._lost is not None:
                raise self._lost from error
            raise
        finally:
            self._stop.set()
            thread.join()

    def _renew(self, cancel: Callable[[], None]) -> None:
        renewed = time.monotonic()
        while not self._stop.wait(_POLL_SECONDS):
            if is_dead(self.publisher):
                emit("no process waits for this load any more: it stops")
                os._exit(TransientError.exit_code)
            if self._lost is not None:
                cancel()
            elif time.monotonic() - renewed > self.lease_seconds / 3:
                renewed = time.monotonic()
                self._renew_logging_errors(cancel)

    def _renew_logging_errors(self, cancel: Callable[[], None]) -> None:
        try:
            self._renew_once()
        except LeaseHeldError as error:
            emit(f"lease lost: {error}")
            self._lost = error
            cancel()
        except Exception as error:  # the catalog or its store may answer next time
            emit(f"lease not renewed: {type(error).__name__}: {error}")

    def _renew_once(self) -> None:
        """Renew once; raises LeaseHeldError if another attempt owns the batch."""
        if self._held.is_set():
            self.ledger.lease.renew(self.batch_id, self.attempt, self._lease())
        elif not self._record_landed(self._is_decoding):
            self.require_current()

    def _is_decoding(self, row: BatchRow | None) -> bool:
        return row is not None and (row.attempt, row.state) == (self.attempt, states.LANDED)

    def record_loaded(self) -> None:
        """Hand the batch to its publisher; raises LeaseHeldError if another attempt owns it."""
        written = self.ledger.batches.record(
            self.batch_id, states.LOADED, attempt=self.attempt,
            lease=Lease(self.publisher, self.lease_seconds), expected=self._is_loading,
        )  # fmt: skip
        if not written:
            raise self.lost_batch()

    def lost_batch(self) -> LeaseHeldError:
        """Return the error of an attempt that has lost its batch."""
        return LeaseHeldError(
            f"batch {self.batch_id} of {self.ledger.pipeline} was taken over or undone "
            f"meanwhile; attempt {self.attempt} stops here"
        )

    def require_current(self) -> None:
        """Raise LeaseHeldError if a later attempt owns the batch, or it is closed."""
        if not self._may_take(self.row()):
            raise self.lost_batch()

    def _may_take(self, row: BatchRow | None) -> bool:
        """Whether no later attempt owns the batch and it is not closed.

        Until this attempt takes the lease, the row may still name its predecessor, or the attempt
        id that an expired lease got (see `refusals.fence_lapsed`).
        """
        if row is not None and self._is_predecessors(row):
            row = replace(row, attempt=self.attempt)
        return self.is_current(row)

    def _is_predecessors(self, row: BatchRow) -> bool:
        overtaken = is_fenced(row) and not self._held.is_set()
        return overtaken or row.attempt == self.predecessor

    def _is_loading(self, row: BatchRow | None) -> bool:
        return row is not None and row.attempt == self.attempt and row.state == states.LOADING

    def is_owned_by_other(self, row: BatchRow) -> bool:
        """Whether the row is of another batch, or a later attempt at this one, that is still under
        way.

        A staged batch is, whoever holds it, since it will be published some day.
        """
        own = row.batch_id == self.batch_id and not self._has_other_attempt(row)
        staged = row.state in (states.LOADED, states.PUBLISHING)
        return not own and (staged or not self.ledger.lease.has_lapsed(row))

    def is_current(self, row: BatchRow | None) -> bool:
        """Whether the row names this attempt or none, and the batch is not closed."""
        if row is None:
            return True
        return not self._has_other_attempt(row) and row.state not in states.CLOSED

    def _has_other_attempt(self, row: BatchRow) -> bool:
        return row.attempt not in ("", self.attempt)
