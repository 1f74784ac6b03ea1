"""What brings back what a batch brought that was undone and had claimed no files: a run for single
tables, a reprocess, a rebuild, a share. The rollback says it, and so does the status.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.ledger.rows import BatchRow
from sluice.ledger.states import PUBLISHED, ROLLED_BACK
from sluice.operations.context import Context
from sluice.operations.rollback import RollbackRequest, roll_back
from sluice.operations.unclaimed import comes_back, to_have_back
from sluice.operations.undone_shares import as_if_undone
from sluice.output.status import BatchStatus, batch_statuses, status_json


def row(batch_id: str, state: str, **details: Any) -> BatchRow:
    return BatchRow("shop", batch_id, "a1", state).with_details(details)


OLD = row("old", PUBLISHED, quarantined=1)


@pytest.mark.parametrize(
    ("undone", "how"),
    [
        (row("b", ROLLED_BACK), ""),
        (row("b", PUBLISHED, tables=["s.notes"]), ""),
        (
            row("b", ROLLED_BACK, tables=["s.notes", "s.it's"]),
            "it claimed no files; what it read for s.notes, s.it's comes again with: "
            """sluice run shop --table s.notes --table 's.it'"'"'s'""",
        ),
        (
            row("b", ROLLED_BACK, reprocessed=["old"], reason=""),
            "the quarantined records of batch old wait again: sluice reprocess shop",
        ),
        (row("b", ROLLED_BACK, reprocessed=["gone"], reason=""), ""),
        (row("b", ROLLED_BACK, reprocessed=["old"]), ""),  # it claimed the files that end them
        (
            row("b", ROLLED_BACK, rebuilt=["orders", "users"]),
            "orders, users are as before: sluice rollback shop --rebuild --table orders, "
            "sluice rollback shop --rebuild --table users",
        ),
        (
            row("b", ROLLED_BACK, tables=["s.notes"], share_of="old", left_out_by="a1"),
            "s.notes of batch old is held until: sluice release shop --batch b",
        ),
        (row("b", ROLLED_BACK, tables=["s.notes"], share_of="old", left_out_by="a0"), ""),
    ],
)
def test_how_what_an_undone_batch_without_files_brought_comes_back(
    undone: BatchRow, how: str
) -> None:
    assert comes_back(undone, [OLD, undone]) == how


def test_records_that_another_reprocess_has_resolved_do_not_wait() -> None:
    undone = row("b", ROLLED_BACK, reprocessed=["old"], reason="")
    again = row("c", PUBLISHED, reprocessed=["old"], reason="")
    assert comes_back(undone, [OLD, undone, again]) == ""


@pytest.mark.parametrize("asked", [{"tables": ["s.notes"]}, {"rebuilt": ["orders"]}])
def test_a_later_run_for_the_same_tables_has_brought_it_back(asked: dict[str, list[str]]) -> None:
    undone = row("b", ROLLED_BACK, **asked)
    again = replace(row("c", PUBLISHED, **asked), seq=undone.seq + 1)
    assert comes_back(undone, [OLD, undone, again]) == ""
    for other in (replace(again, state=ROLLED_BACK), replace(again, seq=undone.seq - 1)):
        assert comes_back(undone, [OLD, undone, other]) != ""
    of_others = replace(row("d", PUBLISHED, tables=["s.others"]), seq=undone.seq + 1)
    assert comes_back(undone, [OLD, undone, of_others]) != ""


def test_a_run_before_the_undo_has_not_brought_it_back() -> None:
    filled = row("b4", PUBLISHED, tables=["s.notes"])
    again = replace(filled, batch_id="b5", seq=filled.seq + 1)
    after = as_if_undone([filled, again], ["b4"], {})
    assert [r.state for r in after.values()] == [ROLLED_BACK, PUBLISHED]
    assert comes_back(after["b4"], after.values()).endswith("sluice run shop --table s.notes")


@pytest.mark.catalog
def test_the_rollback_and_the_status_say_it(context: Context) -> None:
    filled = {"tables": ["s.notes"]}
    context.ledger.batches.record("b4", PUBLISHED, attempt="a1", add_details=filled)
    way = (
        "it claimed no files; what it read for s.notes comes again with: "
        "sluice run shop --table s.notes"
    )
    said = f"batch b4 is undone; {way}"
    asked = RollbackRequest(to="b3", release=True)
    assert roll_back(context, replace(asked, dry_run=True))[-1] == f"afterwards: {said}"
    assert roll_back(context, asked)[-1] == said
    b4, b3 = batch_statuses(context.ledger)[:2]
    assert (b4.comes_back, b4.waits) == (way, False)
    told = [(one["comes_back"], one["held_share"]) for one in status_json([b4, b3])]
    assert told == [(way, False), (None, False)]


@pytest.mark.catalog
def test_asked_for_once_more_after_another_run_the_rollback_says_nothing_new(
    context: Context,
) -> None:
    """By a user, whom the row would name: nothing of the batch is held or released."""
    filled = {"tables": ["s.notes"]}
    batches = context.ledger.batches
    batches.record("b4", PUBLISHED, attempt="a1", add_details=filled)
    roll_back(context, RollbackRequest(batch="b4", user="bob"))
    batches.record("b5", PUBLISHED, attempt="a1", add_details=filled)
    asked = RollbackRequest(batch="b4", user="ann")
    would = roll_back(context, replace(asked, dry_run=True))
    assert roll_back(context, asked) == would == ["batch b4 is rolled back already"]


@pytest.mark.catalog
def test_batches_that_another_one_undid_are_named_with_their_own_ways_back(
    context: Context,
) -> None:
    filled = {"tables": ["s.notes"]}
    context.ledger.batches.record("b4", PUBLISHED, attempt="a1", add_details=filled)
    for batch in ("b4", "b3"):
        roll_back(context, RollbackRequest(batch=batch))
    assert to_have_back(context, ["b3", "b4"]) == (
        "it claimed no files; what it read for s.notes comes again with: "
        "sluice run shop --table s.notes; to have that back, release its files and run: "
        "sluice release shop --batch b3"
    )


@pytest.mark.catalog
def test_a_held_share_waits_for_somebody(context: Context) -> None:
    share = {"share_of": "b3", "tables": ["s.notes"]}
    context.ledger.batches.record("b4", PUBLISHED, attempt="a1", add_details=share)
    roll_back(context, RollbackRequest(batch="b4"))
    (status,) = (one for one in batch_statuses(context.ledger) if one.row.batch_id == "b4")
    assert status.waits
    (told,) = status_json([status])
    assert told["held_share"]
    assert told["comes_back"] == (
        "s.notes of batch b3 is held until: sluice release shop --batch b4"
    )


def test_an_undone_batch_that_waits_for_nobody() -> None:
    assert not BatchStatus(row("b", ROLLED_BACK)).waits
