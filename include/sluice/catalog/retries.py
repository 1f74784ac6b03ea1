"""Retries while a catalog or a store is away, as during a restart, a failover or a network failure.

Only actions that may run twice are retried for that long (`retry_while_away`): reads, creating what
may exist already, and publishing, which checks what arrived. If the answer to another commit was
lost, its sender checks whether it arrived.
Actions that fail because others commit first are tried a few times (`limited_retries`).
"""

from __future__ import annotations

import errno
import logging
import math
import random
import sys
import time
from collections.abc import Callable
from typing import Final, TypeVar

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    OAuthError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from sluice.environment import ENV_CATALOG_URI, ENV_S3_ENDPOINT
from sluice.errors import (
    CommitStateUnknownError,
    LakeMovedError,
    SluiceError,
    TerminalError,
    TransientError,
)

T = TypeVar("T")
Errors = tuple[type[Exception], ...]

SECONDS: Final = 90.0
FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 5.0
_LOGGED_AT: Final = 5

OF_CATALOGS: Errors = (
    OperationalError, InterfaceError, ServiceUnavailableError, TooManyRequestsError, ServerError,
)  # fmt: skip
# After one of these from a commit, only the table shows whether that arrived. Those of requests are
# OSErrors.
OUTCOME_UNKNOWN: Errors = (CommitStateUnknownException, DBAPIError, OSError, *OF_CATALOGS)
# Errors of Sluice, and those of databases, catalogs, object stores and disks.
EXPECTED: Errors = (SluiceError, OSError, DBAPIError, RESTError, CommitFailedException)
# Databases, and pyarrow for S3, raise the same class for errors that waiting does not mend.
_PERMANENT: Final = (
    "authentication failed", "no password supplied", "pg_hba.conf", "does not exist",
    "permission denied", "unable to open database file", "readonly database",
    "file is not a database", "database disk image is malformed",
)  # fmt: skip
# PostgreSQL's codes of a read-only transaction, of a session that was ended in a transaction, and
# of an operator's intervention (appendix A of its manual).
_SWITCHED: Final = ("25006", "25P03", "57")
_UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_OF_S3: Final = "AWS Error"
_DENIED: Final = (
    "error access_denied", "error signature_does_not_match", "error invalid_access_key_id",
)  # fmt: skip
# The words of OpenSSL, in the errors of requests and of PostgreSQL.
_UNTRUSTED: Final = "certificate verify failed"

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
    return is_away(problem) or isinstance(problem, also) or _is_of_a_store(problem)


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


def is_away(problem: Exception) -> bool:
    """Whether a catalog's database or server raised it because it is away, or the connection
    broke."""
    if isinstance(problem, DBAPIError) and problem.connection_invalidated:
        return True  # psycopg2 has no class of its own for some of these
    return isinstance(problem, (*OF_CATALOGS, *_of_connections())) or is_switchover(problem)


def _of_connections() -> Errors:
    # An error of requests can only occur where it is imported; importing it here costs time.
    requests = sys.modules.get("requests")
    if requests is None:
        return ()
    cut_off: type[Exception] = requests.exceptions.ChunkedEncodingError
    return (requests.ConnectionError, requests.Timeout, cut_off)


def is_switchover(problem: BaseException | None) -> bool:
    """Whether PostgreSQL raised it because the server became a standby, which only reads, or ended
    the session."""
    cause = problem.orig if isinstance(problem, DBAPIError) else problem
    return (getattr(cause, "pgcode", None) or "").startswith(_SWITCHED)


def pause(turn: int, longest: float = LONGEST_PAUSE) -> float:
    """Return the seconds to wait after try `turn` (from 0): doubled each time, up to `longest`.

    Jitter keeps processes that failed together from coming back together.
    """
    whole: float = min(longest, FIRST_PAUSE * 2 ** min(turn, 10))
    return random.uniform(0.2, 1.0) * whole


def error_text(problem: Exception) -> str:
    """Return the message of the database or server, in one line and without the statement."""
    cause = problem.orig if isinstance(problem, DBAPIError) and problem.orig else problem
    return f"{type(cause).__name__}: {' '.join(str(cause).split())}"


def is_permanent(problem: Exception) -> bool:
    """Whether waiting does not help: access is denied, a certificate is not trusted, the requested
    object does not exist, or a commit was lost because a disk is full or read-only."""
    if isinstance(problem, CommitStateUnknownError) and isinstance(problem.__cause__, Exception):
        cause = problem.__cause__
        return is_permanent(cause) or getattr(cause, "errno", None) in _UNWRITABLE
    if isinstance(problem, (UnauthorizedError, ForbiddenError, OAuthError, PermissionError)):
        return True
    text = str(problem).lower()
    if isinstance(problem, (OSError, DBAPIError)) and _UNTRUSTED in text:
        return True
    if _is_of_a_store(problem):
        return any(words in text for words in _DENIED)
    return isinstance(problem, DBAPIError) and any(words in text for words in _PERMANENT)


def _is_of_a_store(problem: Exception) -> bool:
    """Whether it is pyarrow's error for a request to an object store: a plain OSError without the
    `errno` that a disk's error has."""
    return type(problem) is OSError and problem.errno is None


def is_of_content(problem: Exception) -> bool:
    """Whether it is pyarrow's error for what a file contains, such as a damaged page: of the class
    of those for requests to an object store, whose text always names S3's error."""
    return _is_of_a_store(problem) and _OF_S3 not in str(problem)


def as_sluice_error(problem: Exception) -> SluiceError:
    """Return one of Sluice's errors, which say whether to try again, for one of EXPECTED."""
    if isinstance(problem, SluiceError):
        return problem
    if is_permanent(problem):
        return TerminalError(
            f"{error_text(problem)}; check {_place(problem)}, and the rights to it"
        )
    return TransientError(f"{error_text(problem)}; try again, or look there")


def _place(problem: Exception) -> str:
    """Return which settings have the address that an error is about, and the keys to it."""
    if isinstance(problem, (DBAPIError, RESTError)):
        return f"lake.catalog.uri, or {ENV_CATALOG_URI}"
    if _is_of_a_store(problem):
        keys = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return f"{keys}, the address (lake.warehouse, {ENV_S3_ENDPOINT})"
    return "the address"
