"""rollback of several batches, on a real catalog: all or none, and a look that moves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from sluice import stages, undo
from sluice.context import Context
from sluice.errors import (
    CommitStateUnknown,
    LeaseHeld,
    RollbackRefused,
    TerminalError,
    TransientError,
)
from sluice.faults import Point
from sluice.leases import Lease
from sluice.ledger import (
    FAILED,
    INTENT,
    LANDED,
    LOADED,
    LOADING,
    PUBLISHED,
    PUBLISHING,
    ROLLED_BACK,
    ROLLING_BACK,
    Publication,
)
from sluice.manifest import Manifest, Rebuild, SourceFile
from sluice.names import BATCH_ID, branch_name, changelog_table
from sluice.result import BatchResult, Counts, StagedTable, TableResult
from sluice.snapshots import branches, head, publish_table
from sluice.undo import release, rollback, rollback_to
from tests.unit.projects import open_shop

TABLES = ("orders", "users")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Two tables with a row from before, and batches b1, b2, b3 that add a row to each."""
    context = open_shop(tmp_path)
    context.catalog.create_namespace("shop")
    for name in TABLES:
        context.catalog.create_table(
            ("shop", name), Schema(NestedField(1, "id", LongType(), required=False))
        )
        write(context, name, 0)
    for number in (1, 2, 3):
        publish(context, f"b{number}", number)
    return context


def write(context: Context, name: str, value: int, branch: str = "main") -> None:
    table = context.catalog.load_table(("shop", name))
    table.append(pa.table({"id": pa.array([value], pa.int64())}), branch=branch)


def stage(context: Context, batch: str, name: str, value: int, attempt: str = "a1") -> StagedTable:
    """What a driver leaves: a branch of `main` with one row more."""
    table, branch = context.catalog.load_table(("shop", name)), branch_name(batch, attempt)
    base = head(table)
    assert base is not None
    table.manage_snapshots().create_branch(snapshot_id=base, branch_name=branch).commit()
    write(context, name, value, branch)
    after = head(context.catalog.load_table(("shop", name)), branch)
    assert after is not None
    return StagedTable("shop", name, branch, base, after, 0)


def publish(
    context: Context,
    batch: str,
    value: int,
    tables: tuple[str, ...] = TABLES,
    state: str = PUBLISHED,
) -> None:
    """A batch of one file that is published in `tables`, as the ledger has it; staged in all."""
    file = SourceFile(f"{batch}.jsonl", f"file:///{batch}.jsonl", 1)
    context.ledger.claim_files("shop", (file,), lambda _: batch)
    rows = []
    for name in TABLES:
        s = stage(context, batch, name, value)
        if name in tables:
            publish_table(context.catalog, s, batch)
        rows.append(
            Publication("shop", batch, "a1", "shop", name, s.base_snapshot, 0, None,
                        s.head_snapshot, s.branch)
        )  # fmt: skip
    # Of a publication under way the ledger has the intent alone.
    told = PUBLISHED if state == PUBLISHED else INTENT
    context.ledger.record_publications(replace(row, state=told) for row in rows)
    context.ledger.record_batch("shop", batch, state, attempt="a1")


def ids(context: Context, name: str) -> list[int]:
    rows = context.catalog.load_table(("shop", name)).scan().to_arrow()
    return sorted(rows["id"].to_pylist())


def everything(context: Context) -> list[list[int]]:
    return [ids(context, name) for name in TABLES]


def state(context: Context, batch: str) -> str:
    row = context.ledger.batch("shop", batch)
    assert row is not None
    return row.state


def test_to_undoes_what_is_newer_and_holds_its_files(context: Context) -> None:
    rollback_to(context, "b1")
    assert everything(context) == [[0, 1], [0, 1]]
    assert [state(context, b) for b in ("b1", "b2", "b3")] == [PUBLISHED, *["rolled_back"] * 2]
    files = context.ledger.known_files("shop")
    assert [files[f"b{n}.jsonl"].state for n in (1, 2, 3)] == ["claimed", "held", "held"]
    assert rollback_to(context, "b1") == ["nothing was published after batch b1"]


