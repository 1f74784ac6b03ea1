"""rollback of a batch that is rolled back already, whose files a run may take, or is taking."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.faults import Point
from sluice.ledger.details import KEEP_FILES_HELD
from sluice.ledger.leases import Lease
from sluice.ledger.states import LANDED, PUBLISHED, ROLLED_BACK
from sluice.operations import undo, waiting
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.reconcile import reconcile
from sluice.operations.rollback import RollbackRequest, roll_back
from sluice.operations.undo import finish_undone, give_up, undo_batch
from tests.all_readable import land
from tests.unit import fake_loads
from tests.unit.clocks import Clock
from tests.unit.projects import open_shop
from tests.unit.undo_lake import at_point, state

pytestmark = pytest.mark.catalog


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return open_shop(tmp_path, fake_loads.PIPELINE)


@pytest.fixture
def released(context: Context) -> str:
    """A batch that was rolled back, and its file released."""
    fake_loads.write(context, "orders/first.csv")
    batch = fake_loads.load(context)
    undo_batch(context, batch)
    release(context, batch)
    return batch


def held(context: Context) -> list[str]:
    return [row.object_key for row in context.ledger.files.held()]


def test_released_files_are_held_again(context: Context, released: str) -> None:
    already = f"batch {released} is rolled back already"
    dry = roll_back(context, RollbackRequest(released, dry_run=True))
    assert dry == [already, "would hold: 1 file"]
    assert held(context) == []
    until = f"1 file of batch {released} is held until: sluice release shop --batch {released}"
    for _ in range(2):
        assert roll_back(context, RollbackRequest(released)) == [already, until]
        assert held(context) == ["orders/first.csv"]
    assert land(context) == []


def test_files_that_a_run_has_claimed_and_not_recorded_are_held_again(
    context: Context, released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the batch taken from it, and does not load what is held."""

    def roll_back_again() -> None:
        undo_batch(context, released)

    monkeypatch.setattr(
        "sluice.operations.claim.reach", at_point(Point.LAND_CLAIMED, roll_back_again)
    )
    assert land(context) == []
    assert (held(context), state(context, released)) == (["orders/first.csv"], ROLLED_BACK)
    assert reconcile(context) == []


def test_files_that_a_run_claims_meanwhile_are_held_again(
    context: Context, released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the rollback has looked for them, and before it has taken the batch."""
    stop, taken = undo._stop, list[str]()

    def stop_after_the_claim(*given: Any) -> str:
        reach = at_point(Point.LAND_CLAIMED, lambda: taken.append(stop(*given)))
        monkeypatch.setattr("sluice.operations.claim.reach", reach)
        assert land(context) == []
        return taken[0]

    monkeypatch.setattr(undo, "_stop", stop_after_the_claim)
    undo_batch(context, released)
    assert (held(context), state(context, released)) == (["orders/first.csv"], ROLLED_BACK)


@pytest.mark.parametrize("end", [undo_batch, partial(finish_undone, order=KEEP_FILES_HELD)])
def test_batch_landed_anew_counts_as_waiting_and_not_as_being_loaded(
    context: Context, end: Callable[[Context, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the attempt that it had before: the run with an earlier batch, and its own, would wait for
    each other."""
    fake_loads.write(context, "orders/first.csv")
    batch = fake_loads.load(context)
    context.ledger.batches.record(batch, PUBLISHED, attempt="a1")
    end(context, batch)
    release(context, batch)
    land(context, lease=Lease("elsewhere:1:1", 60))
    context.ledger.batches.record("20200101T00-b0", LANDED, lease=context.lease)
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    clock.meanwhile(lambda: context.ledger.batches.record(batch, PUBLISHED))
    waiting.wait_for_turn(context, "20200101T00-b0")
    assert clock.slept == []


def test_giving_up_a_rolled_back_batch_holds_no_files(context: Context, released: str) -> None:
    """As a run that failed does, of which the batch was undone and released meanwhile."""
    assert give_up(context, released) == [f"batch {released} is rolled back already"]
    assert held(context) == []
