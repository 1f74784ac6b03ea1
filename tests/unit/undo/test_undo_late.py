"""Processes that are suspended for longer than their lease, and continue when others
have finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sluice.errors import LeaseHeldError, SluiceError
from sluice.faults import Point
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.leases import Lease
from sluice.ledger.states import (
    FILE_CLAIMED,
    FILE_HELD,
    FILE_LOADED,
    FILE_RELEASED,
    LANDED,
    LOADED,
    MAINTENANCE,
    PUBLISHED,
    ROLLED_BACK,
)
from sluice.manifest import Manifest, SourceFile
from sluice.names import BATCH_ID, changelog_table
from sluice.operations import claim as claiming
from sluice.operations import refolding, rollback_mark, stages, undo
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.rollback_mark import RollbackMark
from sluice.operations.undo import undo_batch
from sluice.result import BatchResult, Counts, TableResult
from tests.all_readable import land
from tests.unit.projects import open_shop
from tests.unit.undo_lake import TABLES, changelog, everything, publish, stage, state

pytestmark = pytest.mark.catalog

CHANGES = ("shop__cdc", changelog_table("orders"))


FILE = SourceFile("b4.jsonl", "file:///b4.jsonl", 1)


def loaded(context: Context, value: int) -> str:
    """Batch b4 of one file, landed and staged in both tables; returns its manifest's key."""

    def fix(won: tuple[SourceFile, ...]) -> str:
        context.files.write_manifest(Manifest("shop", "b4", won))
        return "b4"

    context.ledger.files.claim(ClaimRequest((FILE,), fix))
    staged = tuple(stage(context, "b4", name, value) for name in TABLES)
    table = TableResult("orders", "orders", Counts(), staged)
    context.files.write_result(BatchResult("shop", "b4", "a1", (table,)))
    key = context.files.manifest_key("shop", "b4")
    context.ledger.batches.record("b4", LOADED, attempt="a1", manifest=key)
    return key


def file_state(context: Context) -> str:
    return context.ledger.files.known()["b4.jsonl"].state


def changes(context: Context) -> list[str]:
    table = context.catalog.load_table(CHANGES)
    return sorted(table.scan().to_arrow()[BATCH_ID].to_pylist())


def publish_anew(context: Context) -> None:
    """What follows a rollback that died: its lease lapses, others complete it, and the
    batch comes again."""
    row = context.ledger.batches.get(MAINTENANCE)
    assert row is not None
    context.ledger.lease.release(MAINTENANCE, row.attempt)
    undo_batch(context, "b4")
    release(context, "b4")
    key = loaded(context, 40)
    context.catalog.load_table(CHANGES).append(pa.table({BATCH_ID: ["b4"]}))
    stages.publish(context, key)


def once_before(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, meanwhile: Callable[[], object]
) -> None:
    """Have something happen before the first call of a function."""
    real, begun = getattr(owner, name), []

    def called(*args: Any, **more: Any) -> Any:
        if not begun:
            begun.append(name)
            meanwhile()
        return real(*args, **more)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (undo, "rollback_table", "somebody moved it"),
        (rollback_mark, "forget_changes", "went on with it meanwhile"),
        (RollbackMark, "require", "went on with it meanwhile"),
    ],
    ids=["tables", "changes", "look"],
)
def test_suspended_rollback_leaves_a_batch_that_came_again(
    context: Context, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, message: str
) -> None:
    key = loaded(context, 4)
    changelog(context, "orders", "b1", "b2", "b3", "b4")
    stages.publish(context, key)
    once_before(monkeypatch, owner, name, lambda: publish_anew(context))
    with pytest.raises(SluiceError, match=message):
        undo_batch(context, "b4")
    assert (state(context, "b4"), file_state(context)) == (PUBLISHED, FILE_LOADED)
    assert everything(context) == [[0, 1, 2, 3, 40]] * 2
    assert changes(context) == ["b1", "b2", "b3", "b4"]
    undo_batch(context, "b4")
    assert everything(context) == [[0, 1, 2, 3]] * 2


