"""The end of a driver: its result, or its error and exit code."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyiceberg.exceptions import CommitFailedException, RESTError, ServiceUnavailableError
from pyspark import SparkContext
from pyspark.errors import (
    AnalysisException,
    ParseException,
    PySparkAttributeError,
    PySparkException,
    PySparkNotImplementedError,
    PySparkTypeError,
    PySparkValueError,
    UnsupportedOperationException,
)
from sqlalchemy.exc import DBAPIError

from sluice.catalog.failures import EXPECTED, as_sluice_error
from sluice.errors import SluiceError, TerminalError, TransientError
from sluice.escaping import LINES
from sluice.typed_json import TypedJson
from spark_jobs.driver_messages import emit

_MISTAKES: Final = (
    AnalysisException, ParseException,
    PySparkAttributeError, PySparkNotImplementedError, PySparkTypeError, PySparkValueError,
    UnsupportedOperationException,
)  # fmt: skip
_OUTSIDE: Final = (
    OSError, Py4JError, PySparkException, DBAPIError, RESTError, ServiceUnavailableError,
    CommitFailedException,
)  # fmt: skip
_WITH_STATE: Final = "org.apache.spark.SparkThrowable"
# The first two characters of a SQLSTATE: feature not supported, cardinality, data, constraint,
# syntax and access rule, program limit.
_LASTING: Final = ("0A", "21", "22", "23", "42", "54")
_INVALID: Final = "org.apache.iceberg.exceptions.ValidationException"
# Iceberg's validation errors that a concurrent commit causes; all others are errors of the request.
_BESIDE_OTHERS: Final = re.compile(
    r"Found (new )?conflicting|Cannot commit|Missing required|.*snapshot"
)
_OF_A_TABLES_FILE: Final = re.compile(
    r"is not a Parquet file|ParquetDecodingException|InvalidAvroMagicException|ChecksumException"
    r"|Failed to (fetch|open)( input stream for| Parquet)? file"
    r"|NotFoundException: (File|Location) does not exist"
)
_OF_A_READER_OF_SPARK: Final = "FAILED_READ_FILE"
"""Spark's error class for a landed file, or one that the batch wrote; Iceberg has none."""
_IF_DAMAGED: Final = (
    "; a file of a table is damaged or gone, or was cut on its way: run again, and if this repeats "
    "see docs/operations.md, A damaged file of a table (if no file is named here, the log of the "
    "driver or the executor has it behind 'Error reading file(s)')"
)
_CALL: Final = re.compile(r"An error occurred while calling [\w.]+?\.?\n: ")
_FRAME: Final = re.compile(r"\s*(Suppressed: |at [\w$./<>]+\(|\.\.\. \d+ more)")

NOTHING: Final = "nothing is published"
_GONE: Final = "[PATH_NOT_FOUND]"
"""Spark's error class for a file that is missing when a query on it is planned."""


def exit_code(work: Callable[[], TypedJson]) -> int:
    """Do a driver's work and print its result as the last line, or its error on stderr.

    Returns the exit code: 0, 1 stop, 2 configuration, 75 try again.
    """
    try:
        result = work()
    except Exception as error:
        if not isinstance(error, SluiceError):
            traceback.print_exc()
        reason = typed(error)
        emit(f"{type(reason).__name__}: {reason}", LINES)
        return reason.exit_code
    print(result.to_json(), flush=True)
    return 0


def typed(error: Exception, unpublished: str = NOTHING) -> SluiceError:
    """Return the error as one of Sluice's; `unpublished`: what an error that will come again leaves
    unpublished.

    Errors of stores, catalogs and executors are transient: a later try may succeed. A missing file
    is transient too, since the next try reports it or makes it again; so is one of a table that
    Spark stumbled over, which its bytes on the way may explain. Mistakes are not, nor is access
    that is denied, a damaged file that pyiceberg reads, or what Spark cannot compute from the data,
    as its SQLSTATE shows.
    """
    if isinstance(error, SluiceError):
        return error
    if isinstance(error, MemoryError) or _is_terminal(error):
        return as_sluice_error(error)
    text = f"{type(error).__name__}: {_without_stack(error)}"
    if isinstance(error, AnalysisException) and _GONE in text:
        return TransientError(
            "a file that this attempt reads is gone. A copy that another run removed is made again "
            f"by the next try, which also tells of a landed file that is missing. {text}"
        )
    if isinstance(error, _OUTSIDE) and not isinstance(error, _MISTAKES):
        if _is_refused(error):
            return TerminalError(f"{text}. No other try mends this: {unpublished}")
        lasting = next((s for s in _sql_states(error) if s.startswith(_LASTING)), "")
        if lasting:
            return _lasting(text, lasting, unpublished)
        return TransientError(text + (_IF_DAMAGED if _is_of_a_table(text) else ""))
    return TerminalError(
        f"unexpected {text}. Trying again will not help: {unpublished}. "
        "Please report it with the traceback in the driver's log"
    )


def _is_of_a_table(text: str) -> bool:
    """Whether Iceberg could not read a file of a table, as far as the message tells."""
    return bool(_OF_A_TABLES_FILE.search(text)) and _OF_A_READER_OF_SPARK not in text


def _is_terminal(error: Exception) -> bool:
    return isinstance(error, EXPECTED) and isinstance(as_sluice_error(error), TerminalError)


def _without_stack(error: Exception) -> str:
    """Return the message of an error. One of the JVM comes with its causes, but without their stack
    traces, which are in the log."""
    message = str(error)
    if not isinstance(error, Py4JJavaError):
        return message
    lines = [line for line in _CALL.sub("", message).splitlines() if not _FRAME.match(line)]
    return " ".join(line.strip() for line in lines if line.strip())


def _is_refused(error: Exception) -> bool:
    """Whether Iceberg refuses the request itself."""
    return any(
        is_java(cause, _INVALID) and not _BESIDE_OTHERS.match(str(cause.getMessage()))
        for cause in causes(error)
    )


def _lasting(text: str, state: str, unpublished: str) -> TerminalError:
    return TerminalError(
        f"SQLSTATE {state}, which no other try mends: {unpublished}. If a hint in "
        "`columns:` or another option cannot mend it, please report it with the traceback in the "
        f"driver's log. {text}"
    )


def _sql_states(error: Exception) -> Iterator[str]:
    """Yield the SQLSTATEs of an error of Spark's and its causes: a job's error wraps its task's."""
    for cause in causes(error):
        if is_java(cause, _WITH_STATE) and (state := cause.getSqlState()):
            yield str(state)


def causes(error: BaseException) -> Iterator[Any]:
    """Yield the JVM's exception behind an error and its causes; nothing for other errors."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        while cause is not None:
            yield cause
            cause = cause.getCause()
    except Py4JError:  # the JVM is gone: that may pass
        return


def is_java(cause: Any, kind: str) -> bool:
    """Whether an object of the JVM is an instance of a class."""
    gateway = SparkContext._gateway
    return gateway is not None and bool(is_instance_of(gateway, cause, kind))
