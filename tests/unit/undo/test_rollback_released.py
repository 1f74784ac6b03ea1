"""A rollback that is to release files and was killed: whoever completes it releases these alone."""

from __future__ import annotations

import pytest

from sluice.faults import Point
from sluice.ledger.details import RELEASED_BY, ROLLED_BACK_BY
from sluice.ledger.states import FILE_CLAIMED, FILE_HELD, FILE_RELEASED, ROLLED_BACK
from sluice.operations import refolding, stages
from sluice.operations.context import Context
from sluice.operations.rollback import RollbackRequest, roll_back
from tests.unit.undo_lake import (
    Killed,
    an_hour_later,
    at_point,
    killed_at,
    pass_points,
    publish_users,
    state,
)

pytestmark = pytest.mark.catalog

TO_B1 = RollbackRequest(to="b1", release=True, user="ann")
SIGNED = {ROLLED_BACK_BY: "ann", RELEASED_BY: "ann"}


def killed(
    context: Context, monkeypatch: pytest.MonkeyPatch, request: RollbackRequest,
    point: Point = Point.ROLLBACK_MARKED, time: int = 1,
) -> None:  # fmt: skip
    with monkeypatch.context() as patch:
        pass_points(patch, killed_at(point, time))
        with pytest.raises(Killed):
            roll_back(context, request)
    an_hour_later()


def files(context: Context) -> dict[str, str]:
    known = context.ledger.files.known()
    return {key.removesuffix(".jsonl"): row.state for key, row in known.items()}


def details(context: Context, batch: str) -> dict[str, object]:
    row = context.ledger.batches.get(batch)
    assert row is not None
    return row.details


@pytest.mark.parametrize(
    ("point", "time"),
    [(Point.ROLLBACK_MARKED, 1), (Point.ROLLBACK_FILES, 1), (Point.ROLLBACK_FILES, 2)],
)
@pytest.mark.parametrize("reconciled", [False, True])
def test_files_are_released_whoever_completes_the_rollback(
    context: Context, monkeypatch: pytest.MonkeyPatch, point: Point, time: int, reconciled: bool
) -> None:
    killed(context, monkeypatch, TO_B1, point, time)
    if reconciled:
        stages.reconcile(context)
    roll_back(context, TO_B1)
    assert files(context) == {"b1": FILE_CLAIMED, "b2": FILE_RELEASED, "b3": FILE_RELEASED}
    for batch in ("b2", "b3"):
        assert (state(context, batch), details(context, batch)) == (ROLLED_BACK, SIGNED)


def test_files_that_another_rollback_holds_stay_held(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(context, monkeypatch, RollbackRequest("b3", user="bob"))
    lines = roll_back(context, TO_B1)
    assert lines[-2:] == [
        "1 file released to the next run",
        "1 file of batch b3 is held until: sluice release shop --batch b3",
    ]
    assert files(context) == {"b1": FILE_CLAIMED, "b2": FILE_RELEASED, "b3": FILE_HELD}
    assert (details(context, "b2"), details(context, "b3")) == (SIGNED, {ROLLED_BACK_BY: "bob"})


def test_a_rollback_that_held_is_to_release_if_its_batch_is_named(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(context, monkeypatch, RollbackRequest("b3", user="bob"))
    roll_back(context, RollbackRequest("b3", release=True, user="ann"))
    assert (files(context)["b3"], details(context, "b3")) == (FILE_RELEASED, SIGNED)


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize("release", [False, True])
def test_a_batch_that_others_followed_is_released_with_its_fold(
    context: Context, monkeypatch: pytest.MonkeyPatch, release: bool
) -> None:
    """Also by whoever completes that."""
    publish_users(context)

    def die() -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(refolding, "_give_up", lambda *_: None)
        patch.setattr("sluice.operations.publish.reach", at_point(Point.PUBLISH_RECORDED, die))
        with pytest.raises(Killed):
            roll_back(context, RollbackRequest("b3", release=release, user="ann"))
    an_hour_later()
    stages.reconcile(context)
    assert files(context)["b3"] == (FILE_RELEASED if release else FILE_HELD)
    assert details(context, "b3") == (SIGNED if release else {ROLLED_BACK_BY: "ann"})


@pytest.mark.usefixtures("folded")
def test_a_fold_releases_what_a_rollback_that_was_killed_was_to_release(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(context, monkeypatch, RollbackRequest("b3", release=True, user="ann"))
    publish_users(context)
    roll_back(context, RollbackRequest("b3"))
    assert (files(context)["b3"], details(context, "b3")) == (FILE_RELEASED, SIGNED)


def test_a_batch_that_is_released_again_is_signed_by_whoever_asked(context: Context) -> None:
    roll_back(context, RollbackRequest("b3", user="bob"))
    assert details(context, "b3") == {ROLLED_BACK_BY: "bob"}
    lines = roll_back(context, RollbackRequest("b3", release=True, user="ann"))
    assert lines[-1] == "1 file released to the next run"
    assert (files(context)["b3"], details(context, "b3")) == (FILE_RELEASED, SIGNED)
