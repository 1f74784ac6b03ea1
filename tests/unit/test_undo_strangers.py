"""rollback where somebody else wrote to a table: what the refusal says to do is not refused too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.catalog.snapshots import head, publish_table, rollback_table
from sluice.errors import RollbackRefused
from sluice.ledger.rows import PUBLISHED, ROLLED_BACK, ROLLING_BACK, Publication
from sluice.names import history_table
from sluice.operations import refolding, stages, undo
from sluice.operations.context import Context
from tests.unit import branches
from tests.unit.undone import TABLES, changelog, everything, stage, state, three_batches, write

pytestmark = pytest.mark.catalog

USERS = ("shop", "users")


class Killed(BaseException):
    """What ends a process where it stands."""


@pytest.fixture
def context(tmp_path: Path) -> Context:
    context = three_batches(tmp_path)
    for name in TABLES:
        changelog(context, name, "b1", "b2", "b3")
    return context


def half_back(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback of b3 that died once `orders` was back."""
    real = rollback_table

    def once(*asked: object) -> object:
        if asked[2] == "users":
            raise Killed
        return real(*asked)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(undo, "rollback_table", once)
        with pytest.raises(Killed):
            refolding.rollback(context, "b3")
    assert (state(context, "b3"), everything(context)[0]) == (ROLLING_BACK, [0, 1, 2])


def test_what_a_half_rolled_back_batch_says_to_do_lets_it_go_on(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said to make the table again, which was refused while the batch was half back."""
    before = head(context.catalog.load_table(USERS))
    half_back(context, monkeypatch)
    write(context, "users", 100)
    with pytest.raises(RollbackRefused, match="somebody else wrote snapshot") as refused:
        stages.reconcile(context)
    told = re.search(r"set_current_snapshot\('shop\.users', (\d+)\).*\((.*)\)", str(refused.value))
    assert told is not None
    assert (int(told[1]), told[2]) == (before, "sluice reconcile shop")
    assert not re.search("--rebuild|PIPELINE|TABLE", str(refused.value))
    users = context.catalog.load_table(USERS)
    users.manage_snapshots().set_current_snapshot(int(told[1])).commit()
    stages.reconcile(context)
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, [[0, 1, 2]] * 2)


def test_a_published_batch_is_told_which_table_to_make_again(context: Context) -> None:
    write(context, "users", 100)
    told = r"shop\.users: somebody else wrote.*sluice rollback shop --rebuild --table users\)"
    with pytest.raises(RollbackRefused, match=told):
        refolding.rollback(context, "b3")
    assert state(context, "b3") == PUBLISHED


@pytest.mark.parametrize("followed", [False, True])
def test_a_history_is_made_again_with_its_target(context: Context, followed: bool) -> None:
    """No target has the history's name."""
    name = history_table("users")
    context.catalog.create_table(("shop", name), branches.SCHEMA)
    staged = stage(context, "b4", name, 4)
    publish_table(context.catalog, staged, "b4")
    told = Publication("shop", "b4", "a1", "shop", name, None, 0, staged.head_snapshot, "x",
                       state=PUBLISHED)  # fmt: skip
    context.ledger.record_publications([told])
    context.ledger.record_batch("shop", "b4", PUBLISHED, attempt="a1")
    if followed:
        context.ledger.record_batch("shop", "r", PUBLISHED, detail={"undone": ["b2"]})
    write(context, name, 100)
    with pytest.raises(RollbackRefused, match=r"shop --rebuild --table users\)"):
        refolding.rollback(context, "b4")
