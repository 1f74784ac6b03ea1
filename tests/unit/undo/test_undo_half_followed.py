"""rollback: a batch that is half back, with another one on a table that is not back yet."""

from __future__ import annotations

from typing import Never

import pytest

from sluice.catalog.table_rollback import rollback_table
from sluice.errors import FollowedError
from sluice.ledger.details import HALF_PUBLISHED, REBUILT, UNDONE
from sluice.ledger.states import FAILED, FILE_HELD, LANDED, ROLLED_BACK, ROLLING_BACK
from sluice.operations import refolding, stages
from sluice.operations.context import Context
from tests.unit.undo_lake import (
    TABLES,
    an_hour_later,
    everything,
    forget_batch,
    publish_users,
    state,
)

pytestmark = pytest.mark.catalog

FOLDED = [[0, 1, 2, 99], [0, 1, 2, 3, 4, 99]]


@pytest.fixture(autouse=True)
def _half_followed(context: Context, folded: None) -> None:
    """`orders` went back to before b3 when the rollback died; b4 wrote `users` after b3."""
    publish_users(context)
    context.ledger.batches.record("b3", ROLLING_BACK, attempt="given-up-1")
    (orders,) = (
        p for p in context.ledger.publications.of_batches("b3") if p.table_name == "orders"
    )
    rollback_table(context.catalog, orders.staged, "b3")


def test_reconcile_names_the_command_that_completes_the_rollback(context: Context) -> None:
    advice = r"batch b4 wrote shop\.users after .*sluice rollback shop --batch b3"
    with pytest.raises(FollowedError, match=advice):
        stages.reconcile(context)
    assert state(context, "b3") == ROLLING_BACK


def test_repeated_rollback_folds_the_batch_out(context: Context) -> None:
    refolding.undo_or_refold(context, "b3")
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, FOLDED)
    assert context.ledger.files.known()["b3.jsonl"].state == FILE_HELD
    assert stages.reconcile(context) == []
    assert refolding.undo_or_refold(context, "b3").lines == ["batch b3 is rolled back already"]


@pytest.mark.parametrize("alone", [True, False])
def test_a_rebuild_that_is_half_back_ends_with_the_fold(context: Context, alone: bool) -> None:
    """It has no changes of its own, which the fold could leave out."""
    rebuild = "b3" if alone else "b5"
    if alone:
        forget_batch(context, "b3")
    else:
        publish_users(context, rebuild)
    context.ledger.batches.record(rebuild, ROLLING_BACK, add_details={REBUILT: ["users"]})
    with pytest.raises(FollowedError, match="sluice rollback shop --batch b"):
        stages.reconcile(context)
    told = refolding.undo_or_refold(context, rebuild).lines
    assert {state(context, batch) for batch in ("b3", rebuild)} == {ROLLED_BACK}
    assert any("change of batch b3" in line for line in told) != alone
    assert stages.reconcile(context) == []


def test_fold_starts_from_the_snapshot_before_the_first_of_the_batches(
    context: Context,
) -> None:
    """They were marked newest first, so that the ledger's row of the oldest is the newest."""
    context.ledger.batches.record("b2", ROLLING_BACK, attempt="given-up-2")
    before = {p.table_name: p.base_snapshot for p in context.ledger.publications.of_batches("b2")}
    back = {p.table_name: p for p in context.ledger.publications.of_batches("b2")}["orders"]
    rollback_table(context.catalog, back.staged, "b2")
    refolding.undo_or_refold(context, "b3")
    assert (state(context, "b2"), state(context, "b3")) == (ROLLED_BACK, ROLLED_BACK)
    (fold,) = (row for row in context.ledger.batches.all() if "undone" in row.details)
    rebuild = context.files.read_manifest(fold.manifest).rebuild
    assert rebuild is not None
    assert {name: rebuild.bases[name] for name in TABLES} == before


def die_while_folding(context: Context, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """The process that folds b3 out dies as it comes to a function, as it is called there."""

    def die(*_: object, **__: object) -> Never:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(refolding, "_give_up", lambda *_: None)
        patch.setattr(f"sluice.operations.{at}", die)
        with pytest.raises(KeyboardInterrupt):
            refolding.undo_or_refold(context, "b3")


def test_a_fold_that_died_before_it_was_published_is_begun_anew(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_while_folding(context, monkeypatch, "refolding.publish")
    an_hour_later()
    refolding.undo_or_refold(context, "b3")
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, FOLDED)


@pytest.mark.parametrize("at", ["publish.refuse_moved", "publish.finish_undone"])
def test_a_fold_that_died_while_it_was_published_is_completed(
    context: Context, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Not by completing the rollback first, which waits for the fold."""
    die_while_folding(context, monkeypatch, at)
    an_hour_later()
    assert stages.reconcile(context) == []
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, FOLDED)


def test_a_fold_that_is_half_published_and_failed_is_loaded_again(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_while_folding(context, monkeypatch, "refolding.publish")
    (row,) = (row for row in context.ledger.batches.all() if UNDONE in row.details)
    context.ledger.batches.record(row.batch_id, FAILED, add_details={HALF_PUBLISHED: True})
    an_hour_later()
    assert stages.reconcile(context) == [row.manifest]


def test_no_batch_loads_beside_a_half_rolled_back_one(context: Context) -> None:
    context.ledger.batches.record("b5", LANDED)
    with pytest.raises(FollowedError):
        stages.run(context)
