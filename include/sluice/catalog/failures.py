"""What an error of a catalog, a database, a store or a disk means: whether it may pass, whether
waiting for it helps, and what an operator looks at."""

from __future__ import annotations

import errno
import sys
from gzip import BadGzipFile
from typing import Final

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

from sluice.environment import ENV_CATALOG_URI, ENV_S3_ENDPOINT
from sluice.errors import CommitStateUnknownError, SluiceError, TerminalError, TransientError

Errors = tuple[type[Exception], ...]

OF_CATALOGS: Errors = (
    OperationalError, InterfaceError, ServiceUnavailableError, TooManyRequestsError, ServerError,
)  # fmt: skip
# After one of these from a commit, only the table shows whether that arrived. Those of requests are
# OSErrors.
OUTCOME_UNKNOWN: Errors = (CommitStateUnknownException, DBAPIError, OSError, *OF_CATALOGS)
# Errors of Sluice, those of databases, catalogs, object stores and disks, and that of the machine.
EXPECTED: Errors = (
    SluiceError, OSError, DBAPIError, RESTError, CommitFailedException, MemoryError,
)  # fmt: skip
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
_OTHER_BYTES: Final = "Response checksums mismatch"
# What S3 answers until an operator does something. Not a token that has expired (of a HEAD only
# status 400): the next process may be given another one.
_REFUSALS: Final = (
    "error access_denied", "error signature_does_not_match", "error invalid_access_key_id",
    "error request_time_too_skewed", "error no_such_bucket", "exceptionname: invalidtoken",
    "(http status 301)",
)  # fmt: skip
# The words of OpenSSL, in the errors of requests and of PostgreSQL.
_UNTRUSTED: Final = "certificate verify failed"


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


def error_text(problem: Exception) -> str:
    """Return the message of the database or server, in one line and without the statement."""
    cause = problem.orig if isinstance(problem, DBAPIError) and problem.orig else problem
    return ": ".join(filter(None, (type(cause).__name__, " ".join(str(cause).split()))))


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
    if is_of_a_store(problem):
        return any(words in text for words in _REFUSALS)
    return isinstance(problem, DBAPIError) and any(words in text for words in _PERMANENT)


def is_of_a_store(problem: Exception) -> bool:
    """Whether it is pyarrow's error for a request to an object store."""
    return _is_of_pyarrow(problem) and _OF_S3 in str(problem)


def is_of_content(problem: Exception) -> bool:
    """Whether what a file contains made the reading of a table fail.

    For a damaged file the readers of pyarrow and pyiceberg raise whatever they stumble over. Of a
    store that keeps checksums it is also an answer with other bytes than those that it took.
    """
    if is_of_a_store(problem):
        return _OTHER_BYTES in str(problem)
    if type(problem) is RuntimeError:  # of the interpreter, as where no thread can be started
        return False
    return _is_of_bytes(problem) or not isinstance(problem, EXPECTED)


def _is_of_bytes(problem: Exception) -> bool:
    """Whether it is an OSError about what a file contains, such as a damaged page."""
    is_plain = _is_of_pyarrow(problem) and _OF_S3 not in str(problem)
    return is_plain or isinstance(problem, BadGzipFile)


def _is_of_pyarrow(problem: Exception) -> bool:
    """Whether it is a plain OSError without the `errno` that a disk's error has: pyarrow has no
    other class for requests to a store, nor for damaged files."""
    return type(problem) is OSError and problem.errno is None


def as_sluice_error(problem: Exception) -> SluiceError:
    """Return one of Sluice's errors, which say whether to try again, for one of EXPECTED."""
    if isinstance(problem, SluiceError):
        return problem
    if isinstance(problem, MemoryError):
        return TransientError(f"{error_text(problem)}; give this process more memory and try again")
    if _is_of_bytes(problem):
        return TerminalError(f"{error_text(problem)}; a file is damaged: put it back from a backup")
    if is_permanent(problem):
        return TerminalError(
            f"{error_text(problem)}; check {_place(problem)}, and the rights to it"
        )
    return TransientError(f"{error_text(problem)}; try again, or look there")


def _place(problem: Exception) -> str:
    """Return which settings have the address that an error is about, and the keys to it."""
    if isinstance(problem, (DBAPIError, RESTError)):
        return f"lake.catalog.uri, or {ENV_CATALOG_URI}"
    if is_of_a_store(problem):
        keys = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return f"{keys}, the address (lake.warehouse, {ENV_S3_ENDPOINT})"
    return "the address"
