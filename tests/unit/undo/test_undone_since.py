"""Batches, and processes that were suspended, after a batch on which they were built was undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.errors import LeaseHeldError, RollbackRefusedError, TerminalError, TransientError
from sluice.faults import Point
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.details import of_rebuild
from sluice.ledger.leases import Lease
from sluice.ledger.states import FAILED, LANDED, LOADED, LOADING, PUBLISHED, PUBLISHING, ROLLED_BACK
from sluice.manifest import Manifest, Rebuild, SourceFile
from sluice.operations import refolding, stages, undo
from sluice.operations.claim import record_landed
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.reprocess import reprocess
from sluice.operations.selection import Selection
from sluice.result import BatchResult, Counts, TableResult
from spark_jobs.driver import Driver
from tests.all_readable import land
from tests.unit.fake_driver import ONE, driver_of, play, quarantined
from tests.unit.projects import SHOP, open_shop
from tests.unit.undo_lake import (
    Killed,
    an_hour_later,
    at_point,
    changelog,
    counted,
    everything,
    killed_at,
    pass_points,
    publish,
    stage,
    state,
)

pytestmark = pytest.mark.catalog


def fails(*_: Any, small: bool = False) -> str:
    raise TransientError("the driver was killed")


def kill_rollback(context: Context, monkeypatch: pytest.MonkeyPatch, point: Point) -> None:
    """A rollback of batch b4 whose process ends at the point."""

    with monkeypatch.context() as patched:
        pass_points(patched, killed_at(point))
        with pytest.raises(Killed):
            undo.undo_batch(context, "b4")


def has_changes(context: Context, batch: str) -> bool:
    rows = context.catalog.load_table(("shop__cdc", "orders__changes")).scan().to_arrow()
    return batch in rows["_batch_id"].to_pylist()


def second(context: Context, manifest: Manifest) -> Driver:
    """A driver that begins after another one at the same batch."""
    driver = driver_of(context, manifest)
    row = context.ledger.batches.get(manifest.batch_id)
    assert row is not None
    driver.lease.predecessor = row.attempt
    return driver


def left_for_single_tables(ctx: Context, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """Load a file, and have a run die that reads it for one table more; return the first batch."""
    (ctx.project.root / "landing").mkdir(exist_ok=True)
    (ctx.project.root / "landing" / "wrong.jsonl").write_text(text)
    monkeypatch.setattr("sluice.operations.load.submit", play(ctx, lambda _: (ONE, ())))
    (first,), _ = stages.run(ctx)
    monkeypatch.setattr("sluice.operations.load.submit", fails)
    assert stages.run(ctx, Selection(tables=("d.s.notes",)))[1] is not None
    return first.batch_id


def loaded_by_a_run(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Run; return the tables of each batch that was given to a driver."""
    loaded: list[tuple[str, ...]] = []

    def driver(manifest: Manifest) -> tuple[Counts, tuple[Any, ...]]:
        assert driver_of(ctx, manifest)._refuse_obsolete() is None
        loaded.append(manifest.tables)
        return ONE, ()

    monkeypatch.setattr("sluice.operations.load.submit", play(ctx, driver))
    _, failure = stages.run(ctx)
    assert failure is None
    return loaded


# A document over several lines is staged: there the old bytes are even when the object is gone.
STAGED, IN_PLACE = '{\n"x": "wrong"}\n', '{"x": "wrong"}\n'


@pytest.mark.parametrize("text", [STAGED, IN_PLACE])
@pytest.mark.parametrize("right", ["", '{"x": "right"}\n'])
@pytest.mark.parametrize("landed", [False, True])
def test_a_wrong_file_that_was_released_is_not_read_for_single_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, right: str, landed: bool
) -> None:
    """Whether the right file in its place has landed by then or not."""
    ctx = open_shop(tmp_path, SHOP + "tables: {d.s.notes: {key: [id]}}\n")
    wrong = left_for_single_tables(ctx, monkeypatch, text)
    refolding.undo_or_refold(ctx, wrong)
    (tmp_path / "landing" / "wrong.jsonl").unlink()
    if right:
        (tmp_path / "landing" / "wrong.jsonl").write_text(right)
    assert release(ctx, wrong) == 1
    if landed:
        land(ctx)
    assert loaded_by_a_run(ctx, monkeypatch) == [()] * bool(right)
    assert loaded_by_a_run(ctx, monkeypatch) == []


