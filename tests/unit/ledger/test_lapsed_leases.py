"""A process that stood still until its lease lapsed: it goes on only where nobody else took it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sluice.errors import LeaseHeldError
from sluice.ledger.leases import ANYBODY, Lease
from sluice.ledger.ledger import Ledger
from sluice.ledger.rows import (
    FAILED,
    LANDED,
    LOADED,
    LOADING,
    MAINTENANCE,
    PUBLISHED,
    PUBLISHING,
    BatchRow,
)
from tests.unit.clocks import StandingClock

pytestmark = pytest.mark.catalog
A, B = Lease("elsewhere:1:1", 60), Lease("elsewhere:2:1", 60)


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def ledger(tmp_path: Path, clock: StandingClock) -> Ledger:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    return Ledger(SqlCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}/w"), clock)


def load_and_publish(ledger: Ledger) -> None:
    """Another batch begins and ends."""
    ledger.acquire_lease("p", "b", "b1", B)
    ledger.record_batch("p", "b", LOADED, attempt="b1", lease=B)
    publish_loaded(ledger)


def publish_loaded(ledger: Ledger) -> None:
    """A batch that was loaded before is published."""
    ledger.renew_lease("p", "b", "b1", B)
    ledger.record_batch("p", "b", PUBLISHING)
    ledger.record_batch("p", "b", PUBLISHED)


def maintain(ledger: Ledger) -> None:
    """A rollback takes a published batch out, or maintenance is at work."""
    ledger.lease_maintenance("p", "m1", B)
    ledger.release_lease("p", MAINTENANCE, "m1")


@pytest.mark.parametrize("other", [load_and_publish, publish_loaded, maintain])
def test_a_load_whose_lease_another_had_meanwhile_stops(
    ledger: Ledger, clock: StandingClock, other: Callable[[Ledger], None]
) -> None:
    """What counted as published when it took the lease may be wrong by now."""
    if other is publish_loaded:
        ledger.acquire_lease("p", "b", "b1", B)
        ledger.record_batch("p", "b", LOADED, attempt="b1", lease=Lease(ANYBODY, 60))
        clock.forward(61)
    ledger.acquire_lease("p", "a", "a1", A)
    clock.forward(61)
    other(ledger)
    with pytest.raises(LeaseHeldError, match="attempt a1 stops here"):
        ledger.renew_lease("p", "a", "a1", A)
    row = ledger.batch("p", "a")
    assert row is not None
    assert (row.state, row.attempt != "a1", ledger.has_lapsed(row)) == (LOADING, True, True)


def test_a_load_whose_lease_nobody_took_goes_on(ledger: Ledger, clock: StandingClock) -> None:
    ledger.acquire_lease("p", "a", "a1", A)
    clock.forward(61)
    ledger.renew_lease("p", "a", "a1", A)
    assert ledger.record_batch("p", "a", LOADED, attempt="a1", lease=A, expected=is_first)


def is_first(row: BatchRow | None) -> bool:
    return row is not None and row.attempt == "a1"


def test_a_batch_that_is_loaded_stays_its_attempts_own(
    ledger: Ledger, clock: StandingClock
) -> None:
    """What it stands on is compared when it is published: nothing is loaded twice for nothing."""
    ledger.acquire_lease("p", "a", "a1", A)
    ledger.record_batch("p", "a", LOADED, attempt="a1", lease=Lease(ANYBODY, 60))
    clock.forward(61)
    load_and_publish(ledger)
    ledger.renew_lease("p", "a", "a1", A)


def test_an_attempt_that_comes_again_takes_the_batch_up(
    ledger: Ledger, clock: StandingClock
) -> None:
    ledger.acquire_lease("p", "a", "a1", A)
    clock.forward(61)
    load_and_publish(ledger)
    ledger.acquire_lease("p", "a", "a2", A)
    ledger.renew_lease("p", "a", "a2", A)
    with pytest.raises(LeaseHeldError, match="attempt a2 has taken it over; attempt a1 stops here"):
        ledger.renew_lease("p", "a", "a1", A)


def test_an_attempt_that_is_late_takes_no_batch_from_its_successor(ledger: Ledger) -> None:
    """As a process that stood still between its look at the batch and this call."""
    ledger.record_batch("p", "a", LANDED, attempt="a1", lease=A)
    ledger.record_batch("p", "a", LANDED, attempt="a2", lease=A)
    with pytest.raises(LeaseHeldError, match="attempt a2 has taken it over; attempt a1 stops here"):
        ledger.acquire_lease("p", "a", "a1", A, expected=is_first)
    row = ledger.batch("p", "a")
    assert row is not None
    assert (row.state, row.attempt) == (LANDED, "a2")


def test_maintenance_whose_lease_another_had_meanwhile_stops(
    ledger: Ledger, clock: StandingClock
) -> None:
    ledger.lease_maintenance("p", "m1", A)
    clock.forward(61)
    load_and_publish(ledger)
    with pytest.raises(LeaseHeldError):
        ledger.renew_lease("p", MAINTENANCE, "m1", A)


def test_a_state_of_rest_ends_the_lease(ledger: Ledger) -> None:
    ledger.acquire_lease("p", "b1", "a1", Lease("elsewhere:1:1", 600))
    ledger.record_batch("p", "b1", FAILED)
    ledger.acquire_lease("p", "b2", "a1", Lease("elsewhere:2:1", 600))
    with pytest.raises(LeaseHeldError, match="b2"):
        ledger.acquire_lease("p", "b3", "a1", Lease("elsewhere:3:1", 600))
