"""Retries while a catalog or a store is away, as during a restart, a failover or a network failure.

Only actions that may run twice are retried for that long (`retry_while_away`): reads, creating what
may exist already, and publishing, which checks what arrived. If the answer to another commit was
lost, its sender checks whether it arrived.
Actions that fail because others commit first are tried a few times (`limited_retries`).
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from sluice.catalog.failures import Errors, error_text, is_away, is_of_a_store, is_permanent
from sluice.errors import LakeMovedError, SluiceError, TransientError

T = TypeVar("T")

SECONDS: Final = 90.0
FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 5.0
_LOGGED_AT: Final = 5

log = logging.getLogger(__name__)


class CatalogAwayError(TransientError):
    """The catalog or the store did not answer in time."""


def retry_while_away(
    action: Callable[[], T], also: Errors = (), progress: Callable[[], object] = lambda: None
) -> T:
    """Run an action again, for SECONDS, while its error is transient; `also`: more such errors.

    The time runs from the first failure, since an action may work for longer than that, and anew
    from a failure before which the action got further: `progress` returns what it has done so far,
    which grows a limited number of times.

    Raises CatalogAwayError when the time is up, LakeMovedError if a file was missing all the time,
    and any other error unchanged, as those of Sluice in `also`.
    """
    done, turn, give_up = progress(), 0, math.inf
    while True:
        try:
            return action()
        except Exception as problem:
            if not _is_worth_a_try(problem, also):
                raise
            if math.isinf(give_up) or progress() != done:
                done, turn, give_up = progress(), 0, time.monotonic() + SECONDS
            if time.monotonic() >= give_up:
                if isinstance(problem, SluiceError):
                    raise
                raise _timeout_error(problem) from problem
            if turn == _LOGGED_AT:
                log.warning("waiting up to %.0f s: %s", SECONDS, error_text(problem))
            time.sleep(pause(turn))
            turn += 1


def _is_worth_a_try(problem: Exception, also: Errors) -> bool:
    """Whether an error is transient, or in `also`, and was not waited for already."""
    if is_permanent(problem) or isinstance(problem.__cause__, CatalogAwayError):
        return False
    return is_away(problem) or isinstance(problem, also) or is_of_a_store(problem)


def limited_retries(most: int, on: Errors, longest_pause: float = 0.0) -> Retrying:
    """Return a caller that runs an action up to `most` times while it raises one of the errors
    `on`.

    The last of these errors is raised unchanged. `longest_pause`: seconds, see `pause`; 0: none.
    """

    def wait(state: RetryCallState) -> float:
        return pause(state.attempt_number - 1, longest_pause) if longest_pause else 0.0

    return Retrying(
        stop=stop_after_attempt(most),
        retry=retry_if_exception_type(on),
        wait=wait,
        # Read from `time` at the call, as in `retry_while_away`.
        sleep=lambda seconds: time.sleep(seconds),
        reraise=True,
    )


def _timeout_error(problem: Exception) -> SluiceError:
    """Return the error to raise when the time is up.

    A file that newer metadata replaced is missing for a moment. If it stays missing, warehouse and
    catalog do not belong together.
    """
    if isinstance(problem, FileNotFoundError):
        return LakeMovedError(
            f"{error_text(problem)}: the catalog names a file that is not in the warehouse; the "
            "warehouse was moved or is not mounted, files of it were deleted, or one of the two is "
            "an older copy of itself. Nothing was changed: put the warehouse back where it was, or "
            "the catalog of the same time beside it, and run again"
        )
    return CatalogAwayError(
        f"no answer in {SECONDS:.0f} s: {error_text(problem)}; try again when it is back"
    )


def pause(turn: int, longest: float = LONGEST_PAUSE) -> float:
    """Return the seconds to wait after try `turn` (from 0): doubled each time, up to `longest`.

    Jitter keeps processes that failed together from coming back together.
    """
    whole: float = min(longest, FIRST_PAUSE * 2 ** min(turn, 10))
    return random.uniform(0.2, 1.0) * whole