def left_and_released(root: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A file that one more table was about to be read from, rolled back and released."""
    ctx = open_shop(root, SHOP + "tables: {d.s.notes: {key: [id]}}\n")
    batch = left_for_single_tables(ctx, monkeypatch, STAGED)
    refolding.undo_or_refold(ctx, batch)
    release(ctx, batch)
    return ctx


def test_a_released_file_as_it_was_is_read_for_single_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = left_and_released(tmp_path, monkeypatch)
    assert sorted(loaded_by_a_run(ctx, monkeypatch)) == [(), ("d.s.notes",)]


def test_a_landing_folder_that_is_away_gives_up_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its disk is not mounted, all of its files look deleted."""
    ctx = left_and_released(tmp_path, monkeypatch)
    (tmp_path / "landing").rename(tmp_path / "away")
    with pytest.raises(TerminalError, match=r"landing folder .* does not exist"):
        stages.run(ctx)
    (tmp_path / "away").rename(tmp_path / "landing")
    assert sorted(loaded_by_a_run(ctx, monkeypatch)) == [(), ("d.s.notes",)]


@pytest.mark.parametrize("again", ["reprocess", "tables"])
def test_reprocess_of_a_batch_is_undone_with_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """A run would bring back what an operator took out, and whose files are held."""
    ctx = open_shop(tmp_path, SHOP + "tables: {d.s.notes: {key: [id]}}\n")
    first = quarantined(ctx, monkeypatch)
    monkeypatch.setattr("sluice.operations.load.submit", fails)
    if again == "reprocess":
        assert reprocess(ctx)[1] is not None
    else:
        assert stages.run(ctx, Selection(tables=("d.s.notes",)))[1] is not None
    (left,) = (row for row in ctx.ledger.batches.all() if row.state != PUBLISHED)

    refolding.undo_or_refold(ctx, first)
    driver = second(ctx, ctx.files.read_manifest(left.manifest))
    with pytest.raises(TerminalError, match=rf"{first}, which is rolled back"):
        driver._take_lease()
    ctx.ledger.batches.record(left.batch_id, FAILED)
    loaded: list[Manifest] = []
    monkeypatch.setattr(
        "sluice.operations.load.submit", play(ctx, lambda m: (loaded.append(m), (ONE, ()))[1])
    )
    stages.run(ctx)
    assert loaded == []
    assert {row.state for row in ctx.ledger.batches.all()} == {ROLLED_BACK}


def test_nobody_loads_beside_a_batch_that_is_half_published_until_it_is_whole_or_undone(
    context: Context,
) -> None:
    """Its second load failed; what its tables hold is in no list of published batches."""
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    driver = second(context, Manifest("shop", "b4", ()))
    driver._take_lease()
    driver._fail(TransientError("its check"))
    assert (state(context, "b4"), everything(context)) == (FAILED, [[0, 1, 2, 3, 4], [0, 1, 2, 3]])
    expected = (
        r"batch b4 is half published; sluice run shop \(or sluice rollback shop --batch b4\) first"
    )
    with pytest.raises(LeaseHeldError, match=expected):
        context.ledger.lease.acquire("b5", "a1", Lease("elsewhere:1", 60))
    with pytest.raises(RollbackRefusedError, match="batch b4 of shop is failed"):
        undo.undo_batch(context, "b3")
    undo.undo_batch(context, "b4")
    assert everything(context) == [[0, 1, 2, 3]] * 2
    context.ledger.lease.acquire("b5", "a1", Lease("elsewhere:1", 60))


def test_a_batch_whose_publication_moved_nothing_blocks_nobody(context: Context) -> None:
    publish(context, "b4", 4, tables=(), state=PUBLISHING)
    driver = second(context, Manifest("shop", "b4", ()))
    driver._take_lease()
    driver._fail(TransientError("its check"))
    context.ledger.lease.acquire("b5", "a1", Lease("elsewhere:1", 60))
    assert state(context, "b5") == LOADING


def test_a_rollback_that_stood_still_takes_nothing_from_a_batch_that_came_again(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    changelog(context, "orders", "b1", "b2", "b3")

    def meanwhile() -> None:
        an_hour_later()
        stages.reconcile(context)
        release(context, "b3")
        publish(context, "b3", 3)

    monkeypatch.setattr(undo, "reach", at_point(Point.ROLLBACK_TABLE, meanwhile))
    with pytest.raises((LeaseHeldError, RollbackRefusedError)):
        undo.undo_batch(context, "b3")
    assert (state(context, "b3"), everything(context)) == (PUBLISHED, [[0, 1, 2, 3]] * 2)
    assert context.ledger.files.known()["b3.jsonl"].state == "claimed"


@pytest.mark.parametrize("point", [Point.PUBLISH_RECORDED, Point.PUBLISH_UNDOING])
def test_a_publication_that_stood_still_takes_out_no_batch_that_came_again(
    context: Context, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    """An undo of b1 beneath others, suspended when its tables had moved."""
    changelog(context, "orders", "b1", "b2", "b3")
    key = context.files.write_manifest(
        Manifest("shop", "u1", (), rebuild=Rebuild(("orders",), "now", ("b1",)))
    )
    table = TableResult("orders", "orders", Counts(), (stage(context, "u1", "orders", 99),))
    folded = counted(context, "b1")
    context.files.write_result(BatchResult("shop", "u1", "a1", (table,), folded=folded))
    context.ledger.batches.record("u1", LOADED, attempt="a1", manifest=key)

    def meanwhile() -> None:
        an_hour_later()
        stages.reconcile(context)
        assert (state(context, "u1"), state(context, "b1")) == (PUBLISHED, ROLLED_BACK)
        assert not has_changes(context, "b1")
        release(context, "b1")
        publish(context, "b1", 1)

    monkeypatch.setattr("sluice.operations.publish.reach", at_point(point, meanwhile))
    with pytest.raises(LeaseHeldError, match="attempt a1 stops here"):
        stages.publish(context, key)
    assert state(context, "b1") == PUBLISHED


@pytest.mark.parametrize("point", [Point.ROLLBACK_MARKED, Point.ROLLBACK_FILES])
def test_a_batch_that_was_never_published_is_undone_although_the_rollback_died(
    context: Context, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    """The next run completes it instead of loading what an operator was giving up."""
    file = SourceFile("b4.jsonl", "file:///b4.jsonl", 1)
    context.ledger.files.claim(ClaimRequest((file,), lambda _: "b4"))
    key = context.files.write_manifest(Manifest("shop", "b4", (file,)))
    context.ledger.batches.record("b4", FAILED, attempt="a1", manifest=key)
    kill_rollback(context, monkeypatch, point)
    assert stages.reconcile(context) == []
    assert state(context, "b4") == ROLLED_BACK
    assert context.ledger.files.known()["b4.jsonl"].state == "held"
    assert everything(context) == [[0, 1, 2, 3]] * 2


def test_going_back_to_a_batch_takes_along_what_a_rollback_that_died_left_staged(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(context, "b4", "orders", 4)
    context.ledger.batches.record("b4", FAILED, attempt="a1")
    kill_rollback(context, monkeypatch, Point.ROLLBACK_MARKED)
    undo.undo_batches_after(context, "b1")
    assert state(context, "b4") == ROLLED_BACK
    assert everything(context) == [[0, 1]] * 2
    refs = context.catalog.load_table(("shop", "orders")).metadata.refs
    assert [ref for ref in refs if ref.startswith("batch_")] == []


def test_a_rollback_that_died_while_keys_were_folded_again_stands_in_nobodys_way(
    context: Context,
) -> None:
    """It has no files, so that no run of the DAG would take it."""
    asked = Manifest("shop", "u1", (), rebuild=Rebuild(("orders",), "now", ("b1",)))
    record_landed(context, asked, of_rebuild(asked), None)
    context.ledger.batches.record("u1", LOADING, attempt="a1")
    with pytest.raises(RollbackRefusedError, match="batch u1 of shop is loading"):
        undo.undo_batch(context, "b3", dry_run=True)
    refolding.undo_or_refold(context, "b3")
    assert (state(context, "u1"), state(context, "b3")) == (ROLLED_BACK, ROLLED_BACK)
    assert everything(context) == [[0, 1, 2]] * 2


def test_keys_that_are_about_to_be_folded_again_are_left_alone(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's rollback or rebuild, in the seconds before the driver has its lease."""
    found: list[str] = []

    def meanwhile(context: Context, _: str) -> None:
        (mine,) = (row.batch_id for row in context.ledger.batches.all() if row.state == LANDED)
        refolding.undo_or_refold(context, "b3")
        found.append(state(context, mine))
        raise Killed

    monkeypatch.setattr(refolding, "named_targets", lambda *_: ["orders"])
    monkeypatch.setattr(refolding, "load", meanwhile)
    with pytest.raises(Killed):
        refolding.rebuild(context)
    assert found == [LANDED]
