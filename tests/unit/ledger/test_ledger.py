"""The ledger's promise: of any number of claimants of one thing, one wins."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table

from sluice.errors import LeaseHeldError
from sluice.ledger import appends
from sluice.ledger.appends import LedgerTables
from sluice.ledger.claims import ClaimRequest, by_checksum
from sluice.ledger.leases import ANY_PUBLISHER, Lease, this_holder
from sluice.ledger.ledger import Ledger, PipelineLedger
from sluice.ledger.rows import FileRow
from sluice.ledger.states import (
    FAILED,
    FILE_HELD,
    FILE_LOADED,
    FILE_RELEASED,
    LANDED,
    LOADED,
    PUBLISHED,
    PUBLISHING,
    ROLLED_BACK,
)
from sluice.ledger.tables import QUARANTINE
from sluice.manifest import SourceFile
from sluice.names import LEDGER_NAMESPACE
from tests.unit.clocks import FrozenClock
from tests.unit.ledger_rows import claim, named, publication, some_files

pytestmark = pytest.mark.catalog


def catalog_in(folder: Path) -> SqlCatalog:
    """Open the catalog of the `ledger` fixture, whose folder is `tmp_path`, once more."""
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/w")


def test_claimed_files_are_known_and_not_claimed_again(
    tmp_path: Path, ledger: PipelineLedger
) -> None:
    batch, won = claim(ledger, "a", "b")
    assert won == ["a", "b"]
    assert claim(ledger, "b", "c")[1] == ["c"]
    assert claim(ledger, "a") == ("", [])
    known = ledger.files.known()
    assert sorted(known) == ["a", "b", "c"]
    assert known["a"].batch_id == batch
    assert Ledger(catalog_in(tmp_path)).of("another").files.known() == {}


def test_reading_makes_no_table(catalog: SqlCatalog, ledger: PipelineLedger) -> None:
    assert (ledger.unfinished(), ledger.files.known()) == ([], {})
    assert ledger.publications.batches_of("shop", "orders") == set()
    assert (Ledger(catalog).pipelines(), Ledger(catalog).uuid()) == (set(), "")
    assert not catalog.namespace_exists(LEDGER_NAMESPACE)


def test_held_files_stay_held_until_they_are_released(ledger: PipelineLedger) -> None:
    batch, _ = claim(ledger, "a", "b")
    assert ledger.files.mark(batch, FILE_HELD) == 2
    assert claim(ledger, "a") == ("", [])
    assert ledger.files.mark(batch, FILE_HELD) == 0
    assert ledger.files.mark(batch, FILE_LOADED) == 0  # a publisher that was suspended
    ledger.files.mark(batch, FILE_RELEASED)
    assert ledger.files.mark(batch, FILE_LOADED) == 0
    second, won = claim(ledger, "a")
    assert won == ["a"]
    assert ledger.files.mark(second, FILE_LOADED) == 1
    assert ledger.files.mark(second, FILE_RELEASED) == 0  # its rows are in the tables
    states = {key: file.state for key, file in ledger.files.known().items()}
    assert states == {"a": FILE_LOADED, "b": FILE_RELEASED}


def test_a_changed_object_is_not_taken(ledger: PipelineLedger) -> None:
    claim(ledger, "a")
    assert ledger.files.claim(ClaimRequest(some_files("a", etag="e2"), named("p")))[1] == ()


def test_a_changed_object_is_taken_in_the_place_of_the_row_that_was_seen(
    ledger: PipelineLedger,
) -> None:
    first, _ = claim(ledger, "a")
    ledger.files.mark(first, FILE_LOADED)
    ledger.batches.record(first, PUBLISHED)
    seen = frozenset(ledger.files.known().values())
    changed = some_files("a", etag="e2")
    second, won = ledger.files.claim(ClaimRequest(changed, named("p"), replaced=seen))
    assert won == changed
    assert (
        ledger.files.claim(ClaimRequest(some_files("a", etag="e3"), named("p"), replaced=seen))[1]
        == ()
    )
    assert [(row.batch_id, row.etag) for row in ledger.files.replaced()] == [(first, "e1")]
    ledger.files.mark(second, FILE_LOADED)
    ledger.batches.record(first, ROLLED_BACK)
    assert ledger.files.replaced() == []


def test_the_same_bytes_under_another_name_count_once(ledger: PipelineLedger) -> None:
    twice = some_files("a", "b", sha256="s")
    won = ledger.files.claim(ClaimRequest(twice, named("p")))[1]
    assert [file.key for file in won] == ["a"]
    third = some_files("c", sha256="s")
    assert ledger.files.claim(ClaimRequest(third, named("p")))[1] == ()
    assert ledger.files.known_contents(by_checksum, epochs=None) == {"s"}
    copies = {row.object_key: row.batch_id for row in ledger.files.copies().values()}
    assert copies == dict.fromkeys(("b", "c"), ledger.files.known()["a"].batch_id)


def test_claimants_at_once_win_each_file_exactly_once(tmp_path: Path) -> None:
    keys = [f"file-{n}" for n in range(12)]
    catalog_in(tmp_path)  # its own tables: pyiceberg's SqlCatalog makes them without a guard
    start = threading.Barrier(6)

    def one(first: int) -> list[str]:
        start.wait()
        mine = Ledger(catalog_in(tmp_path)).of("p")
        return [key for n in range(3) for key in claim(mine, *keys[first + n : first + n + 5])[1]]

    with ThreadPoolExecutor(6) as pool:
        won = Counter(key for keys_won in pool.map(one, range(6)) for key in keys_won)
    assert set(won.values()) == {1}
    known = Ledger(catalog_in(tmp_path)).of("p").files.known()
    assert sorted(known) == sorted(won)


def _claim_in_process(folder: str, ready: object, answers: object) -> None:
    ready.wait()  # type: ignore[attr-defined]
    answers.put(claim(Ledger(catalog_in(Path(folder))).of("p"), "a", "b", "c"))  # type: ignore[attr-defined]


def test_processes_at_once_win_each_file_exactly_once(tmp_path: Path) -> None:
    Ledger(catalog_in(tmp_path)).ensure()
    spawn = multiprocessing.get_context("spawn")
    ready, answers = spawn.Barrier(2), spawn.Queue()
    workers = [
        spawn.Process(target=_claim_in_process, args=(str(tmp_path), ready, answers))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    won = [answers.get(timeout=60)[1] for _ in workers]
    for worker in workers:
        worker.join(60)
    assert sorted(won) == [[], ["a", "b", "c"]]


def test_a_batch_keeps_what_was_recorded_before(ledger: PipelineLedger) -> None:
    ledger.batches.record("b1", LANDED, manifest="path/manifest.json")
    ledger.batches.record("b1", LOADED, attempt="a1", replace_details={"rows": 3})
    row = ledger.batches.get("b1")
    assert row is not None
    assert (row.state, row.attempt, row.manifest) == (LOADED, "a1", "path/manifest.json")
    assert row.details == {"rows": 3}
    assert ledger.batches.get("none") is None


def test_unfinished_names_landed_and_claimed_batches(
    ledger: PipelineLedger, clock: FrozenClock
) -> None:
    orphan, _ = claim(ledger, "a")
    for batch, state in (("b1", LANDED), ("b2", PUBLISHED), ("b3", FAILED), ("b4", PUBLISHING)):
        clock.forward(1)
        ledger.batches.record(batch, state)
    assert [row.batch_id for row in ledger.unfinished()] == ["b4", orphan, "b1", "b3"]
    assert ledger.batches.published() == {"b2"}
    assert [row.batch_id for row in ledger.batches.all()[:2]] == ["b4", "b3"]


def test_one_batch_at_a_time_has_the_lease(
    tmp_path: Path, ledger: PipelineLedger, clock: FrozenClock
) -> None:
    ledger.lease.acquire("b1", "a1", Lease("elsewhere:1:1", 60))
    with pytest.raises(
        LeaseHeldError, match=r"b1 is loading; process 1 on elsewhere has the lease until 2026"
    ):
        ledger.lease.acquire("b2", "a1", Lease("elsewhere:2:1", 60))
    Ledger(catalog_in(tmp_path)).of("another").lease.acquire("b9", "a1", Lease("elsewhere:3:1", 60))
    clock.forward(50)
    ledger.lease.renew("b1", "a1", Lease("elsewhere:1:1", 60))
    clock.forward(50)
    with pytest.raises(LeaseHeldError):
        ledger.lease.acquire("b2", "a1", Lease("elsewhere:2:1", 60))
    ledger.lease.release("b1", "a1")
    ledger.lease.acquire("b2", "a1", Lease("elsewhere:2:1", 60))


def test_nobody_loads_beside_a_half_published_batch(ledger: PipelineLedger) -> None:
    """What its tables hold already is in no list of published batches."""
    ledger.batches.record("b1", PUBLISHING)
    with pytest.raises(LeaseHeldError, match="b1 is half published; sluice reconcile p first"):
        ledger.lease.acquire("b2", "a1", Lease(this_holder(), 600))
    ledger.lease.acquire("b1", "a2", Lease(this_holder(), 600))


def test_a_batch_that_is_tried_again_has_no_error_until_it_fails_again(
    ledger: PipelineLedger,
) -> None:
    ledger.batches.record("b1", FAILED, replace_details={"error": "away", "share_of": "b0"})
    ledger.batches.record("b1", LANDED, attempt="a2")
    row = ledger.batches.get("b1")
    assert row is not None
    assert row.details == {"share_of": "b0"}


@pytest.mark.parametrize("state", [PUBLISHED, ROLLED_BACK])
def test_a_finished_batch_is_not_loaded_again(ledger: PipelineLedger, state: str) -> None:
    ledger.batches.record("b1", state, attempt="a1")
    with pytest.raises(LeaseHeldError, match=f"batch b1 of p is {state}; attempt a2 stops"):
        ledger.lease.acquire("b1", "a2", Lease(this_holder(), 600))
    with pytest.raises(LeaseHeldError, match=f"batch b1 of p is {state}; attempt a1 stops"):
        ledger.lease.renew("b1", "a1", Lease(this_holder(), 600))
    row = ledger.batches.get("b1")
    assert row is not None
    assert (row.state, row.attempt, row.holder) == (state, "a1", "")


def test_record_can_depend_on_the_current_row(ledger: PipelineLedger) -> None:
    ledger.batches.record("b1", ROLLED_BACK)
    done = ledger.batches.record("b1", LOADED, expected=lambda row: row is None)
    row = ledger.batches.get("b1")
    assert row is not None
    assert (done, row.state) == (False, ROLLED_BACK)
    assert ledger.batches.record("b2", LOADED, expected=lambda row: row is None)


def test_files_that_were_released_and_claimed_again_are_not_forgotten(
    ledger: PipelineLedger,
) -> None:
    batch, _ = claim(ledger, "a")
    ledger.files.mark(batch, FILE_HELD)
    ledger.batches.record(batch, ROLLED_BACK)
    assert ledger.unfinished() == []
    ledger.files.mark(batch, FILE_RELEASED)
    assert ledger.unfinished() == []
    assert claim(ledger, "a")[0] == batch
    assert [(row.batch_id, row.state) for row in ledger.unfinished()] == [(batch, LANDED)]


def test_loaded_batch_waits_for_its_publisher(ledger: PipelineLedger) -> None:
    host = this_holder().split(":")[0]
    ledger.lease.acquire("b1", "a1", Lease(f"{host}:{os.getpid()}:1", 600))
    ledger.batches.record("b1", LOADED, attempt="a1", lease=Lease(ANY_PUBLISHER, 600))
    with pytest.raises(LeaseHeldError):
        ledger.lease.acquire("b2", "a1", Lease(this_holder(), 600))


def test_keep_waiting_renews_waiting_batches_alone(
    ledger: PipelineLedger, clock: FrozenClock
) -> None:
    ledger.batches.record("waits", LANDED, manifest="m")
    ledger.batches.record("decodes", LANDED, attempt="a1", lease=Lease("elsewhere:1:1", 9))
    ledger.batches.record("failed", FAILED)
    ledger.batches.record("another", LANDED)
    clock.forward(600)
    ledger.batches.keep_waiting(["waits", "decodes", "failed", "unknown"])
    rows = {row.batch_id: row for row in ledger.batches.all()}
    assert [name for name, row in rows.items() if row.at == clock()] == ["waits"]
    assert (rows["waits"].state, rows["waits"].manifest) == (LANDED, "m")
    assert len(rows) == 4


def test_of_many_at_once_one_gets_the_lease(tmp_path: Path) -> None:
    catalog_in(tmp_path)
    start = threading.Barrier(5)

    def one(number: int) -> bool:
        start.wait()
        try:
            Ledger(catalog_in(tmp_path)).of("p").lease.acquire(
                f"b{number}", "a", Lease(this_holder(), 60)
            )
        except LeaseHeldError:
            return False
        return True

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(one, range(5))) == 1


def test_publications_have_the_newest_state_of_each_table(ledger: PipelineLedger) -> None:
    ledger.publications.record([publication("t1"), publication("t2", base_snapshot=None)])
    ledger.publications.record([publication("t1", state="published")])
    rows = ledger.publications.of_batches("b")
    assert [(r.table_name, r.state, r.base_snapshot) for r in rows] == [
        ("t1", "published", 1),
        ("t2", "intent", None),
    ]
    assert ledger.publications.of_batches("other") == []


def test_a_commit_whose_answer_is_lost_is_looked_up(
    tmp_path: Path, ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Table._do_commit
    lost = iter([True])

    def answer_lost(self: Table, *args: object, **kwargs: object) -> None:
        commit(self, *args, **kwargs)  # type: ignore[arg-type]
        if next(lost, False):
            raise CommitStateUnknownException("the answer never came")

    Ledger(catalog_in(tmp_path)).ensure()
    monkeypatch.setattr(Table, "_do_commit", answer_lost)
    assert claim(ledger, "a")[1] == ["a"]
    assert len(ledger.files.known()) == 1


def test_a_claim_asks_for_the_name_again_after_a_lost_race(tmp_path: Path) -> None:
    mine, theirs = Ledger(catalog_in(tmp_path)).of("p"), Ledger(catalog_in(tmp_path)).of("p")
    asked = []

    def name(files: tuple[SourceFile, ...]) -> str:
        if not asked:
            claim(theirs, "b")
        asked.append([file.key for file in files])
        return f"batch-{len(asked)}"

    batch, won = mine.files.claim(ClaimRequest(some_files("a", "b"), name))
    assert asked == [["a", "b"], ["a"]]
    assert (batch, [file.key for file in won]) == ("batch-2", ["a"])


def test_many_writes_leave_a_small_ledger(
    tmp_path: Path, ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appends, "COMPACT_AT", 6)
    for number in range(15):
        claim(ledger, f"f{number}")
    table = LedgerTables(catalog_in(tmp_path)).open("files")
    newest = table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert int(newest.summary["total-data-files"] or "") < 6
    assert len(ledger.files.known()) == 15
    assert claim(ledger, "f0", "f20")[1] == ["f20"]


def test_rows_are_made_of_the_files_that_are_asked_for_alone(
    ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = some_files("a", "b", sha256="s")
    ledger.files.claim(ClaimRequest(first, named("p")))
    mine, _ = ledger.files.claim(ClaimRequest(some_files("c", sha256="t"), named("p")))
    made = set()
    really = FileRow.__init__

    def noted(self: FileRow, *given: object, **more: object) -> None:
        really(self, *given, **more)  # type: ignore[arg-type]
        made.add(self.object_key)

    monkeypatch.setattr(FileRow, "__init__", noted)
    assert [row.object_key for row in ledger.files.of_batch(mine)] == ["c"]
    assert ledger.files.mark(mine, FILE_LOADED) == 1
    copy = some_files("d", sha256="s")
    assert ledger.files.claim(ClaimRequest(copy, named("p"))) == ("", ())
    assert ledger.files.known_contents(by_checksum, epochs=None) == {"s", "t"}
    assert made == {"c", "d"}


def test_quarantine_is_partitioned_by_batch(tmp_path: Path) -> None:
    table = LedgerTables(catalog_in(tmp_path)).open(QUARANTINE)
    assert [field.name for field in table.spec().fields] == ["batch_id"]