def test_a_dry_run_tells_every_move_and_makes_none(context: Context) -> None:
    lines = rollback_to(context, "b1", dry_run=True)
    moves = [line for line in lines if "main" in line]
    assert [line.split(":")[1].strip() for line in moves] == [*["batch b3"] * 2, *["batch b2"] * 2]
    assert lines[-1] == "would hold: 2 files"
    assert len(rollback(context, "b3", hold=True, dry_run=True)) == 3
    assert everything(context) == [[0, 1, 2, 3]] * 2
    assert [state(context, b) for b in ("b1", "b2", "b3")] == [PUBLISHED] * 3
    assert {f.state for f in context.ledger.known_files("shop").values()} == {"claimed"}


def test_nothing_moves_where_one_table_cannot(context: Context) -> None:
    """`orders` could go back: it comes first, and the look at `users` stops it."""
    write(context, "users", 99)
    for undone in (lambda: rollback_to(context, "b1"), lambda: rollback(context, "b3", hold=True)):
        with pytest.raises(RollbackRefused, match="somebody else"):
            undone()
        assert ids(context, "orders") == [0, 1, 2, 3]
        assert state(context, "b3") == PUBLISHED


def test_what_lies_under_another_batch_is_not_undone_alone(context: Context) -> None:
    for dry_run in (True, False):
        with pytest.raises(RollbackRefused, match="b3"):
            rollback(context, "b2", hold=True, dry_run=dry_run)
    assert everything(context) == [[0, 1, 2, 3]] * 2


