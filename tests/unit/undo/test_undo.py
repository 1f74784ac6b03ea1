"""rollback of several batches, on a real catalog: all or none, and a look that moves nothing."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any, Never

import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType

from sluice.errors import (
    FollowedError,
    LeaseHeldError,
    RollbackRefusedError,
    TerminalError,
)
from sluice.faults import Point
from sluice.ledger.details import KEEP_FILES_HELD, UNDONE
from sluice.ledger.leases import Lease
from sluice.ledger.rows import Publication
from sluice.ledger.states import FAILED, LANDED, PUBLISHED, ROLLED_BACK, ROLLING_BACK
from sluice.manifest import Manifest, Rebuild
from sluice.operations import stages, undo
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.undo import undo_batch, undo_batches_after
from sluice.result import BatchResult
from tests.unit.undo_lake import (
    changelog,
    everything,
    ids,
    pass_points,
    publish,
    state,
    write,
)

pytestmark = pytest.mark.catalog


def test_rollback_to_a_batch_undoes_newer_ones_and_holds_their_files(context: Context) -> None:
    undo_batches_after(context, "b1")
    assert everything(context) == [[0, 1], [0, 1]]
    assert [state(context, b) for b in ("b1", "b2", "b3")] == [PUBLISHED, *["rolled_back"] * 2]
    files = context.ledger.files.known()
    assert [files[f"b{n}.jsonl"].state for n in (1, 2, 3)] == ["claimed", "held", "held"]
    assert undo_batches_after(context, "b1") == ["nothing was published after batch b1"]


def test_undo_reads_no_publications_before_its_batch(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline of years has published much more than anybody undoes."""
    read, really = set[str](), Publication.__init__

    def noted(self: Publication, *given: Any, **more: Any) -> None:
        really(self, *given, **more)
        read.add(self.batch_id)

    monkeypatch.setattr(Publication, "__init__", noted)
    undo_batch(context, "b3")
    assert read == {"b3"}


