"""Batches, and processes that were suspended, after somebody undid what they were built on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import LeaseHeldError, RollbackRefusedError, TerminalError, TransientError
from sluice.faults import Point
from sluice.ledger.claims import Claim
from sluice.ledger.leases import Lease
from sluice.ledger.rows import FAILED, LANDED, LOADED, LOADING, PUBLISHED, PUBLISHING, ROLLED_BACK
from sluice.manifest import Manifest, Rebuild, SourceFile
from sluice.operations import refolding, stages, undo
from sluice.operations.context import Context
from sluice.operations.reprocess import reprocess
from sluice.result import BatchResult, Counts, TableResult
from spark_jobs.driver import Driver
from tests.unit.played import ONE, play, quarantined
from tests.unit.projects import PIPELINE, open_shop
from tests.unit.undone import (
    an_hour_later,
    changelog,
    everything,
    publish,
    stage,
    state,
    three_batches,
)

pytestmark = pytest.mark.catalog


class Killed(BaseException):
    """What ends a process where it stands."""


def fails(*_: Any, small: bool = False) -> str:
    raise TransientError("the driver was killed")


def at(point: Point, action: Callable[[], None]) -> Callable[[Point], None]:
    """What `reach` does: once it comes to the point, the action."""
    told: list[Point] = []

    def reach(here: Point) -> None:
        if here == point and not told:
            told.append(here)
            action()

    return reach


def kill_rollback(context: Context, monkeypatch: pytest.MonkeyPatch, point: Point) -> None:
    """A rollback of batch b4 whose process ends at the point."""

    def die() -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(undo, "reach", at(point, die))
        with pytest.raises(Killed):
            undo.undo_batch(context, "b4", hold=True)


def has_changes(context: Context, batch: str) -> bool:
    rows = context.catalog.load_table(("shop__cdc", "orders__changes")).scan().to_arrow()
    return batch in rows["_batch_id"].to_pylist()


def second(context: Context, manifest: Manifest) -> Driver:
    """A driver that begins after another one at the same batch."""
    driver = Driver(context.project, manifest, lambda: None)  # type: ignore[arg-type, return-value]
    row = context.ledger.batches.get(manifest.batch_id)
    assert row is not None
    driver.hold.predecessor = row.attempt
    return driver


@pytest.mark.parametrize("again", ["reprocess", "tables"])
def test_what_reads_a_batch_again_is_undone_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """A run would bring back what an operator took out, and whose files are held."""
    ctx = open_shop(tmp_path, PIPELINE + "tables: {d.s.notes: {key: [id]}}\n")
    first = quarantined(ctx, monkeypatch)
    monkeypatch.setattr(stages, "submit", fails)
    if again == "reprocess":
        assert reprocess(ctx)[1] is not None
    else:
        assert stages.run(ctx, tables=["d.s.notes"])[1] is not None
    (left,) = (row for row in ctx.ledger.batches.all() if row.state != PUBLISHED)

    refolding.undo_or_refold(ctx, first)
    driver = second(ctx, ctx.files.read_manifest(left.manifest))
    with pytest.raises(TerminalError, match=rf"{first}, which is rolled back"):
        driver._take_lease()
    ctx.ledger.batches.record(left.batch_id, FAILED)
    loaded: list[Manifest] = []
    monkeypatch.setattr(stages, "submit", play(ctx, lambda m: (loaded.append(m), (ONE, ()))[1]))
    stages.run(ctx)
    assert loaded == []
    assert {row.state for row in ctx.ledger.batches.all()} == {ROLLED_BACK}


def test_nobody_loads_beside_a_batch_that_is_half_published_until_it_is_whole_or_undone(
    tmp_path: Path,
) -> None:
    """Its second load failed; what its tables hold is in no list of published batches."""
    ctx = three_batches(tmp_path)
    publish(ctx, "b4", 4, tables=("orders",), state=PUBLISHING)
    driver = second(ctx, Manifest("shop", "b4", ()))
    driver._take_lease()
    driver._fail(TransientError("its check"))
    assert (state(ctx, "b4"), everything(ctx)) == (FAILED, [[0, 1, 2, 3, 4], [0, 1, 2, 3]])
    told = (
        r"batch b4 is half published; sluice run shop \(or sluice rollback shop --batch b4\) first"
    )
    with pytest.raises(LeaseHeldError, match=told):
        ctx.ledger.lease.acquire("b5", "a1", Lease("elsewhere:1", 60))
    with pytest.raises(RollbackRefusedError, match="batch b4 of shop is failed"):
        undo.undo_batch(ctx, "b3")
    undo.undo_batch(ctx, "b4", hold=True)
    assert everything(ctx) == [[0, 1, 2, 3]] * 2
    ctx.ledger.lease.acquire("b5", "a1", Lease("elsewhere:1", 60))


def test_a_batch_whose_publication_moved_nothing_blocks_nobody(tmp_path: Path) -> None:
    ctx = three_batches(tmp_path)
    publish(ctx, "b4", 4, tables=(), state=PUBLISHING)
    driver = second(ctx, Manifest("shop", "b4", ()))
    driver._take_lease()
    driver._fail(TransientError("its check"))
    ctx.ledger.lease.acquire("b5", "a1", Lease("elsewhere:1", 60))
    assert state(ctx, "b5") == LOADING


def test_a_rollback_that_stood_still_takes_nothing_from_a_batch_that_came_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = three_batches(tmp_path)
    changelog(ctx, "orders", "b1", "b2", "b3")

    def meanwhile() -> None:
        an_hour_later(ctx)
        stages.reconcile(ctx)
        undo.release(ctx, "b3")
        publish(ctx, "b3", 3)

    monkeypatch.setattr(undo, "reach", at(Point.ROLLBACK_TABLE, meanwhile))
    with pytest.raises((LeaseHeldError, RollbackRefusedError)):
        undo.undo_batch(ctx, "b3")
    assert (state(ctx, "b3"), everything(ctx)) == (PUBLISHED, [[0, 1, 2, 3]] * 2)
    assert ctx.ledger.files.known()["b3.jsonl"].state == "claimed"


def test_a_publication_that_stood_still_takes_out_no_batch_that_came_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undo of b1 beneath others, suspended when its tables had moved."""
    ctx = three_batches(tmp_path)
    changelog(ctx, "orders", "b1", "b2", "b3")
    key = ctx.files.write_manifest(
        Manifest("shop", "u1", (), rebuild=Rebuild(("orders",), "now", ("b1",)))
    )
    table = TableResult("orders", "orders", Counts(), (stage(ctx, "u1", "orders", 99),))
    ctx.files.write_result(BatchResult("shop", "u1", "a1", (table,)))
    ctx.ledger.batches.record("u1", LOADED, attempt="a1", manifest=key)

    def meanwhile() -> None:
        an_hour_later(ctx)
        stages.reconcile(ctx)
        assert (state(ctx, "u1"), state(ctx, "b1")) == (PUBLISHED, ROLLED_BACK)
        assert not has_changes(ctx, "b1")
        undo.release(ctx, "b1")
        publish(ctx, "b1", 1)

    monkeypatch.setattr(stages, "reach", at(Point.PUBLISH_RECORDED, meanwhile))
    with pytest.raises(LeaseHeldError, match="attempt a1 stops here"):
        stages.publish(ctx, key)
    assert state(ctx, "b1") == PUBLISHED


