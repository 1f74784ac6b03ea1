"""rollback: what another run publishes between the first check and the lease is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from pyiceberg.table import DataScan

from sluice.errors import (
    FollowedError,
    LeaseHeldError,
    PublishRefusedError,
    RollbackRefusedError,
)
from sluice.faults import Point
from sluice.ledger.details import of_deleting_undone
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.states import LOADED, LOADING, PUBLISHED, PUBLISHING, ROLLED_BACK
from sluice.operations import followed, refolding, undo
from sluice.operations.context import Context
from sluice.operations.holding import pipeline_lease
from sluice.operations.published_batches import published_rows
from sluice.operations.valid_publications import newest_first
from sluice.result import BatchResult
from tests.unit.undo_lake import (
    TABLES,
    an_hour_later,
    at_point,
    changelog,
    everything,
    fold,
    publish,
    publish_users,
    state,
)

pytestmark = pytest.mark.catalog

BEFORE = [[0, 1, 2, 3]] * 2


def meanwhile(monkeypatch: pytest.MonkeyPatch, other_run: Callable[[], None]) -> None:
    """`other_run` has the pipeline's lease right before the rollback gets it."""

    @contextmanager
    def late(ctx: Context, *batches: str) -> Iterator[str]:
        other_run()
        with pipeline_lease(ctx, *batches) as attempt:
            yield attempt

    monkeypatch.setattr(undo, "pipeline_lease", late)


@pytest.mark.parametrize("way", [undo.undo_batch, undo.undo_batches_after])
def test_a_batch_published_onto_one_of_the_tables_is_noticed(
    context: Context, monkeypatch: pytest.MonkeyPatch, way: Callable[..., list[str]]
) -> None:
    meanwhile(monkeypatch, lambda: publish_users(context))
    with pytest.raises(FollowedError, match=r"batch b4 wrote shop\.users after batch b3"):
        way(context, "b3" if way is undo.undo_batch else "b2")
    assert everything(context) == [BEFORE[0], [0, 1, 2, 3, 4]]
    assert (state(context, "b3"), state(context, "b4")) == (PUBLISHED, PUBLISHED)


