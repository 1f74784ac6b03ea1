"""A driver beside others: another attempt has its batch, or another batch is being decoded."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.errors import LeaseHeldError
from sluice.ledger.leases import Lease
from sluice.ledger.states import LANDED, LOADED, LOADING, PUBLISHED
from sluice.manifest import Manifest
from sluice.operations.context import Context
from sluice.operations.holding import taken_up
from tests.unit.fake_driver import driver_of
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return open_shop(tmp_path)


@pytest.mark.parametrize("state", [LANDED, PUBLISHED])
def test_a_driver_whose_batch_is_another_s_does_not_take_the_lease(
    context: Context, state: str
) -> None:
    driver = driver_of(context, Manifest("shop", "b1", ()))
    context.ledger.batches.record("b1", state, attempt="later")
    with pytest.raises(LeaseHeldError, match="was taken over or undone"):
        driver._take_lease()
    row = context.ledger.batches.get("b1")
    assert row is not None
    assert (row.attempt, row.state) == ("later", state)


def test_a_driver_that_stood_still_as_it_took_the_lease_leaves_the_batch_to_its_successor(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = driver_of(context, Manifest("shop", "b1", ()))
    context.ledger.batches.record("b1", LANDED, attempt=driver.lease.attempt)
    looked = driver.lease.require_current

    def look_and_stand_still() -> None:
        looked()
        context.ledger.batches.record("b1", LANDED, attempt="later")

    monkeypatch.setattr(driver.lease, "require_current", look_and_stand_still)
    monkeypatch.setattr("spark_jobs.attempt_lease._LEASE_WAIT_SECONDS", 0.0)
    with pytest.raises(LeaseHeldError, match="attempt later has taken it over"):
        driver._take_lease()
    row = context.ledger.batches.get("b1")
    assert row is not None
    assert (row.attempt, row.state) == ("later", LANDED)


def test_a_driver_that_waits_says_so_once(
    context: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = driver_of(context, Manifest("shop", "b1", ()))
    context.ledger.lease.acquire("b2", "a2", Lease("elsewhere:1:1", 600))
    monkeypatch.setattr("spark_jobs.attempt_lease._POLL_SECONDS", 0.01)
    monkeypatch.setattr("spark_jobs.attempt_lease._LEASE_WAIT_SECONDS", 1.0)
    with pytest.raises(LeaseHeldError, match="b2"):
        driver._take_lease()
    assert capsys.readouterr().err.count("waiting: ") == 1


@pytest.mark.parametrize(
    ("batch", "state", "attempt", "alive", "beside"),
    [
        ("b1", LANDED, "mine", True, False),
        ("b1", LOADING, "later", True, True),
        ("b2", LANDED, "its own", True, True),
        ("b2", LANDED, "its own", False, False),
        ("b2", LANDED, "", True, False),  # it waits for its turn
        pytest.param("b2", LANDED, taken_up(), True, False, id="taken up"),
        ("b2", LOADED, "its own", True, False),
    ],
)
def test_a_driver_is_beside_others_only_while_these_may_decode(
    context: Context, batch: str, state: str, attempt: str, alive: bool, beside: bool
) -> None:
    driver = driver_of(context, Manifest("shop", "b1", ()))
    driver.lease.attempt = "mine"
    lease = Lease("elsewhere:1", 60 if alive else -1)
    context.ledger.batches.record(batch, state, attempt=attempt, lease=lease)
    assert driver._is_beside_others() == beside
