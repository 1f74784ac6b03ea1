"""A process that was suspended until its lease lapsed only goes on if no other took the lease; one
that died has lost it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from sluice.errors import HalfwayError, LeaseHeldError
from sluice.ledger.details import UNDONE
from sluice.ledger.leases import ANY_PUBLISHER, Lease, this_holder
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FAILED, LANDED, LOADED, LOADING, MAINTENANCE, PUBLISHED, PUBLISHING
from tests.unit.clocks import FrozenClock

pytestmark = pytest.mark.catalog
A, B = Lease("elsewhere:1:1", 60), Lease("elsewhere:2:1", 60)


def load_and_publish(ledger: PipelineLedger) -> None:
    """Another batch begins and ends."""
    ledger.lease.acquire("b", "b1", B)
    ledger.batches.record("b", LOADED, attempt="b1", lease=B)
    publish_loaded(ledger)


def publish_loaded(ledger: PipelineLedger) -> None:
    """A batch that was loaded before is published."""
    ledger.lease.renew("b", "b1", B)
    ledger.batches.record("b", PUBLISHING)
    ledger.batches.record("b", PUBLISHED)


def maintain(ledger: PipelineLedger) -> None:
    """A rollback undoes a published batch, or maintenance is running."""
    ledger.lease.acquire_for_maintenance("m1", B)
    ledger.lease.release(MAINTENANCE, "m1")


@pytest.mark.parametrize("other", [load_and_publish, publish_loaded, maintain])
def test_a_load_whose_lease_another_had_meanwhile_stops(
    ledger: PipelineLedger, clock: FrozenClock, other: Callable[[PipelineLedger], None]
) -> None:
    """What counted as published when it took the lease may be wrong by now."""
    if other is publish_loaded:
        ledger.lease.acquire("b", "b1", B)
        ledger.batches.record("b", LOADED, attempt="b1", lease=Lease(ANY_PUBLISHER, 60))
        clock.forward(61)
    ledger.lease.acquire("a", "a1", A)
    clock.forward(61)
    other(ledger)
    with pytest.raises(LeaseHeldError, match="attempt a1 stops here"):
        ledger.lease.renew("a", "a1", A)
    row = ledger.batches.get("a")
    assert row is not None
    assert (row.state, row.attempt != "a1", ledger.lease.has_lapsed(row)) == (LOADING, True, True)
    maintain(ledger)
    assert ledger.batches.get("a") == row  # a run that takes it up looks whether it has changed


def test_a_load_whose_lease_nobody_took_goes_on(ledger: PipelineLedger, clock: FrozenClock) -> None:
    ledger.lease.acquire("a", "a1", A)
    clock.forward(61)
    ledger.lease.renew("a", "a1", A)
    assert ledger.batches.record("a", LOADED, attempt="a1", lease=A, expected=is_first)


def is_first(row: BatchRow | None) -> bool:
    return row is not None and row.attempt == "a1"


def test_a_batch_that_is_loaded_stays_its_attempts_own(
    ledger: PipelineLedger, clock: FrozenClock
) -> None:
    """What it stands on is compared when it is published: nothing is loaded twice for nothing."""
    ledger.lease.acquire("a", "a1", A)
    ledger.batches.record("a", LOADED, attempt="a1", lease=Lease(ANY_PUBLISHER, 60))
    clock.forward(61)
    load_and_publish(ledger)
    ledger.lease.renew("a", "a1", A)
    row = ledger.batches.get("a")
    assert row is not None
    assert (row.state, row.attempt, ledger.lease.has_lapsed(row)) == (LOADED, "a1", False)


def test_a_batch_that_is_loaded_waits_while_another_is(
    ledger: PipelineLedger, clock: FrozenClock
) -> None:
    """Published meanwhile, it would move the tables that the other one is merged into."""
    ledger.lease.acquire("a", "a1", A)
    ledger.batches.record("a", LOADED, attempt="a1", lease=Lease(ANY_PUBLISHER, 60))
    clock.forward(61)
    ledger.lease.acquire("b", "b1", B)
    with pytest.raises(LeaseHeldError, match="batch b is loading"):
        ledger.lease.renew("a", "a1", A)


@pytest.mark.parametrize("undone", [[], ["b"]])
def test_a_loaded_batch_takes_no_lease_beside_a_half_published_one(
    ledger: PipelineLedger, undone: list[str]
) -> None:
    """With it, it would stop whoever completes that one; unless it undoes that one itself."""
    ledger.batches.record("b", PUBLISHING)
    ledger.batches.record("a", LOADED, attempt="a1", replace_details={UNDONE: undone})
    with nullcontext() if undone else pytest.raises(HalfwayError, match="b is half published"):
        ledger.lease.renew("a", "a1", A)
    row = ledger.batches.get("a")
    assert row is not None
    assert row.holder == (A.holder if undone else "")


def test_an_attempt_that_comes_again_takes_the_batch_up(
    ledger: PipelineLedger, clock: FrozenClock
) -> None:
    ledger.lease.acquire("a", "a1", A)
    clock.forward(61)
    load_and_publish(ledger)
    ledger.lease.acquire("a", "a2", A)
    ledger.lease.renew("a", "a2", A)
    with pytest.raises(LeaseHeldError, match="attempt a2 has taken it over; attempt a1 stops here"):
        ledger.lease.renew("a", "a1", A)


def test_an_attempt_that_is_late_takes_no_batch_from_its_successor(ledger: PipelineLedger) -> None:
    """As a process that stood still between its look at the batch and this call."""
    ledger.batches.record("a", LANDED, attempt="a1", lease=A)
    ledger.batches.record("a", LANDED, attempt="a2", lease=A)
    with pytest.raises(LeaseHeldError, match="attempt a2 has taken it over; attempt a1 stops here"):
        ledger.lease.acquire("a", "a1", A, expected=is_first)
    row = ledger.batches.get("a")
    assert row is not None
    assert (row.state, row.attempt) == (LANDED, "a2")


def test_maintenance_whose_lease_another_had_meanwhile_stops(
    ledger: PipelineLedger, clock: FrozenClock
) -> None:
    ledger.lease.acquire_for_maintenance("m1", A)
    clock.forward(61)
    load_and_publish(ledger)
    with pytest.raises(LeaseHeldError):
        ledger.lease.renew(MAINTENANCE, "m1", A)


def test_a_state_of_rest_ends_the_lease(ledger: PipelineLedger) -> None:
    ledger.lease.acquire("b1", "a1", Lease("elsewhere:1:1", 600))
    ledger.batches.record("b1", FAILED)
    ledger.lease.acquire("b2", "a1", Lease("elsewhere:2:1", 600))
    with pytest.raises(LeaseHeldError, match="b2"):
        ledger.lease.acquire("b3", "a1", Lease("elsewhere:3:1", 600))


def test_a_zombie_can_neither_renew_nor_release(ledger: PipelineLedger, clock: FrozenClock) -> None:
    ledger.lease.acquire("b1", "old", Lease("elsewhere:1:1", 60))
    ledger.lease.acquire("b1", "new", Lease("elsewhere:2:1", 60))
    with pytest.raises(LeaseHeldError, match="attempt new has taken it over; attempt old stops"):
        ledger.lease.renew("b1", "old", Lease("elsewhere:1:1", 60))
    ledger.lease.release("b1", "old")
    with pytest.raises(LeaseHeldError):
        ledger.lease.acquire("b2", "a1", Lease("elsewhere:3:1", 60))
    clock.forward(61)
    ledger.lease.acquire("b2", "a1", Lease("elsewhere:3:1", 60))
    with pytest.raises(LeaseHeldError):
        ledger.lease.renew("b1", "new", Lease("elsewhere:2:1", 60))


@pytest.mark.parametrize("state", [LOADING, LOADED])
def test_a_dead_holder_has_lost_the_lease(ledger: PipelineLedger, state: str) -> None:
    host = this_holder().split(":")[0]
    ledger.lease.acquire("b1", "a1", Lease(f"{host}:{os.getpid()}:1", 600))
    ledger.batches.record("b1", state, attempt="a1")
    ledger.lease.acquire("b2", "a1", Lease(this_holder(), 600))
    with pytest.raises(LeaseHeldError, match="b2"):
        ledger.lease.acquire("b3", "a1", Lease("elsewhere:1:1", 600))
