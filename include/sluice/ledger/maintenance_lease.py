"""Maintenance holds the pipeline's lease step by step, until its time is up."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from sluice.catalog.failures import error_text
from sluice.errors import HalfwayError, LeaseHeldError
from sluice.ledger.leases import Lease, new_attempt, this_holder
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.states import MAINTENANCE

# A waiting load asks for the lease every two seconds, for a minute.
STRETCH_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class MaintenanceLease:
    """Holds and renews the pipeline's lease, and releases it between two steps if a load waits for
    it.

    Entering waits for a load that has the lease. It raises LeaseHeldError if time is up first, and
    at once if a batch is halfway.
    """

    def __init__(self, ledger: PipelineLedger, lease_seconds: float, budget: float) -> None:
        self._ledger = ledger
        self._lease = Lease(this_holder(), lease_seconds)
        self._ends = time.monotonic() + budget
        self._attempt = new_attempt()
        self._stop, self._lost = threading.Event(), threading.Event()
        self._renewer: threading.Thread | None = None
        self._since = self._until = 0.0
        self._paused = False

    def __enter__(self) -> Self:
        last_message = ""
        while True:
            try:
                self._take()
                return self
            except HalfwayError:
                raise
            except LeaseHeldError as held:
                if time.monotonic() >= self._ends:
                    raise
                if str(held) != last_message:
                    last_message = str(held)
                    log.warning("waiting: %s", last_message)
            time.sleep(PAUSE_SECONDS)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._give_back()

    def pause(self) -> None:
        """Release the lease until `may_continue` is called."""
        self._give_back()
        self._paused = True

    def may_continue(self) -> bool:
        """Whether there is time for one more step; a waiting load gets the lease first.

        Raises LeaseHeldError if the lease was lost.
        """
        if self._paused:
            return self._take_again()
        if time.monotonic() >= self._ends:
            return False
        if self._lost.is_set() or time.monotonic() >= self._until:
            raise LeaseHeldError(
                f"pipeline {self._ledger.pipeline}: maintenance lost its lease; run it again"
            )
        if time.monotonic() - self._since > STRETCH_SECONDS:
            self._give_back()
            time.sleep(PAUSE_SECONDS)
            return self._take_again()
        return True

    def _take_again(self) -> bool:
        """Take the lease as soon as it is free; False if time is up first."""
        while time.monotonic() < self._ends:
            with suppress(LeaseHeldError):
                self._take()
                return True
            time.sleep(PAUSE_SECONDS)
        return False

    def _take(self) -> None:
        begun = time.monotonic()
        self._ledger.lease.acquire_for_maintenance(self._attempt, self._lease)
        self._paused = False
        self._since, self._until = time.monotonic(), begun + self._lease.seconds
        self._stop.clear()
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()

    def _give_back(self) -> None:
        self._stop.set()
        if self._renewer is not None:
            self._renewer.join()
        self._ledger.lease.release(MAINTENANCE, self._attempt)

    def _renew(self) -> None:
        while not self._stop.wait(self._lease.seconds / 3):
            begun = time.monotonic()
            try:
                self._ledger.lease.renew(MAINTENANCE, self._attempt, self._lease)
                self._until = begun + self._lease.seconds
            except LeaseHeldError:
                self._lost.set()
                return
            except Exception as error:  # the catalog or its store may answer the next time
                log.warning("maintenance could not renew its lease: %s", error_text(error))