def test_a_rollback_that_was_killed_goes_on(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(type(context.ledger), "mark_files", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rollback_to(context, "b1")
    assert everything(context) == [[0, 1, 2]] * 2
    rollback_to(context, "b1")
    assert everything(context) == [[0, 1]] * 2


@pytest.mark.parametrize("point", [p for p in Point if p.startswith("rollback.")])
def test_a_rollback_that_died_is_completed_before_anything_is_loaded(
    context: Context, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    """By whoever comes next: no load is built on tables of which some are back."""
    with monkeypatch.context() as killed:
        killed.setattr(undo, "reach", lambda here: 1 / 0 if here == point else None)
        with pytest.raises(ZeroDivisionError):
            rollback_to(context, "b1")
    with pytest.raises(LeaseHeld, match=r"b\d is half rolled back; sluice reconcile shop"):
        context.ledger.acquire_lease("shop", "b4", "a4", "me", 60)
    stages.reconcile(context)
    assert everything(context) == [[0, 1]] * 2
    assert [state(context, b) for b in ("b2", "b3")] == [ROLLED_BACK] * 2
    context.ledger.acquire_lease("shop", "b4", "a4", "me", 60)


def test_a_batch_that_is_being_rolled_back_is_neither_loaded_nor_published(
    context: Context,
) -> None:
    key = context.files.write_manifest(Manifest("shop", "b3", ()))
    context.files.write_result(BatchResult("shop", "b3", "a1", ()))
    context.ledger.record_batch("shop", "b3", ROLLING_BACK)
    with pytest.raises(LeaseHeld, match="batch b3 of shop is rolling_back"):
        context.ledger.acquire_lease("shop", "b3", "a2", "me", 60)
    with pytest.raises(TerminalError, match="b3 was rolled back"):
        stages.publish(context, key)
    assert stages.give_up(context, "b3") == ["batch b3 is rolling_back, by another run"]
    rollback_to(context, "b2")
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, [[0, 1, 2]] * 2)


def test_only_a_published_batch_can_be_gone_back_to(context: Context) -> None:
    rollback(context, "b3", hold=True)
    with pytest.raises(TerminalError, match="rolled_back"):
        rollback_to(context, "b3")


def test_a_publication_that_died_halfway_is_undone_where_it_came_to(context: Context) -> None:
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    assert everything(context) == [[0, 1, 2, 3, 4], [0, 1, 2, 3]]
    rollback(context, "b4", hold=True)
    assert everything(context) == [[0, 1, 2, 3]] * 2
    assert state(context, "b4") == "rolled_back"
    users = context.catalog.load_table(("shop", "users"))
    assert not [ref for ref in users.metadata.refs if ref.startswith("batch_")]


def test_what_is_published_while_a_half_published_batch_is_undone_is_undone_too(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its publisher wakes up between the look at the tables and the first move."""
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    staged = context.ledger.publications("shop", "b4")[1]
    users = StagedTable(
        "shop", "users", staged.branch, staged.base_snapshot, staged.head_snapshot, 0
    )
    asked = undo.refuse_if_followed

    def wake_up(*args: object) -> None:
        publish_table(context.catalog, users, "b4")
        asked(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(undo, "refuse_if_followed", wake_up)
    rollback(context, "b4", hold=True)
    assert (state(context, "b4"), everything(context)) == (ROLLED_BACK, [[0, 1, 2, 3]] * 2)


def test_a_publication_whose_commit_is_not_known_is_left_to_go_on(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    key = context.files.write_manifest(Manifest("shop", "b4", ()))

    def no_answer(*_: object) -> None:
        raise CommitStateUnknown("no answer")

    monkeypatch.setattr(stages, "load", lambda *_: None)
    monkeypatch.setattr(stages, "publish", no_answer)
    results, failure = stages.load_and_publish(context, [key])
    assert (results, type(failure)) == ([], CommitStateUnknown)
    assert state(context, "b4") == PUBLISHING
    assert everything(context) == [[0, 1, 2, 3, 4], [0, 1, 2, 3]]
    users = context.catalog.load_table(("shop", "users"))
    assert branch_name("b4", "a1") in users.metadata.refs


def test_a_half_published_batch_whose_reload_failed_is_undone_whole(context: Context) -> None:
    """The state says `failed` then; the rows of the first table are in it all the same."""
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    context.ledger.record_batch("shop", "b4", FAILED)
    rollback(context, "b4", hold=True)
    assert everything(context) == [[0, 1, 2, 3]] * 2
    assert state(context, "b4") == "rolled_back"


def test_only_the_files_of_a_rolled_back_batch_are_released(context: Context) -> None:
    with pytest.raises(TerminalError, match="b3 of pipeline shop is published"):
        release(context, "b3")
    with pytest.raises(TerminalError, match="has no batch b9"):
        release(context, "b9")


def test_what_an_unpublished_batch_leaves_another_ones_column(context: Context) -> None:
    """The column came with a batch that is published: a failed one must not take it back."""
    context.ledger.record_publications(
        [Publication("shop", "b4", "a1", "shop", "orders", 1, 0, None, 2, "x", state=ROLLED_BACK)]
    )
    with context.catalog.load_table(("shop", "orders")).update_schema() as schema:
        schema.add_column("coupon", LongType())
    context.ledger.record_batch("shop", "b4", FAILED)
    rollback(context, "b4")
    assert "coupon" in context.catalog.load_table(("shop", "orders")).schema().column_names


def test_a_batch_that_a_later_one_only_was_compared_with_is_not_undone_alone(
    context: Context,
) -> None:
    """All of b4 was late: it wrote nothing, but has changes that may count without b3."""
    changelog(context, "orders", "b3", "b4")
    context.ledger.record_batch("shop", "b4", PUBLISHED, attempt="a1")
    with pytest.raises(RollbackRefused, match=r"b4 has changes in shop__cdc\.orders__changes"):
        rollback(context, "b3")
    assert everything(context) == [[0, 1, 2, 3]] * 2
    rollback(context, "b4")
    rollback(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


def test_changes_of_other_tables_and_of_batches_before_bind_nobody(context: Context) -> None:
    changelog(context, "orders", "b2", "b3")
    changelog(context, "papers", "b3", "b4")
    context.ledger.record_batch("shop", "b4", PUBLISHED, attempt="a1")
    rollback(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


def changelog(context: Context, name: str, *batches: str) -> None:
    """A changelog with one change of each batch."""
    rows = Schema(NestedField(1, BATCH_ID, StringType(), required=False))
    by_batch = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), BATCH_ID))
    context.catalog.create_namespace_if_not_exists("shop__cdc")
    ident = ("shop__cdc", changelog_table(name))
    table = context.catalog.create_table(ident, rows, partition_spec=by_batch)
    table.append(pa.table({BATCH_ID: list(batches)}))


def test_a_batch_that_another_run_published_meanwhile_stays_published(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = context.files.write_manifest(Manifest("shop", "b4", ()))
    context.ledger.record_batch("shop", "b4", LANDED, manifest=key)

    def load_too_late(*_: object) -> None:
        publish(context, "b4", 4)
        raise TransientError("batch b4 of shop is published; attempt a2 stops here")

    monkeypatch.setattr(stages, "load", load_too_late)
    assert stages.load_and_publish(context, [key]) == ([], None)
    assert (state(context, "b4"), everything(context)) == (PUBLISHED, [[0, 1, 2, 3, 4]] * 2)
    assert context.ledger.known_files("shop")["b4.jsonl"].state == "claimed"
    # Nor is it loaded again by who comes later.
    assert stages.load_and_publish(context, [key]) == ([], None)


def test_a_failed_load_of_what_another_run_holds_leaves_it_alone(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [context.files.write_manifest(Manifest("shop", f"b{n}", ())) for n in (4, 5)]
    lease = Lease("elsewhere:1", 60)
    context.ledger.record_batch("shop", "b4", LOADING, attempt="a2", lease=lease)
    stage(context, "b4", "orders", 4)
    context.ledger.record_batch("shop", "b5", LANDED)

    def fail(*_: object) -> None:
        raise TransientError("the lease is another batch's")

    monkeypatch.setattr(stages, "load", fail)
    results, failure = stages.load_and_publish(context, keys)
    assert (results, str(failure)) == ([], "the lease is another batch's")
    assert [state(context, b) for b in ("b4", "b5")] == [LOADING, FAILED]
    orders = context.catalog.load_table(("shop", "orders"))
    assert branch_name("b4", "a1") in orders.metadata.refs


@pytest.mark.parametrize("on_the_way", [LOADING, LOADED])
def test_nothing_is_undone_under_a_batch_that_is_compared_with_it(
    context: Context, on_the_way: str
) -> None:
    context.ledger.record_batch("shop", "b4", on_the_way, attempt="a1")
    with pytest.raises(RollbackRefused, match=rf"batch b4 of shop is {on_the_way}, compared with"):
        rollback(context, "b3")
    assert everything(context) == [[0, 1, 2, 3]] * 2
    context.ledger.record_batch("shop", "b4", FAILED)
    rollback(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


def test_a_batch_that_was_rolled_back_is_not_told_to_be_published(context: Context) -> None:
    key = context.files.write_manifest(Manifest("shop", "b3", ()))
    context.files.write_result(BatchResult("shop", "b3", "a1", ()))
    rollback(context, "b3")
    with pytest.raises(TerminalError, match=r"b3 was rolled back.*sluice release shop --batch b3"):
        stages.publish(context, key)


def test_what_is_rolled_back_while_its_publisher_is_suspended_stays_so(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = context.files.write_manifest(Manifest("shop", "b4", ()))
    staged = tuple(stage(context, "b4", name, 4) for name in TABLES)
    table = TableResult("orders", "orders", Counts(), staged)
    context.files.write_result(BatchResult("shop", "b4", "a1", (table,)))
    context.ledger.record_batch("shop", "b4", LOADED, attempt="a1")

    def undo_meanwhile(point: Point) -> None:
        if point == Point.PUBLISH_HELD:
            rollback(context, "b4", hold=True)

    monkeypatch.setattr(stages, "reach", undo_meanwhile)
    with pytest.raises(LeaseHeld, match="b4 of shop is rolled_back by somebody else"):
        stages.publish(context, key)
    assert (state(context, "b4"), everything(context)) == (ROLLED_BACK, [[0, 1, 2, 3]] * 2)


def test_an_intent_for_a_table_that_is_gone_is_no_publication(context: Context) -> None:
    publish(context, "b4", 4, tables=(), state=PUBLISHING)
    context.catalog.drop_table(("shop", "users"))
    context.ledger.record_batch("shop", "b4", FAILED)
    rollback(context, "b4", hold=True)
    assert state(context, "b4") == ROLLED_BACK
    assert ids(context, "orders") == [0, 1, 2, 3]


@pytest.mark.parametrize("hold", [True, False])
def test_what_somebody_went_on_with_since_the_look_stays_theirs(
    context: Context, monkeypatch: pytest.MonkeyPatch, hold: bool
) -> None:
    publish(context, "b4", 4, tables=(), state=LOADED)
    known = undo.publications

    def published_meanwhile(ctx: Context, batch: str) -> list[Publication]:
        told = known(ctx, batch)
        ctx.ledger.record_batch("shop", batch, PUBLISHING)
        return told

    monkeypatch.setattr(undo, "publications", published_meanwhile)
    with pytest.raises(LeaseHeld, match="another run went on with it"):
        undo.rollback(context, "b4", hold=hold)
    assert state(context, "b4") == PUBLISHING
    assert any(branches(context.catalog, "shop", "orders", branch_name("b4", "")))


def test_nobody_publishes_an_attempt_that_is_given_up(context: Context) -> None:
    publish(context, "b4", 4, tables=(), state=LOADED)
    rollback(context, "b4", hold=False)
    assert state(context, "b4") == FAILED
    with pytest.raises(LeaseHeld, match="has taken it over"):
        context.ledger.renew_lease("shop", "b4", "a1", "me", 60)
    with pytest.raises(TerminalError, match="left no result"):
        stages.current_result(context, "b4")


def test_a_published_table_that_somebody_dropped_holds_no_rollback_up(context: Context) -> None:
    context.catalog.drop_table(("shop", "users"))
    rollback(context, "b3", hold=True)
    assert (ids(context, "orders"), state(context, "b3")) == ([0, 1, 2], ROLLED_BACK)


def test_a_half_published_batch_that_is_merged_again_goes_back_to_before_it(
    context: Context,
) -> None:
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    staged = tuple(stage(context, "b4", name, 4, "a2") for name in TABLES)
    table = TableResult("orders", "orders", Counts(), staged)
    context.files.write_result(BatchResult("shop", "b4", "a2", (table,)))
    context.ledger.record_batch("shop", "b4", LOADED, attempt="a2")
    stages.publish(context, context.files.write_manifest(Manifest("shop", "b4", ())))
    assert everything(context) == [[0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4]]
    rollback(context, "b4", hold=True)
    assert everything(context) == [[0, 1, 2, 3]] * 2


def test_what_was_to_undo_a_batch_that_is_undone_is_given_up(context: Context) -> None:
    """Of a command that was killed and run again."""
    asked = Rebuild(("orders",), "2026-01-01T00:00:00Z", ("b3",))
    key = context.files.write_manifest(Manifest("shop", "r1", (), rebuild=asked))
    context.ledger.record_batch("shop", "r1", LANDED, manifest=key)
    assert stages.reconcile(context) == [key]
    rollback(context, "b3", hold=True)
    assert stages.reconcile(context) == []
    assert state(context, "r1") == ROLLED_BACK
