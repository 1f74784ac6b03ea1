"""Which errors of a driver are worth another try."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyspark.errors import AnalysisException, PySparkException, PySparkTypeError

from sluice.errors import PlanError, TerminalError, TransientError
from spark_jobs.failures import typed


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("coupon"), TerminalError),
        (AssertionError("no"), TerminalError),
        (AnalysisException("no such column"), TerminalError),
        (AnalysisException("[PATH_NOT_FOUND] Path does not exist: file:/copy"), TransientError),
        (PySparkTypeError("not a column"), TerminalError),
        (PySparkException("job aborted"), TransientError),
        (ConnectionResetError("reset"), TransientError),
        (CommitFailedException("moved"), TransientError),
        (PlanError("no key"), PlanError),
    ],
)
def test_an_error_says_whether_to_try_again(error: Exception, kind: type[Exception]) -> None:
    assert type(typed(error)) is kind
    assert str(error) in str(typed(error))