def test_publication_recorded_again_is_not_marked_rolled_back(context: Context) -> None:
    """By who read of the publication that was undone."""
    stages.publish(context, loaded(context, 4))
    read = context.ledger.publications.of_batches("b4")
    context.ledger.publications.record(read)
    context.ledger.publications.record(
        [type(row)(**{**vars(row), "state": ROLLED_BACK}) for row in read]
    )
    assert {row.state for row in context.ledger.publications.of_batches("b4")} == {PUBLISHED}


def test_a_publisher_that_stood_still_does_not_take_released_files_for_loaded(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = loaded(context, 4)

    def undo_it() -> None:
        undo_batch(context, "b4")
        release(context, "b4")

    once_before(monkeypatch, context.ledger.files, "mark", undo_it)
    with pytest.raises(LeaseHeldError, match="b4 of shop is rolled_back by somebody else"):
        stages.publish(context, key)
    assert (state(context, "b4"), file_state(context)) == (ROLLED_BACK, FILE_RELEASED)


def test_a_publisher_that_stood_still_does_not_take_files_that_landed_anew_for_loaded(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The landing that claimed them died too: of loaded files no run would know."""
    key = loaded(context, 4)

    def land_anew() -> None:
        stages.publish(context, key)
        undo_batch(context, "b4")
        release(context, "b4")
        context.ledger.files.claim(ClaimRequest((FILE,), lambda _: "b4"))

    once_before(monkeypatch, context.ledger.files, "mark", land_anew)
    with pytest.raises(LeaseHeldError):
        stages.publish(context, key)
    assert file_state(context) == FILE_CLAIMED
    assert everything(context) == [[0, 1, 2, 3]] * 2


def test_a_rollback_that_stood_still_does_not_hold_the_files_of_what_came_again(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    changelog(context, "orders", "b1", "b2", "b3", "b4")
    stages.publish(context, loaded(context, 4))
    once_before(monkeypatch, context.ledger.files, "mark", lambda: publish_anew(context))
    with pytest.raises(LeaseHeldError, match="went on with it meanwhile"):
        undo_batch(context, "b4")
    assert (state(context, "b4"), file_state(context)) == (PUBLISHED, FILE_LOADED)


def test_publisher_whose_attempt_was_completed_by_another_ends_well(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = loaded(context, 4)
    once_before(monkeypatch, context.ledger.files, "mark", lambda: stages.publish(context, key))
    stages.publish(context, key)
    assert (state(context, "b4"), file_state(context)) == (PUBLISHED, FILE_LOADED)


def test_the_lease_of_what_is_published_is_not_renewed(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be the batch that was published last, and nobody else could load."""
    key = loaded(context, 4)

    def publish_both() -> None:
        stages.publish(context, key)
        publish(context, "b5", 5)

    once_before(monkeypatch, context.ledger.lease, "renew", publish_both)
    with pytest.raises(LeaseHeldError, match="b4 of shop is published"):
        stages.publish(context, key)
    assert undo.published_after(context, "b5") == []
    assert refolding.undo_or_refold_after(context, "b5", dry_run=True).lines == [
        "nothing was published after batch b5"
    ]
    context.ledger.lease.acquire("b6", "a1", Lease("another:1:1", 60))


@pytest.mark.parametrize("released_before", [False, True])
def test_a_lander_that_stood_still_does_not_bring_back_what_was_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, released_before: bool
) -> None:
    context = open_shop(tmp_path)
    (tmp_path / "landing" / "a.json").write_text("{}\n")
    if released_before:
        (key,) = land(context)
        batch = context.files.read_manifest(key).batch_id
        undo_batch(context, batch)
        release(context, batch)

    def undo_meanwhile(point: Point) -> None:
        if point is Point.LAND_CLAIMED:
            (claimed,) = context.ledger.unfinished()
            context.ledger.batches.record(claimed.batch_id, LANDED)
            undo_batch(context, claimed.batch_id)

    monkeypatch.setattr(claiming, "reach", undo_meanwhile)
    assert land(context) == []
    (row,) = context.ledger.batches.all()
    file = context.ledger.files.known()["a.json"]
    assert (row.state, file.state) == (ROLLED_BACK, FILE_HELD)
