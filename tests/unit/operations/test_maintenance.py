"""What of maintenance needs no Spark: its lease, the ledger's compaction, its configuration."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyiceberg.catalog.sql import SqlCatalog

from sluice.config.maintenance import Maintenance
from sluice.errors import LeaseHeldError
from sluice.ledger import appends
from sluice.ledger import maintenance_lease as taking
from sluice.ledger.appends import LedgerTables
from sluice.ledger.arrow_rows import newest
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.ledger import Ledger, PipelineLedger
from sluice.ledger.maintenance_lease import PAUSE_SECONDS, STRETCH_SECONDS, MaintenanceLease
from sluice.ledger.states import FILE_LOADED, LANDED, LOADED, LOADING, PUBLISHED, PUBLISHING
from sluice.ledger.tables import BATCHES, FILES, PUBLICATIONS
from sluice.manifest import SourceFile
from sluice.names import LEDGER_NAMESPACE
from sluice.operations import maintenance
from sluice.operations.context import open_context
from sluice.operations.maintenance import MaintenanceResult, Step
from tests.unit.clocks import Clock, fails_once
from tests.unit.projects import LAKE, SHOP, write_project

pytestmark = pytest.mark.catalog


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w"
    )


@pytest.fixture
def ledger(catalog: SqlCatalog) -> PipelineLedger:
    return Ledger(catalog).of("p")


def held(ledger: PipelineLedger, attempt: str) -> None:
    ledger.lease.acquire("b", attempt, Lease(this_holder(), 60))


def test_maintenance_and_a_load_never_hold_the_lease_together(ledger: PipelineLedger) -> None:
    held(ledger, "a1")
    with pytest.raises(LeaseHeldError, match="batch b"):
        MaintenanceLease(ledger, 60, budget=0).__enter__()
    ledger.lease.release("b", "a1")
    with MaintenanceLease(ledger, 60, 60) as lease:
        assert lease.may_continue()
        with pytest.raises(LeaseHeldError, match="maintenance"):
            held(ledger, "a2")
        with pytest.raises(LeaseHeldError, match="maintenance"):
            MaintenanceLease(ledger, 60, budget=0).__enter__()
    held(ledger, "a3")


def test_the_row_of_the_lease_is_no_batch(ledger: PipelineLedger) -> None:
    with MaintenanceLease(ledger, 60, 60):
        assert ledger.batches.all() == []
        assert ledger.unfinished() == []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(taking, "time", clock)
    return clock


def nothing() -> None: ...


def test_maintenance_waits_for_the_load_that_it_finds(
    ledger: PipelineLedger, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    held(ledger, "a1")
    clock.meanwhile(nothing, lambda: ledger.lease.release("b", "a1"))
    with MaintenanceLease(ledger, 60, 60) as lease:
        assert lease.may_continue()
        assert clock.slept == [PAUSE_SECONDS] * 2
    (message,) = caplog.messages
    assert message.startswith("waiting: pipeline p: batch b is loading")


def test_maintenance_waits_no_longer_than_it_may_work(ledger: PipelineLedger, clock: Clock) -> None:
    held(ledger, "a1")
    with pytest.raises(LeaseHeldError, match="batch b"):
        MaintenanceLease(ledger, 60, budget=60).__enter__()
    assert clock.now == pytest.approx(60, abs=PAUSE_SECONDS)


def test_a_load_that_waits_gets_the_lease_between_two_pieces_of_work_and_is_waited_for(
    ledger: PipelineLedger, clock: Clock
) -> None:
    clock.meanwhile(lambda: held(ledger, "a1"), nothing)
    clock.meanwhile(lambda: ledger.lease.release("b", "a1"))
    with MaintenanceLease(ledger, 60, 60) as lease:
        clock.now += STRETCH_SECONDS + 1
        assert lease.may_continue()
        assert len(clock.slept) == 3
        with pytest.raises(LeaseHeldError, match="maintenance"):
            held(ledger, "a2")


def test_a_load_that_lasts_longer_than_there_is_time_ends_the_work_and_is_no_error(
    ledger: PipelineLedger, clock: Clock
) -> None:
    clock.meanwhile(lambda: held(ledger, "a1"))
    with MaintenanceLease(ledger, 60, budget=60) as lease:
        clock.now += STRETCH_SECONDS + 1
        assert not lease.may_continue()
        assert clock.now == pytest.approx(60, abs=PAUSE_SECONDS)
    ledger.lease.renew("b", "a1", Lease(this_holder(), 60))


def test_a_pause_leaves_the_lease_to_loads_until_the_next_step(
    ledger: PipelineLedger, clock: Clock
) -> None:
    with MaintenanceLease(ledger, 60, 60) as lease:
        lease.pause()
        held(ledger, "a1")
        clock.meanwhile(lambda: ledger.lease.release("b", "a1"))
        clock.now += 50
        assert lease.may_continue()
        assert len(clock.slept) == 1
        with pytest.raises(LeaseHeldError, match="maintenance"):
            held(ledger, "a2")


def test_a_lost_lease_stops_the_work(
    ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MaintenanceLease(ledger, 60, 60) as lease:
        lease._lost.set()
        with pytest.raises(LeaseHeldError, match="run it again"):
            lease.may_continue()


def test_a_lease_that_went_to_another_is_lost(
    ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger.lease, "renew", fails_once(LeaseHeldError("another has it"), list))
    with MaintenanceLease(ledger, 0.3, 60) as lease:
        assert lease._lost.wait(10)
        with pytest.raises(LeaseHeldError, match="run it again"):
            lease.may_continue()


def test_a_lease_that_is_renewed_at_the_second_try_is_kept(
    ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = threading.Event()
    fails = fails_once(OSError("SLOW_DOWN"), renewed.set)
    monkeypatch.setattr(ledger.lease, "renew", fails)
    with MaintenanceLease(ledger, 3, 60) as lease:
        assert renewed.wait(10)
        assert lease.may_continue()


def test_a_lease_that_was_not_renewed_until_its_end_is_lost(
    ledger: PipelineLedger, clock: Clock
) -> None:
    with MaintenanceLease(ledger, 60, 600) as lease:
        clock.now += 60
        with pytest.raises(LeaseHeldError, match="run it again"):
            lease.may_continue()


def test_maintenance_goes_on_for_longer_than_a_lease_that_is_renewed(
    ledger: PipelineLedger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = threading.Event()
    monkeypatch.setattr(ledger.lease, "renew", lambda *_: renewed.set())
    with MaintenanceLease(ledger, 0.3, 60) as lease:
        clock.now += 0.2
        for _ in range(3):  # one may have begun before, one may not have ended yet
            renewed.clear()
            assert renewed.wait(10)
        clock.now += 0.2
        assert lease.may_continue()


def test_no_new_work_begins_when_time_is_up(ledger: PipelineLedger) -> None:
    with MaintenanceLease(ledger, 60, budget=0) as lease:
        assert not lease.may_continue()


def test_a_half_published_batch_is_finished_first(ledger: PipelineLedger, clock: Clock) -> None:
    ledger.batches.record("b", PUBLISHING)
    with pytest.raises(LeaseHeldError, match="sluice reconcile p"):
        MaintenanceLease(ledger, 60, 60).__enter__()
    assert clock.slept == []


def test_the_ledger_keeps_one_row_a_state_in_one_file(
    catalog: SqlCatalog, ledger: PipelineLedger
) -> None:
    for _ in range(4):
        held(ledger, "a1")
    ledger.batches.record("b", LOADED)
    before = ledger.batches.get("b")
    assert LedgerTables(catalog).compact(BATCHES, dry_run=True).after == 2
    done = LedgerTables(catalog).compact(BATCHES, dry_run=False)
    assert (done.before, done.after) == (5, 2)
    scan = catalog.load_table((LEDGER_NAMESPACE, BATCHES)).scan()
    assert sorted(row["state"] for row in scan.to_arrow().to_pylist()) == [LOADED, LOADING]
    assert len(list(scan.plan_files())) == 1
    assert ledger.batches.get("b") == before


def test_renewals_of_waiting_batches_do_not_pile_up(
    catalog: SqlCatalog, ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a row, for each batch of a run that loads one of many after the other."""
    monkeypatch.setattr(appends, "COMPACT_AT", 4)
    lease = Lease(this_holder(), 60)
    for batch in ("b1", "b2", "b3"):
        ledger.batches.record(batch, LANDED, lease=lease)
    ledger.batches.record("b1", LOADED)
    for _ in range(8):
        ledger.batches.renew_landed(lease, lambda row: row.state == LANDED)
    rows = catalog.load_table((LEDGER_NAMESPACE, BATCHES)).scan().to_arrow().to_pylist()
    assert len(rows) <= 4 + 2 * 4
    assert {row["state"] for row in rows if row["batch_id"] == "b1"} == {LANDED, LOADED}
    newest = {row.batch_id: row.seq for row in ledger.batches.all()}
    assert newest["b2"] == newest["b3"] == max(row["seq"] for row in rows)


