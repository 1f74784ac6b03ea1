"""What an error of the driver means for whoever started it: try again, or stop."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyiceberg.exceptions import CommitFailedException, RESTError, ServiceUnavailableError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from sqlalchemy.exc import DBAPIError

from sluice.errors import SluiceError, TerminalError, TransientError

_MISTAKES = (AnalysisException, ParseException)
_OUTSIDE = (
    OSError, Py4JError, PySparkException, DBAPIError, RESTError, ServiceUnavailableError,
    CommitFailedException,
)  # fmt: skip


def typed(error: Exception) -> SluiceError:
    """The error as one of ours: what stores, catalogs and executors do may pass, a mistake not."""
    if isinstance(error, SluiceError):
        return error
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, _OUTSIDE) and not isinstance(error, _MISTAKES):
        return TransientError(text)
    return TerminalError(
        f"unexpected {text}. Trying again will not help: nothing was published. "
        "Please report it with the traceback in the driver's log"
    )
