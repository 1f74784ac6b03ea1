"""rollback of several batches: wherever it dies, and however often, the next one completes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluice.faults import Point
from sluice.ledger.comment_log import CommentStatement, record
from sluice.ledger.states import ROLLED_BACK, ROLLING_BACK
from sluice.operations import comments, stages, undo
from sluice.operations.context import Context
from tests.unit.undo_lake import (
    Killed,
    an_hour_later,
    everything,
    killed_at,
    pass_points,
    publish_users,
    state,
)

pytestmark = pytest.mark.catalog


def killed(monkeypatch: pytest.MonkeyPatch, point: Point, work: Callable[[], object]) -> None:
    with monkeypatch.context() as patched:
        pass_points(patched, killed_at(point))
        with pytest.raises(Killed):
            work()


@pytest.mark.parametrize(
    "first", [Point.ROLLBACK_TABLE, Point.ROLLBACK_CHANGES, Point.ROLLBACK_RECORDED]
)
@pytest.mark.parametrize("marked_last", ["b2", "b3"])
def test_rollback_whose_completion_dies_too_is_completed(
    context: Context, monkeypatch: pytest.MonkeyPatch, first: Point, marked_last: str
) -> None:
    """What was marked last is not what was published first: earlier releases marked the batches one
    by one, and could die in between."""
    killed(monkeypatch, first, lambda: undo.undo_batches_after(context, "b1"))
    an_hour_later()
    killed(monkeypatch, Point.ROLLBACK_MARKED, lambda: stages.reconcile(context))
    context.ledger.batches.record(marked_last, ROLLING_BACK)
    stages.reconcile(context)
    assert everything(context) == [[0, 1]] * 2
    assert (state(context, "b2"), state(context, "b3")) == (ROLLED_BACK, ROLLED_BACK)


def test_batch_published_meanwhile_is_undone_before_the_interrupted_ones(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded batch may be published while a rollback stands still for longer than a lease."""
    killed(monkeypatch, Point.ROLLBACK_TABLE, lambda: undo.undo_batches_after(context, "b1"))
    assert everything(context) == [[0, 1, 2], [0, 1, 2, 3]]
    an_hour_later()
    publish_users(context)
    undo.undo_batches_after(context, "b1")
    assert everything(context) == [[0, 1]] * 2
    assert {state(context, batch) for batch in ("b2", "b3", "b4")} == {ROLLED_BACK}


@pytest.mark.parametrize("first", [Point.ROLLBACK_CHANGES, Point.ROLLBACK_RECORDED])
def test_completing_a_rollback_sets_the_comments_of_remaining_batches(
    context: Context, monkeypatch: pytest.MonkeyPatch, first: Point
) -> None:
    """The schema from before the batch, which comes back, may be without them."""
    statement = CommentStatement("shop", "orders", "0000.2.1", 0, "id", "the key")
    record(context.catalog, "shop", "b2", [statement])
    comments.apply_comments(context)
    killed(monkeypatch, first, lambda: undo.undo_batch(context, "b3"))
    an_hour_later()
    stages.reconcile(context)
    assert state(context, "b3") == ROLLED_BACK
    schema = context.catalog.load_table(("shop", "orders")).schema()
    assert schema.find_field("id").doc == "the key"
