"""What is retried while a catalog is away, for how long, and what is not."""

from __future__ import annotations

import errno
import sqlite3

import pytest
import requests
from pyiceberg.exceptions import ServiceUnavailableError
from sqlalchemy.exc import InterfaceError, ProgrammingError

from sluice.catalog import retries
from sluice.catalog.retries import CatalogAwayError, limited_retries
from sluice.errors import (
    CommitStateUnknownError,
    PublishRefusedError,
    TransientError,
)
from tests.unit.clocks import Clock
from tests.unit.outages import away, failing, internal, invalidated

pytestmark = pytest.mark.catalog


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(retries, "time", made)
    return made


@pytest.mark.parametrize(
    "error",
    [
        away(),
        InterfaceError("SELECT 1", {}, sqlite3.InterfaceError("connection already closed")),
        requests.ConnectionError("refused"),
        requests.Timeout("read timed out"),
        requests.exceptions.ChunkedEncodingError("Connection broken: IncompleteRead"),
        invalidated(),
        ServiceUnavailableError("503"),
        OSError("When reading key 'x' in bucket 'w': AWS Error SLOW_DOWN during HeadObject"),
        internal("25006"),
        internal("25P03"),
        internal("57P01"),
    ],
)
def test_transient_catalog_errors_are_retried(clock: Clock, error: Exception) -> None:
    assert retries.retry_while_away(failing(15, error)) == "answer"
    assert len(clock.slept) == 15
    assert max(clock.slept) <= retries.LONGEST_PAUSE


def test_retries_end_with_the_last_error(clock: Clock) -> None:
    with pytest.raises(
        CatalogAwayError, match=r"no answer in 90 s: OperationalError: refused; try"
    ):
        retries.retry_while_away(failing(10_000, away("refused")))
    assert 90 <= clock.now <= 96


def test_the_time_of_the_work_itself_is_no_time_without_an_answer(clock: Clock) -> None:
    """400 tables of 0.3 s each; the answers about two late ones are lost."""
    lost, done = {350, 390}, set[int]()

    def publish() -> str:
        for table in range(400):
            clock.now += 0.3
            if table in lost:
                lost.remove(table)
                raise away()
            done.add(table)
        return "answer"

    assert retries.retry_while_away(publish, progress=lambda: len(done)) == "answer"
    assert len(clock.slept) == 2


def test_an_action_that_gets_no_further_is_tried_for_as_long_as_any(clock: Clock) -> None:
    done = ["orders"]
    with pytest.raises(CatalogAwayError):
        retries.retry_while_away(failing(10_000, away()), progress=lambda: len(done))
    assert 90 <= clock.now <= 96


def test_an_error_that_was_waited_for_already_is_not_tried_again(clock: Clock) -> None:
    def read() -> None:
        raise CommitStateUnknownError("the ledger could not be read") from CatalogAwayError("gone")

    with pytest.raises(CommitStateUnknownError):
        retries.retry_while_away(read, also=(CommitStateUnknownError,))
    assert clock.slept == []


@pytest.mark.parametrize(
    "error",
    [
        away('FATAL: password authentication failed for user "u"'),
        away("unable to open database file"),
        ProgrammingError("SELECT 1", {}, sqlite3.ProgrammingError("permission denied")),
        ValueError("a mistake"),
        internal("XX001"),
        FileNotFoundError("gone"),
        PermissionError("access denied"),
        OSError("When reading key 'x' in bucket 'w': AWS Error ACCESS_DENIED during HeadObject"),
        OSError("When reading key 'x' in bucket 'w': AWS Error INVALID_ACCESS_KEY_ID during Head"),
        away("database disk image is malformed"),
        requests.exceptions.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"),
        away("SSL error: certificate verify failed"),
        OSError("Couldn't deserialize thrift: TProtocolException: Invalid data"),
        OSError(errno.ENOSPC, "No space left"),
        OSError(errno.EIO, "Input/output error"),
    ],
)
def test_lasting_catalog_errors_are_not_retried(clock: Clock, error: Exception) -> None:
    with pytest.raises(type(error)):
        retries.retry_while_away(failing(1, error))
    assert clock.slept == []


def test_lost_races_are_retried_a_few_times(clock: Clock) -> None:
    lost = PublishRefusedError("main has moved")
    again = limited_retries(3, (PublishRefusedError,), longest_pause=1.0)
    assert again(failing(2, lost)) == "answer"
    assert len(clock.slept) == 2
    with pytest.raises(PublishRefusedError) as raised:
        again(failing(3, lost))
    assert raised.value is lost
    assert all(0 < seconds <= 1.0 for seconds in clock.slept)


def test_any_other_error_is_not_tried_again(clock: Clock) -> None:
    with pytest.raises(TransientError, match="away"):
        limited_retries(3, (PublishRefusedError,))(failing(1, TransientError("away")))
    assert clock.slept == []
