"""Runs of one pipeline at the same time, and in which turn they load."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import LeaseHeldError
from sluice.ledger.appends import LedgerTables
from sluice.ledger.leases import Lease
from sluice.ledger.states import LANDED, LOADING, MAINTENANCE, PUBLISHED, PUBLISHING
from sluice.ledger.tables import BATCHES
from sluice.operations import holding, reprocess, stages, waiting
from sluice.operations.context import Context
from sluice.operations.holding import is_held, renew_waiting, renewing_landed
from sluice.operations.selection import Selection
from sluice.operations.waiting import is_blocked, wait_for_others, wait_for_turn
from tests.unit.clocks import Clock, fails_once
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

OTHER = Lease("elsewhere:1:1", 60)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    opened = open_shop(tmp_path)
    return replace(opened, pipeline=opened.pipeline.model_copy(update={"lease_seconds": 20}))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(waiting, "time", fake)
    return fake


def record_with_lease(context: Context, batch_id: str, lease: Lease, attempt: str = "") -> None:
    context.ledger.batches.record(batch_id, LANDED, attempt=attempt, lease=lease)


def publishes(context: Context, batch_id: str) -> Callable[[], object]:
    return lambda: context.ledger.batches.record(batch_id, PUBLISHED)


def test_a_run_that_waits_does_not_read_the_files_of_all_batches(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks every few seconds, and a claim that was not recorded is held by nobody."""
    read = list[str]()

    def noted(tables: LedgerTables, name: str, *more: Any) -> Any:
        read.append(name)
        return really(tables, name, *more)

    really = LedgerTables.read
    monkeypatch.setattr(LedgerTables, "read", noted)
    record_with_lease(context, "b1", context.lease)
    wait_for_others(context)
    wait_for_turn(context, "b1")
    assert not is_blocked(context)
    assert set(read) == {BATCHES}


def test_the_run_with_the_earliest_batch_has_its_turn_first(context: Context, clock: Clock) -> None:
    record_with_lease(context, "b2", context.lease)
    record_with_lease(context, "b3", OTHER)
    wait_for_turn(context, "b2")
    assert clock.slept == []
    record_with_lease(context, "b1", OTHER)
    clock.meanwhile(publishes(context, "b1"))
    wait_for_turn(context, "b2")
    assert clock.slept == [1]


@pytest.mark.parametrize(
    ("attempt", "waited"), [("a1", [1]), ("taken-up-1", []), ("given-up-1", [])]
)
def test_run_waits_for_a_later_batch_that_is_being_loaded(
    context: Context, clock: Clock, attempt: str, waited: list[float]
) -> None:
    record_with_lease(context, "b2", context.lease)
    record_with_lease(context, "b3", OTHER, attempt)
    clock.meanwhile(publishes(context, "b3"))
    wait_for_turn(context, "b2")
    assert clock.slept == waited


@pytest.mark.parametrize(
    ("wait", "waited"), [(wait_for_others, []), (partial(wait_for_turn, batch_id="b2"), [1])]
)
def test_a_load_waits_for_maintenance_or_a_rollback_and_landing_does_not(
    context: Context, clock: Clock, wait: Callable[[Context], None], waited: list[float]
) -> None:
    """Their lease is in no batch's row."""
    record_with_lease(context, "b2", context.lease)
    lease = context.ledger.lease
    lease.acquire_for_maintenance("m1", OTHER)
    clock.meanwhile(lambda: lease.release(MAINTENANCE, "m1"))
    wait(context)
    assert clock.slept == waited


def test_a_halfway_batch_blocks_a_run_unless_somebody_is_at_work(context: Context) -> None:
    """Another run's batch that only waits does not hide it."""
    assert not is_blocked(context)
    context.ledger.batches.record("b1", PUBLISHING, attempt="a1", lease=Lease("gone", 0))
    record_with_lease(context, "b2", OTHER)
    assert is_blocked(context)
    context.ledger.batches.record("b3", LOADING, attempt="a1", lease=OTHER)
    assert not is_blocked(context)


