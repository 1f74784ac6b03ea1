"""An undo by folding whose tables are complete: it is completed, whatever interrupts it."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from sluice.catalog.snapshots import head
from sluice.errors import LeaseHeldError, RollbackRefusedError, TransientError
from sluice.ledger import changelogs
from sluice.ledger.changelogs import files_of
from sluice.ledger.details import HALF_PUBLISHED, KEEP_FILES_HELD, of_deleting_undone, of_rebuild
from sluice.ledger.states import FAILED, FILE_HELD, PUBLISHED, PUBLISHING, ROLLED_BACK, ROLLING_BACK
from sluice.manifest import Manifest, Rebuild
from sluice.names import changelog_table
from sluice.operations import comments, refolding, rollback_mark, stages, undo
from sluice.operations.context import Context
from sluice.operations.obsolete import why_obsolete
from sluice.operations.rollback_mark import RollbackMark
from tests.unit.undo_lake import (
    TABLES,
    Killed,
    an_hour_later,
    everything,
    fold,
    publish,
    state,
)

pytestmark = [pytest.mark.catalog, pytest.mark.usefixtures("folded")]

# It has later batches on it, so that it is folded out; one row stands for that.
WITHOUT_B1 = [[0, 1, 2, 3, 99]] * 2


def changes(context: Context, batch: str) -> list[int]:
    tables = [context.catalog.load_table(("shop__cdc", changelog_table(n))) for n in TABLES]
    return [len(files_of(table, batch)) for table in tables]


def undoing(context: Context) -> str:
    """The batch by which others are undone."""
    (row,) = (r for r in context.ledger.batches.all() if "undone" in r.details)
    return row.batch_id


def breaks_once(
    patch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException, at: int = 1
) -> None:
    """Have the call with this number of a function end by an error."""
    real, calls = getattr(owner, name), []

    def called(*args: Any, **more: Any) -> Any:
        calls.append(name)
        if len(calls) == at:
            raise error
        return real(*args, **more)

    patch.setattr(owner, name, called)


LOCKED_OUT = OperationalError("INSERT", {}, Exception("permission denied for table iceberg_tables"))


@pytest.mark.parametrize(
    ("owner", "name", "at", "left", "error"),
    [
        (changelogs, "_forget", 2, [0, 1], KeyboardInterrupt()),
        (RollbackMark, "record_undone", 1, [0, 0], LOCKED_OUT),
        (comments, "apply_comments", 1, [0, 0], TransientError("others wrote")),
        (rollback_mark, "hold_files", 1, [0, 0], KeyboardInterrupt()),
    ],
    ids=["second changelog", "publications", "comments", "files"],
)
def test_an_undo_that_is_interrupted_while_it_takes_the_batch_out_is_completed(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    at: int,
    left: list[int],
    error: BaseException,
) -> None:
    """Its tables went back to what they were, with rows of a batch that had no changes any more."""
    with monkeypatch.context() as patch:
        breaks_once(patch, owner, name, error, at)
        with pytest.raises(type(error)):
            refolding.undo_or_refold(context, "b1")
    assert (state(context, undoing(context)), everything(context)) == (PUBLISHING, WITHOUT_B1)
    assert changes(context, "b1") == left
    an_hour_later()
    stages.reconcile(context)
    assert (state(context, undoing(context)), state(context, "b1")) == (PUBLISHED, ROLLED_BACK)
    assert (changes(context, "b1"), everything(context)) == ([0, 0], WITHOUT_B1)
    assert context.ledger.files.known()["b1.jsonl"].state == FILE_HELD


def kill(context: Context, monkeypatch: pytest.MonkeyPatch) -> str:
    """End the undo of b1 before that is told to be undone; returns the batch that undoes it."""
    with monkeypatch.context() as patch:
        breaks_once(patch, RollbackMark, "record_undone", Killed())
        patch.setattr(refolding, "_give_up", lambda *_: None)
        with pytest.raises(Killed):
            refolding.undo_or_refold(context, "b1")
    an_hour_later()
    return undoing(context)


def test_an_undo_that_was_killed_while_it_took_the_batch_out_is_not_rolled_back(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = kill(context, monkeypatch)
    expected = (
        rf"{mine} of shop is undoing b1: that can only be completed.*\(sluice reconcile shop\)"
    )
    with pytest.raises(RollbackRefusedError, match=expected):
        refolding.undo_or_refold(context, mine)
    assert (state(context, mine), everything(context)) == (PUBLISHING, WITHOUT_B1)
    assert refolding.undo_or_refold(context, "b1").lines == ["batch b1 is rolled back already"]
    assert state(context, mine) == PUBLISHED


def test_an_undo_that_takes_the_batch_out_is_not_loaded_again(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody moved a table since; without its changes the batch's keys would not be found."""
    mine = kill(context, monkeypatch)
    table = context.catalog.load_table(("shop", "users"))
    before = next(
        p for p in context.ledger.publications.of_batches(mine) if p.table_name == "users"
    )
    assert before.base_snapshot is not None
    table.manage_snapshots().rollback_to_snapshot(before.base_snapshot).commit()
    monkeypatch.setattr("sluice.operations.publish.load", lambda *_: 1 / 0)
    stages.reconcile(context)
    assert (state(context, mine), state(context, "b1")) == (PUBLISHED, ROLLED_BACK)
    assert head(context.catalog.load_table(("shop", "users"))) == before.base_snapshot


