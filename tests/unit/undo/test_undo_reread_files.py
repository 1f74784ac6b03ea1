"""rollback of a batch whose files were read again, for a table that came to the pipeline later."""

from __future__ import annotations

import pytest

from sluice.errors import RollbackRefusedError
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.details import of_tables
from sluice.ledger.states import FILE_LOADED, PUBLISHED, ROLLED_BACK
from sluice.manifest import Manifest, SourceFile
from sluice.operations import refolding
from sluice.operations.context import Context
from tests.unit.undo_lake import changelog, everything, forget_batch, publish, state

pytestmark = pytest.mark.catalog


@pytest.fixture(autouse=True)
def _loaded(context: Context, with_changelogs: None) -> None:
    context.ledger.files.mark("b3", FILE_LOADED)


def read_again(context: Context) -> None:
    """A batch b4 of b3's file, for `notes` alone."""
    again = Manifest(
        "shop", "b4", (SourceFile("b3.jsonl", "file:///b3.jsonl", 1),), tables=("notes",)
    )
    key, details = context.files.write_manifest(again), of_tables(again)
    context.ledger.batches.record(
        "b4", PUBLISHED, attempt="a1", manifest=key, replace_details=details
    )


def refuse_b3(context: Context) -> None:
    expected = r"b4 read files of b3 too, for notes alone: .*sluice rollback shop --batch b4"
    with pytest.raises(RollbackRefusedError, match=expected):
        refolding.undo_or_refold(context, "b3")
    assert (state(context, "b3"), everything(context)[0]) == (PUBLISHED, [0, 1, 2, 3])


def test_undo_is_refused_while_another_batch_has_rows_of_its_files(context: Context) -> None:
    changelog(context, "notes", "b4")
    read_again(context)
    refuse_b3(context)
    refolding.undo_or_refold(context, "b4")
    refolding.undo_or_refold(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


def test_undo_is_refused_if_its_files_were_read_for_another_table_before(context: Context) -> None:
    changelog(context, "notes", "b4")
    read_again(context)
    context.ledger.batches.record("b3", PUBLISHED)
    refuse_b3(context)


def test_undo_is_refused_if_a_file_was_read_again_and_has_changed_since(context: Context) -> None:
    changelog(context, "notes", "b4")
    read_again(context)
    known, changed = context.ledger.files.known(), SourceFile("b3.jsonl", "file:///b3.jsonl", 2)
    context.ledger.files.claim(
        ClaimRequest((changed,), lambda _: "b5", replaced=frozenset(known.values()))
    )
    context.ledger.files.mark("b5", FILE_LOADED)
    context.ledger.batches.record("b5", PUBLISHED)
    refuse_b3(context)


def test_undo_is_refused_if_the_changes_of_the_reread_rows_are_forgotten(context: Context) -> None:
    """`users` stands for the table."""
    publish(context, "b4", 4, tables=("users",))
    read_again(context)
    forget_batch(context, "b4")
    refuse_b3(context)


def test_a_batch_that_found_nothing_in_the_files_binds_nobody(context: Context) -> None:
    changelog(context, "notes", "b1")
    read_again(context)
    refolding.undo_or_refold(context, "b3")
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, [[0, 1, 2]] * 2)