def test_two_waiting_runs_never_wait_for_each_other(
    context: Context, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one goes on with its later batch, and the other one waits for the earlier one."""
    for batch, lease in (("b1", context.lease), ("b2", OTHER), ("b3", context.lease)):
        record_with_lease(context, batch, lease)
    wait_for_turn(context, "b3")
    assert clock.slept == []
    monkeypatch.setattr(holding, "this_holder", lambda: OTHER.holder)
    clock.meanwhile(publishes(context, "b1"))
    wait_for_turn(context, "b2")
    assert clock.slept == [1]


def test_run_stops_waiting_for_a_load_without_progress(context: Context, clock: Clock) -> None:
    """As long as something changes, however long it takes, it is waited for."""
    forever = Lease("elsewhere:1:1", 100_000)
    for batch in ("b1", "b2"):
        context.ledger.batches.record(batch, LOADING, attempt="a1", lease=forever)
    clock.meanwhile(*[lambda: None] * 9, publishes(context, "b1"))
    with pytest.raises(
        LeaseHeldError, match="batch b2 is loading, held by process 1 on elsewhere; run again"
    ):
        wait_for_others(context)
    assert sum(clock.slept[10:]) == pytest.approx(context.pipeline.lease_seconds, abs=2)


def test_renew_waiting_extends_leases_of_this_process_alone(context: Context) -> None:
    record_with_lease(context, "b1", Lease(context.lease.holder, 5))
    record_with_lease(context, "b2", OTHER)
    context.ledger.batches.record("b3", LOADING, attempt="a1", lease=context.lease)
    before = {row.batch_id: row for row in context.ledger.batches.all()}
    renew_waiting(context)
    after = {row.batch_id: row for row in context.ledger.batches.all()}
    assert [b for b in before if before[b] != after[b]] == ["b1"]
    first, last = before["b1"].lease_until, after["b1"].lease_until
    assert first is not None
    assert last is not None
    assert (last - first).total_seconds() > 10


def test_all_that_waits_in_this_process_is_kept_by_one_commit(context: Context) -> None:
    """One by one, the commits for many batches would take longer than the lease lasts."""
    for batch in ("b1", "b2", "b3"):
        record_with_lease(context, batch, Lease(context.lease.holder, 5))
    before = [row.at for row in context.ledger.batches.all()]
    renew_waiting(context)
    after = context.ledger.batches.all()
    assert len({row.seq for row in after}) == 1
    assert min(row.at for row in after if row.at) > max(at for at in before if at)


def test_nothing_is_written_for_a_process_in_which_nothing_waits(context: Context) -> None:
    record_with_lease(context, "b2", OTHER)
    before = context.ledger.batches.all()
    renew_waiting(context)
    assert context.ledger.batches.all() == before


def test_nobody_is_looked_up_for_a_batch_that_no_process_has(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger of years has many of these, and who this process is takes time to find out."""
    context.ledger.batches.record("b1", PUBLISHED)
    record_with_lease(context, "b2", OTHER)
    asked = []
    monkeypatch.setattr(holding, "this_holder", lambda: asked.append(1) or "this")
    held = [row.batch_id for row in context.ledger.batches.all() if is_held(context, row)]
    assert (held, len(asked)) == (["b2"], 1)


def test_one_error_of_the_store_does_not_end_the_keeping(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = context.pipeline.model_copy(update={"lease_seconds": 0.03})
    renewed = threading.Event()
    again = fails_once(OSError("SLOW_DOWN"), renewed.set)
    monkeypatch.setattr(holding, "renew_waiting", again)
    with renewing_landed(replace(context, pipeline=short)):
        assert renewed.wait(10)


@pytest.mark.parametrize(
    ("module", "lands", "work"),
    [
        (stages, "land", stages.run),
        (stages, "land_tables", partial(stages.run, selection=Selection(tables=("s.orders",)))),
        (reprocess, "land_quarantined", reprocess.reprocess),
    ],
)
def test_batches_taken_up_are_renewed_while_the_run_lands_files(
    context: Context, monkeypatch: pytest.MonkeyPatch, module: Any, lands: str, work: Any
) -> None:
    """To look into large files takes longer than a lease lasts."""
    short = context.pipeline.model_copy(update={"lease_seconds": 0.03})
    renewed, kept = threading.Event(), []

    def land(*_: object) -> list[str]:
        kept.append(renewed.wait(5))
        return []

    monkeypatch.setattr(holding, "renew_waiting", lambda _: renewed.set())
    monkeypatch.setattr(module, lands, land)
    assert work(replace(context, pipeline=short)) == ([], None)
    assert kept == [True]