def load_changed(ledger: PipelineLedger, batch: str) -> None:
    """The batch loads the object `a`, whose content is new."""
    known = frozenset(ledger.files.known().values())
    file = SourceFile("a", "file:///a", 1, etag=batch, sha256=batch)
    ledger.files.claim(ClaimRequest((file,), lambda _: batch, replaced=known))
    ledger.files.mark(batch, FILE_LOADED)
    ledger.batches.record(batch, PUBLISHED)


def test_compaction_keeps_what_a_file_was_before_it_changed(
    catalog: SqlCatalog, ledger: PipelineLedger
) -> None:
    load_changed(ledger, "b1")
    load_changed(ledger, "b2")
    before = ledger.files.replaced()
    LedgerTables(catalog).compact(FILES, dry_run=False)
    assert [row.batch_id for row in before] == ["b1"]
    assert ledger.files.replaced() == before


def test_a_compaction_that_another_writer_overtakes_counts_no_rows_as_gone(
    catalog: SqlCatalog, ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease("host/1", 60)
    ledger.batches.record("b1", LANDED, lease=lease)
    ledger.batches.renew_landed(lease, lambda row: row.state == LANDED)

    def overtaken(*given: Any) -> Any:
        ledger.batches.record("b2", LANDED)
        return newest(*given)

    monkeypatch.setattr(appends, "newest", overtaken)
    compacted = LedgerTables(catalog).compact(BATCHES, dry_run=False)
    assert compacted.before == compacted.after > 1
    assert {row.batch_id for row in ledger.batches.all()} == {"b1", "b2"}


def test_an_empty_ledger_needs_no_compaction(catalog: SqlCatalog) -> None:
    assert LedgerTables(catalog).compact(PUBLICATIONS, dry_run=True).before == 0
    assert not catalog.namespace_exists(LEDGER_NAMESPACE)
    Ledger(catalog).ensure()
    assert LedgerTables(catalog).compact(PUBLICATIONS, dry_run=False).before == 0


def test_the_changelog_outlives_the_tombstones() -> None:
    with pytest.raises(ValidationError, match=r"tombstone_days \(30\)"):
        Maintenance(changelog_days=29)


def test_a_result_survives_its_json() -> None:
    result = MaintenanceResult("p", False, (Step("a.b", "tags", "1 tag"),), ("a.c",), 1.5)
    assert MaintenanceResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("seconds", "asked", "budget"),
    [(21_600, 60, "60"), (21_600, 600, "288.0"), (1_200, 60, "16.0"), (60, 0.5, "0.5")],
)
def test_maintenance_begins_nothing_when_its_driver_is_soon_to_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, asked: float, budget: str
) -> None:
    limited = f"{LAKE}spark: {{max_load_seconds: {seconds}}}\n"
    write_project(tmp_path, limited, shop=SHOP)
    asked_for: list[str] = []

    def submitted(*args: object) -> str:
        asked_for.extend(map(str, args))
        return MaintenanceResult("shop", True, ()).to_json()

    monkeypatch.setattr(maintenance, "submit", submitted)
    maintenance.maintain(open_context(tmp_path, "shop", lambda _: None), asked, dry_run=True)
    assert asked_for[-2] == budget


def test_a_command_says_which_load_maintenance_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, LAKE, shop=SHOP)
    messages: list[str] = []
    ctx = open_context(tmp_path, "shop", messages.append)
    ctx.ledger.lease.acquire("b", "a1", Lease("elsewhere:1:1", 600))
    report = MaintenanceResult("shop", False, ()).to_json()
    monkeypatch.setattr(maintenance, "submit", lambda *_: report)
    maintenance.maintain(ctx, 60)
    assert "reconcile: batch b is loading, held by process 1 on elsewhere" in messages
    assert (
        messages[-1] == "maintain: pipeline shop, 60 minutes at most, the wait for a load included"
    )
