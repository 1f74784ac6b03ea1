"""rollback where somebody else wrote to a table: what the refusal says to do is not refused too."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from sluice.catalog.snapshots import drop_tags, head
from sluice.catalog.table_publish import publish_table
from sluice.errors import RollbackRefusedError
from sluice.faults import Point
from sluice.ledger.rows import Publication
from sluice.ledger.states import PUBLISHED, ROLLED_BACK, ROLLING_BACK
from sluice.names import SUMMARY_MAINTENANCE, history_table, tag_name
from sluice.operations import refolding, stages, undo
from sluice.operations.context import Context
from tests.unit import staged_tables
from tests.unit.undo_lake import (
    Killed,
    everything,
    killed_at,
    stage,
    state,
    write,
)

pytestmark = [pytest.mark.catalog, pytest.mark.usefixtures("with_changelogs")]

USERS = ("shop", "users")


def half_back(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback of b3 that died once `orders` was back."""
    with monkeypatch.context() as patch:
        patch.setattr(undo, "reach", killed_at(Point.ROLLBACK_TABLE))
        with pytest.raises(Killed):
            refolding.undo_or_refold(context, "b3")
    assert (state(context, "b3"), everything(context)[0]) == (ROLLING_BACK, [0, 1, 2])


def test_advice_for_a_half_rolled_back_batch_lets_it_continue(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said to make the table again, which was refused while the batch was half back."""
    before = head(context.catalog.load_table(USERS))
    half_back(context, monkeypatch)
    write(context, "users", 100)
    with pytest.raises(RollbackRefusedError, match="somebody else wrote snapshot") as refused:
        stages.reconcile(context)
    advice = re.search(
        r"set_current_snapshot\('shop\.users', (\d+)\).*\((.*)\)", str(refused.value)
    )
    assert advice is not None
    assert (int(advice[1]), advice[2]) == (before, "sluice reconcile shop")
    assert not re.search("--rebuild|PIPELINE|TABLE", str(refused.value))
    users = context.catalog.load_table(USERS)
    users.manage_snapshots().set_current_snapshot(int(advice[1])).commit()
    stages.reconcile(context)
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, [[0, 1, 2]] * 2)


def test_refusal_for_a_published_batch_names_the_table_to_rebuild(context: Context) -> None:
    write(context, "users", 100)
    expected = r"shop\.users: somebody else wrote.*sluice rollback shop --rebuild --table users\)"
    with pytest.raises(RollbackRefusedError, match=expected):
        refolding.undo_or_refold(context, "b3")
    assert state(context, "b3") == PUBLISHED


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize("times", [1, 2])
def test_rebuilt_table_is_no_longer_refused(context: Context, times: int) -> None:
    """It is what the refusal says to do; of several rebuilds the last one counts."""
    for value in range(times):
        write(context, "users", 100 + value)
        refolding.rebuild(context, "users")
    lines = refolding.undo_or_refold(context, "b3", dry_run=True).lines
    assert "would fold again without: shop.users: 1 change of batch b3" in lines


@pytest.mark.usefixtures("folded")
def test_a_rebuild_that_somebody_took_back_does_not_hide_other_writers(context: Context) -> None:
    refolding.rebuild(context, "users")
    write(context, "users", 100)
    table = context.catalog.load_table(("shop", "users"))
    theirs = head(table)
    assert theirs is not None
    refolding.rebuild(context, "users")
    table.refresh().manage_snapshots().set_current_snapshot(theirs).commit()
    with pytest.raises(RollbackRefusedError, match="somebody else wrote"):
        refolding.undo_or_refold(context, "b3", dry_run=True)


@pytest.mark.parametrize("followed", [False, True])
def test_a_history_is_made_again_with_its_target(context: Context, followed: bool) -> None:
    """No target has the history's name."""
    name = history_table("users")
    context.catalog.create_table(("shop", name), staged_tables.SCHEMA)
    staged = stage(context, "b4", name, 4)
    publish_table(context.catalog, staged, "b4")
    publication = Publication("shop", "b4", "a1", "shop", name, None, 0, staged.head_snapshot, "x",
                       state=PUBLISHED)  # fmt: skip
    context.ledger.publications.record([publication])
    context.ledger.batches.record("b4", PUBLISHED, attempt="a1")
    if followed:
        context.ledger.batches.record("r", PUBLISHED, replace_details={"undone": ["b2"]})
    write(context, name, 100)
    with pytest.raises(RollbackRefusedError, match=r"shop --rebuild --table users\)"):
        refolding.undo_or_refold(context, "b4")


def rewritten_twice(context: Context, by: str) -> None:
    """`users` after b3, whose own tags are gone, under an operator's tag: of what maintenance, or
    somebody, wrote since the first has expired."""
    table = context.catalog.load_table(USERS)
    published = head(table)
    assert published is not None
    table.manage_snapshots().create_tag(published, "month-end").commit()
    made = []
    for summary in (SUMMARY_MAINTENANCE, by):
        rows = pa.table({"id": pa.array([], pa.int64())})
        context.catalog.load_table(USERS).append(rows, snapshot_properties={summary: "x"})
        made.append(head(context.catalog.load_table(USERS)))
    tags = [tag_name(batch) for batch in ("b1", "b2", "b3")]
    drop_tags(context.catalog, context.catalog.load_table(USERS), tags)
    assert made[0] is not None
    context.catalog.load_table(USERS).maintenance.expire_snapshots().by_id(made[0]).commit()


def test_operators_tag_does_not_make_expired_snapshots_a_foreign_move(context: Context) -> None:
    """It keeps what the batch published; what lies between that and main has expired."""
    rewritten_twice(context, SUMMARY_MAINTENANCE)
    lines = refolding.undo_or_refold(context, "b3", dry_run=True).lines
    assert "between main and what batch b3 published snapshots have expired" in lines[0]
    assert "would fold again without: shop.users: 1 change of batch b3" in lines


def test_foreign_write_behind_expired_snapshots_counts_as_foreign(context: Context) -> None:
    rewritten_twice(context, "theirs")
    with pytest.raises(RollbackRefusedError, match="somebody moved it"):
        refolding.undo_or_refold(context, "b3", dry_run=True)


def test_main_that_somebody_set_back_is_moved(context: Context) -> None:
    """It goes back to before what the batch published, which is not among it."""
    told = context.ledger.publications.of_batches("b2")
    base = next(p.base_snapshot for p in told if p.table_name == "users")
    assert base is not None
    users = context.catalog.load_table(USERS)
    users.manage_snapshots().set_current_snapshot(base).commit()
    with pytest.raises(RollbackRefusedError, match="somebody moved it"):
        refolding.undo_or_refold(context, "b3")
