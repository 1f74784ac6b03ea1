"""How a driver ends: its result, or what an error means for whoever started it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Protocol

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


class Result(Protocol):
    """What a driver found or did."""

    def to_json(self) -> str:
        """One line for whoever started the driver."""


def exit_code(work: Callable[[], Result]) -> int:
    """Do a driver's work and print its result as the last line; an error is told on stderr.

    Returns 0, or the code that says what to do next: 1 stop, 75 try again.
    """
    try:
        result = work()
    except Exception as error:
        if not isinstance(error, SluiceError):
            traceback.print_exc()
        told = typed(error)
        print(f"{type(told).__name__}: {told}", file=sys.stderr, flush=True)
        return told.exit_code
    print(result.to_json(), flush=True)
    return 0


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