@pytest.mark.parametrize("point", [Point.ROLLBACK_MARKED, Point.ROLLBACK_FILES])
def test_a_batch_that_was_never_published_is_undone_although_the_rollback_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    """The next run completes it instead of loading what an operator was giving up."""
    ctx = three_batches(tmp_path)
    file = SourceFile("b4.jsonl", "file:///b4.jsonl", 1)
    ctx.ledger.files.claim(Claim((file,), lambda _: "b4"))
    key = ctx.files.write_manifest(Manifest("shop", "b4", (file,)))
    ctx.ledger.batches.record("b4", FAILED, attempt="a1", manifest=key)
    kill_rollback(ctx, monkeypatch, point)
    assert stages.reconcile(ctx) == []
    assert state(ctx, "b4") == ROLLED_BACK
    assert ctx.ledger.files.known()["b4.jsonl"].state == "held"
    assert everything(ctx) == [[0, 1, 2, 3]] * 2


def test_going_back_to_a_batch_takes_along_what_a_rollback_that_died_left_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = three_batches(tmp_path)
    stage(ctx, "b4", "orders", 4)
    ctx.ledger.batches.record("b4", FAILED, attempt="a1")
    kill_rollback(ctx, monkeypatch, Point.ROLLBACK_MARKED)
    undo.undo_batches_after(ctx, "b1")
    assert state(ctx, "b4") == ROLLED_BACK
    assert everything(ctx) == [[0, 1]] * 2
    refs = ctx.catalog.load_table(("shop", "orders")).metadata.refs
    assert [ref for ref in refs if ref.startswith("batch_")] == []


def test_a_rollback_that_died_while_keys_were_folded_again_stands_in_nobodys_way(
    tmp_path: Path,
) -> None:
    """It has no files, so that no run of the DAG would take it."""
    ctx = three_batches(tmp_path)
    key = ctx.files.write_manifest(
        Manifest("shop", "u1", (), rebuild=Rebuild(("orders",), "now", ("b1",)))
    )
    ctx.ledger.batches.record("u1", LOADING, attempt="a1", manifest=key)
    with pytest.raises(RollbackRefusedError, match="batch u1 of shop is loading"):
        undo.undo_batch(ctx, "b3", hold=True, dry_run=True)
    refolding.undo_or_refold(ctx, "b3")
    assert (state(ctx, "u1"), state(ctx, "b3")) == (ROLLED_BACK, ROLLED_BACK)
    assert everything(ctx) == [[0, 1, 2]] * 2


def test_keys_that_are_about_to_be_folded_again_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's rollback or rebuild, in the seconds before the driver has its lease."""
    ctx = three_batches(tmp_path)
    found: list[str] = []

    def meanwhile(ctx: Context, _: str) -> None:
        (mine,) = (row.batch_id for row in ctx.ledger.batches.all() if row.state == LANDED)
        refolding.undo_or_refold(ctx, "b3")
        found.append(state(ctx, mine))
        raise Killed

    monkeypatch.setattr(refolding, "named_targets", lambda *_: ["orders"])
    monkeypatch.setattr(refolding, "load", meanwhile)
    with pytest.raises(Killed):
        refolding.rebuild(ctx)
    assert found == [LANDED]
