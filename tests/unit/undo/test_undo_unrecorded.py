"""rollback if no changelog shows what a batch changed: it is refused, and not reported as done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.errors import RollbackRefusedError
from sluice.ledger.states import PUBLISHED, ROLLED_BACK
from sluice.names import PROP_FLOOR, changelog_table
from sluice.operations import refolding
from sluice.operations.context import Context
from tests.unit.undo_lake import TABLES, changelog, everything, forget_batch, state

pytestmark = pytest.mark.catalog


@pytest.fixture(autouse=True)
def _nothing_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refolding, "load", lambda *_: 1 / 0)


def moved(context: Context, namespace: str) -> Context:
    """The pipeline, after its `namespace` was changed."""
    return replace(context, pipeline=context.pipeline.model_copy(update={"namespace": namespace}))


@pytest.mark.usefixtures("with_changelogs")
def test_batch_in_a_namespace_that_the_pipeline_left_is_not_reported_as_undone(
    context: Context,
) -> None:
    """Nothing was folded, and its rows stayed; its files were held all the same."""
    expected = (
        r"shop\.orders: .* namespace shop, which pipeline shop left for another: with "
        r"`namespace: shop` again .* or, if nobody reads the table"
    )
    with pytest.raises(RollbackRefusedError, match=expected):
        refolding.undo_or_refold(moved(context, "another"), "b1")
    assert (state(context, "b1"), everything(context)) == (PUBLISHED, [[0, 1, 2, 3]] * 2)
    assert context.ledger.files.known()["b1.jsonl"].state == "claimed"


@pytest.mark.usefixtures("with_changelogs")
def test_tables_of_one_name_in_two_namespaces_are_two(context: Context) -> None:
    """The new one has the changes of the batch too: its files were read again."""
    context.catalog.create_namespace("another__cdc")
    for name in TABLES:
        ident = ("another__cdc", changelog_table(name))
        log = context.catalog.load_table(("shop__cdc", changelog_table(name)))
        made = context.catalog.create_table(
            ident, log.schema(), partition_spec=log.spec(), properties=log.properties
        )
        made.append(log.scan().to_arrow())
    with pytest.raises(RollbackRefusedError, match="which pipeline shop left for another"):
        refolding.undo_or_refold(moved(context, "another"), "b1")


def test_a_batch_whose_tables_left_with_the_namespace_and_are_gone_is_undone(
    context: Context,
) -> None:
    """The way that the message tells."""
    for name in TABLES:
        context.catalog.drop_table(("shop", name))
    refolding.undo_or_refold(moved(context, "another"), "b1")
    assert state(context, "b1") == ROLLED_BACK


def test_a_batch_that_wrote_a_table_without_a_changelog_is_not_undone_beneath_others(
    context: Context,
) -> None:
    changelog(context, "users", "b1", "b2", "b3")
    with pytest.raises(
        RollbackRefusedError, match=r"shop\.orders: it is unknown .*: its changelog is gone"
    ):
        refolding.undo_or_refold(context, "b1")
    assert state(context, "b1") == PUBLISHED


@pytest.mark.usefixtures("with_changelogs")
def test_batch_whose_changes_are_gone_is_not_reported_as_undone(context: Context) -> None:
    """As after an undo that an earlier release gave up in its last step."""
    forget_batch(context, "b1", besides=[("shop__cdc", "users__changes")])
    expected = r"shop\.orders: .* has no changes of batch b1.*sluice rollback shop --rebuild"
    with pytest.raises(RollbackRefusedError, match=expected):
        refolding.undo_or_refold(context, "b1")
    assert state(context, "b1") == PUBLISHED


def test_a_batch_without_rows_beneath_which_another_was_undone_needs_nothing_folded(
    context: Context,
) -> None:
    """All of its records are in quarantine, say: there is nothing that could go back."""
    context.ledger.batches.record("b4", PUBLISHED, attempt="a1")
    context.ledger.batches.record("r1", PUBLISHED, attempt="a1", replace_details={"undone": ["b2"]})
    assert refolding.undo_or_refold(context, "b4").lines == []
    assert state(context, "b4") == ROLLED_BACK


def forget(context: Context, *batches: str) -> None:
    """What retention does."""
    for name in TABLES:
        with context.catalog.load_table(("shop", name)).transaction() as transaction:
            transaction.set_properties({PROP_FLOOR: "x"})
    for batch in batches:
        forget_batch(context, batch)


def repeated(context: Context) -> None:
    """A batch c of what b3 brought, which wrote nothing."""
    for name in TABLES:
        changelog(context, name, "b1", "b2", "b3", "c")
    context.ledger.batches.record("c", PUBLISHED, attempt="a1")


def test_a_batch_whose_repeats_may_be_forgotten_is_not_undone_alone(context: Context) -> None:
    """Its rows went, and those of the batch that repeated them were in no table."""
    repeated(context)
    forget(context, "b1", "b2", "b3", "c")
    expected = r"shop\.orders: maintenance has forgotten the changes of batch b3 .* of batch c"
    for dry_run in (True, False):
        with pytest.raises(RollbackRefusedError, match=expected):
            refolding.undo_or_refold(context, "b3", dry_run)
    assert (state(context, "b3"), everything(context)) == (PUBLISHED, [[0, 1, 2, 3]] * 2)
    refolding.undo_or_refold(context, "c")
    refolding.undo_or_refold(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


def test_a_batch_without_changes_is_not_taken_for_one_that_is_forgotten(context: Context) -> None:
    """It came after one of which the changelogs have all."""
    for name in TABLES:
        changelog(context, name, "b2")
    context.ledger.batches.record("c", PUBLISHED, attempt="a1")
    forget(context, "b1")
    refolding.undo_or_refold(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


def test_undo_is_refused_by_later_batches_in_a_namespace_that_the_pipeline_left(
    context: Context,
) -> None:
    repeated(context)
    with pytest.raises(RollbackRefusedError, match="which pipeline shop left for another"):
        refolding.undo_or_refold(moved(context, "another"), "b3")
    assert everything(context) == [[0, 1, 2, 3]] * 2