@pytest.mark.parametrize(
    ("look", "error", "message"),
    [
        (1, RollbackRefusedError, "u1 of shop is undoing b1"),
        (2, LeaseHeldError, "another run went on with it"),
    ],
)
def test_undo_that_starts_to_fold_after_the_check_is_not_rolled_back(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    look: int,
    error: type[Exception],
    message: str,
) -> None:
    """By its publisher, which stood still, and wakes up after the first or the second look."""
    asked = Manifest("shop", "u1", (), rebuild=Rebuild(TABLES, "now", ("b1",)))
    key = context.files.write_manifest(asked)
    publish(context, "u1", 99, state=PUBLISHING)
    context.ledger.batches.record(
        "u1", PUBLISHING, manifest=key, replace_details={"undone": ["b1"]}
    )

    looks: list[object] = []

    def wake_up(*given: object) -> None:
        looks.append(given)
        if len(looks) == look:
            context.ledger.batches.record("u1", PUBLISHING, add_details=of_deleting_undone("a1"))

    monkeypatch.setattr(undo, "refuse_if_followed", wake_up)
    with pytest.raises(error, match=message):
        undo.undo_batch(context, "u1")
    assert (state(context, "u1"), everything(context)) == (PUBLISHING, WITHOUT_B1)


def refuses_tags(context: Context, patch: pytest.MonkeyPatch, times: int) -> None:
    """Somebody's commit of anything, before some of the commits that drop a tag."""
    real, refused = context.catalog.commit_table, []

    def commit(table: Table, requirements: Any, updates: Any) -> Any:
        tags = [one for one in requirements if getattr(one, "ref", "").startswith("batch-")]
        if len(tags) == len(requirements) and len(refused) < times:
            refused.append(table)
            raise CommitFailedException("somebody committed something")
        return real(table, requirements, updates)

    patch.setattr(context.catalog, "commit_table", commit)


def test_somebodys_commit_while_tags_are_dropped_holds_no_undo_up(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was loaded again, for an undo of batches that partly were undone, and refused so."""
    refuses_tags(context, monkeypatch, 2)
    monkeypatch.setattr("sluice.operations.publish.load", lambda *_: 1 / 0)
    refolding._refold_without(context, ["b1", "b2"], "as asked", False, {})
    assert [state(context, b) for b in (undoing(context), "b1", "b2")] == [
        PUBLISHED, *[ROLLED_BACK] * 2,
    ]  # fmt: skip
    assert everything(context) == WITHOUT_B1
    refs = context.catalog.load_table(("shop", "users")).metadata.refs
    assert not {"batch-b1", "batch-b2"} & refs.keys()


def test_a_tag_that_cannot_be_dropped_is_left_to_reconcile(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.operations.publish.load", lambda *_: 1 / 0)
    with monkeypatch.context() as patch:
        refuses_tags(context, patch, 99)
        with pytest.raises(TransientError, match="tag batch-b1 could not be dropped"):
            refolding._refold_without(context, ["b1", "b2"], "as asked", False, {})
    an_hour_later()
    stages.reconcile(context)
    assert [state(context, b) for b in (undoing(context), "b1", "b2")] == [
        PUBLISHED, *[ROLLED_BACK] * 2,
    ]  # fmt: skip


def half_taken_out(context: Context) -> str:
    """An undo of b1 and b2 that an earlier release left, of which b1 is undone: its load failed."""
    asked = Manifest("shop", "u1", (), rebuild=Rebuild(TABLES, "now", ("b1", "b2")))
    key = context.files.write_manifest(asked)
    publish(context, "u1", 99, state=PUBLISHING)
    undo.finish_undone(context, "b1", KEEP_FILES_HELD)
    details = of_rebuild(asked) | {HALF_PUBLISHED: True}
    context.ledger.batches.record("u1", FAILED, attempt="a1", manifest=key, replace_details=details)
    return key


def test_half_completed_undo_of_two_batches_is_loaded_again(context: Context) -> None:
    key = half_taken_out(context)
    assert why_obsolete(context, context.files.read_manifest(key)) == ""
    assert stages.reconcile(context) == [key]
    fold(context, 98)(context, key)
    stages.publish(context, key)
    assert [state(context, b) for b in ("u1", "b1", "b2")] == [PUBLISHED, *[ROLLED_BACK] * 2]


@pytest.mark.parametrize("asked", ["u1", "b2", "b3"])
def test_rollback_behind_an_unfinished_undo_is_refused_with_the_run_command(
    context: Context, asked: str
) -> None:
    """It said to give that up, which was refused, or to reconcile, which loads nothing."""
    half_taken_out(context)
    with pytest.raises(RollbackRefusedError, match=r"\(sluice run shop\)") as refused:
        refolding.undo_or_refold(context, asked)
    assert "give it up" not in str(refused.value)


def test_rollback_behind_a_dead_rollback_is_refused_with_the_reconcile_command(
    context: Context,
) -> None:
    publish(context, "b4", 4)
    context.ledger.batches.record("b4", ROLLING_BACK, attempt="given-up-1")
    with pytest.raises(RollbackRefusedError, match=r"\(sluice reconcile shop\)") as refused:
        refolding.undo_or_refold(context, "b3")
    assert "give it up" not in str(refused.value)