def test_a_batch_that_was_compared_and_wrote_nothing_is_noticed(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late_events() -> None:
        changelog(context, "orders", "b4")
        context.ledger.batches.record("b4", PUBLISHED, attempt="a1")

    meanwhile(monkeypatch, late_events)
    with pytest.raises(
        FollowedError, match=r"batch b4 has changes in .*, which were compared with b3"
    ):
        undo.undo_batch(context, "b3")
    assert (everything(context), state(context, "b3")) == (BEFORE, PUBLISHED)


def test_a_batch_that_was_loaded_is_noticed(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(
        monkeypatch, lambda: publish(context, "b4", 4, tables=(), state=LOADED)
    )  # its publisher has not begun
    with pytest.raises(RollbackRefusedError, match="batch b4 of shop is loaded"):
        undo.undo_batch(context, "b3")
    assert (everything(context), state(context, "b3")) == (BEFORE, PUBLISHED)


@pytest.mark.parametrize("lapsed", [True, False])
def test_a_rollback_suspended_after_its_check_marks_nothing_without_the_lease(
    context: Context, monkeypatch: pytest.MonkeyPatch, lapsed: bool
) -> None:
    """Else the events that the other batch found late would be in no table."""
    mark = undo._begin

    def late(ctx: Context, *args: Any) -> str:
        if lapsed:
            an_hour_later()
        with nullcontext() if lapsed else pytest.raises(LeaseHeldError):
            ctx.ledger.lease.acquire("b4", "a1", Lease("elsewhere:1", 60))
            ctx.ledger.batches.record("b4", PUBLISHED)
        return mark(ctx, *args)

    monkeypatch.setattr(undo, "_begin", late)
    with pytest.raises(LeaseHeldError, match="this attempt lapsed") if lapsed else nullcontext():
        undo.undo_batch(context, "b3")
    assert state(context, "b3") == (PUBLISHED if lapsed else ROLLED_BACK)
    assert everything(context) == (BEFORE if lapsed else [[0, 1, 2]] * 2)


def test_a_rollback_of_a_publication_that_was_completed_since_its_check_marks_nothing(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no lease, and other batches may have been loaded and published after that one."""
    publish(context, "b4", 4, state=PUBLISHING)
    context.ledger.batches.record("b4", PUBLISHING, lease=Lease(this_holder(), 60))
    mark = undo._begin

    def late(*args: Any) -> str:
        context.ledger.batches.record("b4", PUBLISHED)
        return mark(*args)

    with monkeypatch.context() as patch:
        patch.setattr(undo, "_begin", late)
        with pytest.raises(LeaseHeldError, match="batch b4 of shop is published: another run"):
            undo.undo_batch(context, "b4")
    assert state(context, "b4") == PUBLISHED
    undo.undo_batch(context, "b4")
    assert everything(context) == BEFORE


def test_a_batch_that_began_to_delete_what_it_undoes_since_the_check_is_not_marked(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can only be completed: the changes of the undone batches may be gone."""
    publish(context, "b4", 4, state=PUBLISHING)
    mark = undo._begin

    def late(*args: Any) -> str:
        context.ledger.batches.record("b4", PUBLISHING, add_details=of_deleting_undone("a1"))
        return mark(*args)

    monkeypatch.setattr(undo, "_begin", late)
    with pytest.raises(LeaseHeldError, match="batch b4"):
        undo.undo_batch(context, "b4")
    assert (state(context, "b4"), everything(context)) == (PUBLISHING, [[0, 1, 2, 3, 4]] * 2)


def test_a_batch_that_another_attempt_took_up_since_the_look_is_not_given_up(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.ledger.batches.record("b4", LOADING, attempt="a1")

    def late(ctx: Context, _: object) -> None:
        ctx.ledger.lease.acquire("b4", "a2", Lease("elsewhere:1", 60))

    monkeypatch.setattr(undo, "_refuse_at_work", late)
    with pytest.raises(LeaseHeldError, match="batch b4"):
        undo.give_up(context, "b4")
    row = context.ledger.batches.get("b4")
    assert row is not None
    assert (row.state, row.attempt) == (LOADING, "a2")


def suspended_when_loaded(
    context: Context, monkeypatch: pytest.MonkeyPatch, other: str, state: str
) -> list[str]:
    """The batch `other` gets `state` while the fold without b3 is about to be published; return the
    manifests that are loaded again."""

    def other_run() -> None:
        context.ledger.batches.record(other, state, attempt="a9")

    publish_users(context)
    again, load = [], fold(context, 98, "a2")

    def load_again(ctx: Context, key: str) -> BatchResult:
        again.append(key)
        return load(ctx, key)

    monkeypatch.setattr("sluice.operations.publish.load", load_again)
    monkeypatch.setattr("sluice.operations.publish.reach", at_point(Point.PUBLISH_HELD, other_run))
    return again


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize("other", ["b5", "b2"])
def test_a_fold_of_other_batches_than_are_published_now_is_made_again(
    context: Context, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """A batch that was late everywhere moves no table, and is missing in a fold from before it."""
    now = {"b5": PUBLISHED, "b2": ROLLED_BACK}[other]
    again = suspended_when_loaded(context, monkeypatch, other, now)
    refolding.undo_or_refold(context, "b3")
    assert len(again) == 1
    assert state(context, "b3") == ROLLED_BACK
    assert everything(context) == [[0, 1, 2, 3, 98], [0, 1, 2, 3, 4, 98]]


@pytest.mark.usefixtures("folded")
def test_no_fold_is_published_beside_a_batch_that_was_compared_with_what_goes(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspended_when_loaded(context, monkeypatch, "b5", LOADED)
    with pytest.raises(PublishRefusedError, match="b5 is loaded, and may have been compared"):
        refolding.undo_or_refold(context, "b3")
    assert state(context, "b3") == PUBLISHED
    assert everything(context) == [[0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_a_changelog_is_scanned_once_however_many_batches_followed(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in TABLES:
        changelog(context, name, "b1")
    scans: list[object] = []
    plan = DataScan.plan_files

    def counted(scan: DataScan) -> object:
        scans.append(scan)
        return plan(scan)

    published = newest_first(context, ["b1"])
    followed_by = followed._followed(published_rows(context), published)
    with monkeypatch.context() as patch:
        patch.setattr(DataScan, "plan_files", counted)
        followed._refuse_if_changes_compared(context, published, followed_by)
    assert len([scan for scan in scans if _is_of_a_changelog(scan)]) == len(TABLES)


def _is_of_a_changelog(scan: Any) -> bool:
    return bool(scan.table_metadata.location.endswith("__changes"))