def test_the_ledger_is_asked_once_for_the_orders_of_all_batches(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question takes as long as the pipeline is old."""
    context.ledger.batches.record("b2", ROLLING_BACK)
    asked, really = [], undo.begun

    def begun(ctx: Context) -> list[str]:
        asked.append(ctx)
        return really(ctx)

    monkeypatch.setattr(undo, "begun", begun)
    orders = undo.orders_for(context, ["b3", "b2", "b1"], KEEP_FILES_HELD)
    assert list(orders.items()) == [("b3", KEEP_FILES_HELD), ("b1", KEEP_FILES_HELD)]
    assert len(asked) == 1


def test_a_table_is_loaded_as_often_however_many_batches_are_undone(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time is a read of metadata, which name every batch that a year has published."""
    loaded, really = list[str](), context.catalog.load_table

    def noted(name: tuple[str, str]) -> Table:
        loaded.append(".".join(name))
        return really(name)

    monkeypatch.setattr(context.catalog, "load_table", noted)
    times = []
    for batch in ("b2", "b1"):
        loaded.clear()
        undo_batches_after(context, batch, dry_run=True)
        times.append(loaded.count("shop.orders"))
    assert times == [2, 2]


def test_dry_run_lists_every_move_and_makes_none(context: Context) -> None:
    lines = undo_batches_after(context, "b1", dry_run=True)
    moves = [line for line in lines if "main" in line]
    assert [line.split(":")[1].strip() for line in moves] == [*["batch b3"] * 2, *["batch b2"] * 2]
    assert lines[-1] == "would hold: 2 files"
    assert len(undo_batch(context, "b3", dry_run=True)) == 3
    assert everything(context) == [[0, 1, 2, 3]] * 2
    assert [state(context, b) for b in ("b1", "b2", "b3")] == [PUBLISHED] * 3
    assert {f.state for f in context.ledger.files.known().values()} == {"claimed"}


def test_no_table_moves_if_one_cannot_go_back(context: Context) -> None:
    """`orders` could go back: it comes first, and the look at `users` stops it."""
    write(context, "users", 99)
    for undone in (
        lambda: undo_batches_after(context, "b1"),
        lambda: undo_batch(context, "b3"),
    ):
        with pytest.raises(RollbackRefusedError, match="somebody else"):
            undone()
        assert ids(context, "orders") == [0, 1, 2, 3]
        assert state(context, "b3") == PUBLISHED


def test_batch_beneath_another_is_not_undone_alone(context: Context) -> None:
    for dry_run in (True, False):
        with pytest.raises(RollbackRefusedError, match="b3"):
            undo_batch(context, "b2", dry_run=dry_run)
    assert everything(context) == [[0, 1, 2, 3]] * 2


def test_a_rollback_that_was_killed_goes_on(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(type(context.ledger.files), "mark", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            undo_batches_after(context, "b1")
    assert everything(context) == [[0, 1, 2]] * 2
    undo_batches_after(context, "b1")
    assert everything(context) == [[0, 1]] * 2


@pytest.mark.parametrize("point", [p for p in Point if p.startswith("rollback.")])
def test_a_rollback_that_died_is_completed_before_anything_is_loaded(
    context: Context, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    """By whoever comes next: no load is built on tables of which some are back."""
    with monkeypatch.context() as killed:
        pass_points(killed, lambda here: 1 / 0 if here == point else None)
        with pytest.raises(ZeroDivisionError):
            undo_batches_after(context, "b1")
    with pytest.raises(LeaseHeldError, match=r"b\d is half rolled back; sluice reconcile shop"):
        context.ledger.lease.acquire("b4", "a4", Lease("me", 60))
    stages.reconcile(context)
    assert everything(context) == [[0, 1]] * 2
    assert [state(context, b) for b in ("b2", "b3")] == [ROLLED_BACK] * 2
    context.ledger.lease.acquire("b4", "a4", Lease("me", 60))


def test_a_batch_that_is_being_rolled_back_is_neither_loaded_nor_published(
    context: Context,
) -> None:
    key = context.files.write_manifest(Manifest("shop", "b3", ()))
    context.files.write_result(BatchResult("shop", "b3", "a1", ()))
    context.ledger.batches.record("b3", ROLLING_BACK)
    with pytest.raises(LeaseHeldError, match="batch b3 of shop is rolling_back"):
        context.ledger.lease.acquire("b3", "a2", Lease("me", 60))
    with pytest.raises(TerminalError, match="b3 was rolled back"):
        stages.publish(context, key)
    assert stages.give_up(context, "b3") == ["batch b3 is rolling_back, by another run"]
    undo_batches_after(context, "b2")
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, [[0, 1, 2]] * 2)


def test_only_a_published_batch_can_be_gone_back_to(context: Context) -> None:
    undo_batch(context, "b3")
    with pytest.raises(TerminalError, match="rolled_back"):
        undo_batches_after(context, "b3")


def test_only_the_files_of_a_rolled_back_batch_are_released(context: Context) -> None:
    with pytest.raises(TerminalError, match="b3 of pipeline shop is published"):
        release(context, "b3")
    with pytest.raises(TerminalError, match="has no batch b9"):
        release(context, "b9")


def test_undo_of_an_unpublished_batch_keeps_the_column_of_another_batch(context: Context) -> None:
    """The column came with a batch that is published: a failed one must not take it back."""
    context.ledger.publications.record(
        [Publication("shop", "b4", "a1", "shop", "orders", 1, 0, 2, "x", state=ROLLED_BACK)]
    )
    with context.catalog.load_table(("shop", "orders")).update_schema() as schema:
        schema.add_column("coupon", LongType())
    context.ledger.batches.record("b4", FAILED)
    undo_batch(context, "b4")
    assert "coupon" in context.catalog.load_table(("shop", "orders")).schema().column_names


def test_a_batch_that_a_later_one_only_was_compared_with_is_not_undone_alone(
    context: Context,
) -> None:
    """All of b4 was late: it wrote nothing, but has changes that may count without b3."""
    changelog(context, "orders", "b3", "b4")
    context.ledger.batches.record("b4", PUBLISHED, attempt="a1")
    with pytest.raises(RollbackRefusedError, match=r"b4 has changes in shop__cdc\.orders__changes"):
        undo_batch(context, "b3")
    assert everything(context) == [[0, 1, 2, 3]] * 2
    undo_batch(context, "b4")
    undo_batch(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


def test_a_batch_of_repeats_alone_is_not_undone_beneath_others_alone(context: Context) -> None:
    """What it repeats may have been undone since: then the rows are by it."""
    changelog(context, "orders", "b3", "b4")
    context.ledger.batches.record("b4", PUBLISHED, attempt="a1")
    publish(context, "b5", 5, tables=("users",))
    with pytest.raises(
        FollowedError, match=r"b5 came after batch b4, which has changes .* of orders"
    ):
        undo_batch(context, "b4")


def test_undo_does_not_bring_a_batch_back_that_was_undone_beneath(context: Context) -> None:
    """What b3 made of its keys stayed right, so that nothing was written when b2 was undone."""
    undo.finish_undone(context, "b2", KEEP_FILES_HELD)
    context.ledger.batches.record("r1", PUBLISHED, attempt="a1", replace_details={UNDONE: ["b2"]})
    for undone in (
        lambda: undo_batch(context, "b3"),
        lambda: undo_batch(context, "r1"),
        lambda: undo_batches_after(context, "b1"),
        lambda: undo_batches_after(context, "b3"),
    ):
        with pytest.raises(FollowedError, match="batch r1 undid b2"):
            undone()
    assert everything(context) == [[0, 1, 2, 3]] * 2
    publish(context, "b4", 4)
    undo_batch(context, "b4")
    assert everything(context) == [[0, 1, 2, 3]] * 2


def test_undo_is_not_bound_by_changes_of_other_tables_or_earlier_batches(context: Context) -> None:
    changelog(context, "orders", "b2", "b3")
    changelog(context, "papers", "b2", "b4")
    context.ledger.batches.record("b4", PUBLISHED, attempt="a1")
    undo_batch(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


def test_a_published_table_that_somebody_dropped_holds_no_rollback_up(context: Context) -> None:
    context.catalog.drop_table(("shop", "users"))
    undo_batch(context, "b3")
    assert (ids(context, "orders"), state(context, "b3")) == ([0, 1, 2], ROLLED_BACK)


def test_undo_of_a_batch_that_is_undone_already_is_given_up(context: Context) -> None:
    """Of a command that was killed and run again."""
    asked = Rebuild(("orders",), "2026-01-01T00:00:00Z", ("b3",))
    key = context.files.write_manifest(Manifest("shop", "r1", (), rebuild=asked))
    context.ledger.batches.record("r1", LANDED, manifest=key)
    assert stages.reconcile(context) == [key]
    undo_batch(context, "b3")
    assert stages.reconcile(context) == []
    assert state(context, "r1") == ROLLED_BACK


def test_scratch_that_cannot_be_removed_is_left_to_maintenance_and_fails_no_rollback(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    context.ledger.batches.record("b4", FAILED)

    def refuse(*_: object) -> Never:
        raise OSError(errno.EBUSY, "Device or resource busy", "decoded-a1")

    monkeypatch.setattr(context.files, "delete_scratch", refuse)
    undo_batch(replace(context, say=messages.append), "b4")
    assert state(context, "b4") == ROLLED_BACK
    assert messages == [
        "batch b4: files beside the tables are left to maintenance: "
        "OSError: [Errno 16] Device or resource busy: 'decoded-a1'"
    ]
