"""rollback of a batch that was merged or landed more than once: only it goes, wherever it came."""

from __future__ import annotations

import pytest

from sluice.errors import LeaseHeldError
from sluice.faults import Point
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.rows import Publication
from sluice.ledger.states import INTENT, LANDED, LOADED, PUBLISHED, ROLLED_BACK
from sluice.manifest import Manifest, SourceFile
from sluice.operations import refolding, stages, undo
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.result import BatchResult, Counts, TableResult
from tests.unit import staged_tables
from tests.unit.undo_lake import (
    TABLES,
    Killed,
    an_hour_later,
    at_point,
    everything,
    ids,
    publish,
    stage,
    state,
    write,
)

pytestmark = pytest.mark.catalog


def claim(context: Context, batch: str = "b4") -> str:
    file = SourceFile(f"{batch}.jsonl", f"file:///{batch}.jsonl", 1)
    context.ledger.files.claim(ClaimRequest((file,), lambda _: batch))
    key = context.files.write_manifest(Manifest("shop", batch, (file,)))
    context.ledger.batches.record(batch, LANDED, manifest=key)
    return key


def load(
    context: Context, attempt: str, tables: tuple[str, ...] = TABLES, batch: str = "b4"
) -> None:
    """What a driver leaves of a batch: a row more in each table, its number, on branches."""
    staged = tuple(stage(context, batch, name, int(batch[1:]), attempt) for name in tables)
    table = TableResult("orders", "orders", Counts(), staged)
    context.files.write_result(BatchResult("shop", batch, attempt, (table,)))
    context.ledger.batches.record(batch, LOADED, attempt=attempt)


class Meddling:
    """Somebody's own writes to `users`: between the two tables of the first publication, and before
    the first table of the second one."""

    def __init__(self, context: Context, dies: bool) -> None:
        self.context, self.dies, self.attempt = context, dies, 1

    def reach(self, point: Point) -> None:
        seen = self.attempt, point
        if seen == (1, Point.PUBLISH_TABLE):
            write(self.context, "users", 100)
            self.attempt = 0  # once
        elif seen == (2, Point.PUBLISH_INTENT):
            if self.dies:
                raise Killed
            write(self.context, "users", 101)

    def load(self, context: Context, _: str) -> None:
        self.attempt = 2 if self.attempt == 0 else 3
        load(context, f"a{self.attempt}")


def test_batch_merged_three_times_is_undone_from_its_first_publication(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddling = Meddling(context, dies=False)
    monkeypatch.setattr("sluice.operations.publish.reach", meddling.reach)
    monkeypatch.setattr("sluice.operations.publish.load", meddling.load)
    key = claim(context)
    load(context, "a1")
    stages.publish(context, key)
    assert (meddling.attempt, state(context, "b4")) == (3, PUBLISHED)
    undo.undo_batch(context, "b4")
    assert everything(context) == [[0, 1, 2, 3], [0, 1, 2, 3, 100, 101]]


def test_batch_whose_second_publication_died_is_undone_from_its_first(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddling = Meddling(context, dies=True)
    key = claim(context)
    load(context, "a1")
    with monkeypatch.context() as patched:
        patched.setattr("sluice.operations.publish.reach", meddling.reach)
        patched.setattr("sluice.operations.publish.load", meddling.load)
        with pytest.raises(Killed):
            stages.publish(context, key)
    an_hour_later()
    refolding.undo_or_refold(context, "b4")
    assert state(context, "b4") == ROLLED_BACK
    assert everything(context) == [[0, 1, 2, 3], [0, 1, 2, 3, 100]]


def test_snapshot_of_a_dropped_table_is_no_base_in_the_next_one(context: Context) -> None:
    """Somebody drops a table; its first batch is undone, and comes again after another."""
    tables = ("items",)
    context.catalog.create_table(("shop", "items"), staged_tables.SCHEMA)
    key = claim(context)
    load(context, "a1", tables)
    stages.publish(context, key)
    context.catalog.drop_table(("shop", "items"))
    refolding.undo_or_refold(context, "b4")

    context.catalog.create_table(("shop", "items"), staged_tables.SCHEMA)
    other = claim(context, "b5")
    load(context, "a1", tables, "b5")
    stages.publish(context, other)
    release(context, "b4")
    assert claim(context) == key
    load(context, "a2", tables)
    stages.publish(context, key)
    assert ids(context, "items") == [4, 5]
    refolding.undo_or_refold(context, "b4")
    assert ids(context, "items") == [5]


def test_suspended_publisher_records_no_intent_of_an_undone_batch(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = claim(context)
    load(context, "a1")

    def undo_meanwhile() -> None:
        an_hour_later()
        undo.undo_batch(context, "b4")

    monkeypatch.setattr(
        "sluice.operations.publish.reach", at_point(Point.PUBLISH_MARKED, undo_meanwhile)
    )
    with pytest.raises(LeaseHeldError, match="a1 stops here"):
        stages.publish(context, key)
    assert context.ledger.publications.of_batches("b4") == []


def test_suspended_publisher_records_no_publication_of_an_undone_batch(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next time that the batch comes, and goes, others would go with it."""
    key = claim(context)
    load(context, "a1")
    really = context.ledger.publications.record

    def late(rows: list[Publication]) -> None:
        given = list(rows)
        if {row.state for row in given} != {INTENT}:
            monkeypatch.setattr(context.ledger.publications, "record", really)
            an_hour_later()
            undo.undo_batch(context, "b4")
        really(given)

    monkeypatch.setattr(context.ledger.publications, "record", late)
    with pytest.raises(LeaseHeldError, match="a1 stops here"):
        stages.publish(context, key)
    assert {p.state for p in context.ledger.publications.of_batches("b4")} == {ROLLED_BACK}

    publish(context, "b5", 5)
    release(context, "b4")
    claim(context)
    load(context, "a2")
    stages.publish(context, key)
    assert everything(context) == [[0, 1, 2, 3, 4, 5]] * 2
    undo.undo_batch(context, "b4")
    assert everything(context) == [[0, 1, 2, 3, 5]] * 2
