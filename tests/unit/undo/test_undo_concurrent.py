"""rollback while others work: half published batches, suspended publishers, loads of
the same batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.catalog.snapshots import branches
from sluice.catalog.table_publish import publish_table
from sluice.errors import (
    CommitStateUnknownError,
    HalfwayError,
    LeaseHeldError,
    RollbackRefusedError,
    TerminalError,
    TransientError,
)
from sluice.faults import Point
from sluice.ledger.leases import Lease, new_attempt
from sluice.ledger.states import FAILED, LANDED, LOADED, LOADING, PUBLISHED, PUBLISHING, ROLLED_BACK
from sluice.manifest import Manifest, Rebuild, Reprocess
from sluice.names import branch_name
from sluice.operations import stages, undo, waiting
from sluice.operations.context import Context
from sluice.operations.undo import undo_batch
from sluice.result import BatchResult, Counts, TableResult
from tests.unit.clocks import Clock
from tests.unit.undo_lake import (
    TABLES,
    Killed,
    an_hour_later,
    at_point,
    everything,
    ids,
    killed_at,
    publish,
    stage,
    state,
)

pytestmark = pytest.mark.catalog


def test_undo_of_a_half_published_batch_moves_its_published_tables_back(context: Context) -> None:
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    assert everything(context) == [[0, 1, 2, 3, 4], [0, 1, 2, 3]]
    undo_batch(context, "b4")
    assert everything(context) == [[0, 1, 2, 3]] * 2
    assert state(context, "b4") == "rolled_back"
    users = context.catalog.load_table(("shop", "users"))
    assert not [ref for ref in users.metadata.refs if ref.startswith("batch_")]


def test_tables_published_during_the_undo_of_a_half_published_batch_go_back_too(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its publisher wakes up after the last look at the tables, before the branches go."""
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    users = context.ledger.publications.of_batches("b4")[1].staged

    def wake_up() -> None:
        publish_table(context.catalog, users, "b4")

    monkeypatch.setattr(undo, "reach", at_point(Point.ROLLBACK_MARKED, wake_up))
    undo_batch(context, "b4")
    assert (state(context, "b4"), everything(context)) == (ROLLED_BACK, [[0, 1, 2, 3]] * 2)


def after_the_mark_died(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(undo, "reach", killed_at(Point.ROLLBACK_MARKED))
        with pytest.raises(Killed):
            undo_batch(context, "b4")
    an_hour_later()


def after_another_attempt_began(context: Context, _: pytest.MonkeyPatch) -> None:
    an_hour_later()
    context.ledger.lease.acquire("b4", "a2", Lease("elsewhere:1", -1))


@pytest.mark.parametrize("before", [after_the_mark_died, after_another_attempt_began])
def test_first_table_published_during_the_undo_of_a_staged_batch_goes_back_too(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[Context, pytest.MonkeyPatch], None],
) -> None:
    """Its publisher stood still before the first table, and wakes up before the branches go."""
    publish(context, "b4", 4, tables=(), state=PUBLISHING)
    before(context, monkeypatch)
    orders = context.ledger.publications.of_batches("b4")[0].staged

    def wake_up() -> None:
        publish_table(context.catalog, orders, "b4")
        assert everything(context) == [[0, 1, 2, 3, 4], [0, 1, 2, 3]]

    monkeypatch.setattr(undo, "reach", at_point(Point.ROLLBACK_MARKED, wake_up))
    undo_batch(context, "b4")
    assert (state(context, "b4"), everything(context)) == (ROLLED_BACK, [[0, 1, 2, 3]] * 2)


def test_a_publication_whose_commit_is_not_known_is_left_to_go_on(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    key = context.files.write_manifest(Manifest("shop", "b4", ()))

    def no_answer(*_: object) -> None:
        raise CommitStateUnknownError("no answer")

    monkeypatch.setattr(stages, "load", lambda *_: None)
    monkeypatch.setattr(stages, "publish", no_answer)
    results, failure = stages.load_and_publish(context, [key])
    assert (results, type(failure)) == ([], HalfwayError)
    assert "batch b4 is half published: no answer; the next run completes it" in str(failure)
    assert state(context, "b4") == PUBLISHING
    assert everything(context) == [[0, 1, 2, 3, 4], [0, 1, 2, 3]]
    users = context.catalog.load_table(("shop", "users"))
    assert branch_name("b4", "a1") in users.metadata.refs


def test_a_half_published_batch_whose_reload_failed_is_undone_whole(context: Context) -> None:
    """The state says `failed` then; the rows of the first table are in it all the same."""
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    context.ledger.batches.record("b4", FAILED)
    undo_batch(context, "b4")
    assert everything(context) == [[0, 1, 2, 3]] * 2
    assert state(context, "b4") == "rolled_back"


def test_a_batch_that_another_run_published_meanwhile_stays_published(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = context.files.write_manifest(Manifest("shop", "b4", ()))
    context.ledger.batches.record("b4", LANDED, manifest=key)

    def load_too_late(*_: object) -> None:
        publish(context, "b4", 4)
        raise TransientError("batch b4 of shop is published; attempt a2 stops here")

    monkeypatch.setattr(stages, "load", load_too_late)
    assert stages.load_and_publish(context, [key]) == ([], None)
    assert (state(context, "b4"), everything(context)) == (PUBLISHED, [[0, 1, 2, 3, 4]] * 2)
    assert context.ledger.files.known()["b4.jsonl"].state == "claimed"
    # Nor is it loaded again by who comes later.
    assert stages.load_and_publish(context, [key]) == ([], None)


def test_a_failed_load_of_what_another_run_holds_leaves_it_alone(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest stay landed: each of them would wait as long, for nothing."""
    impatient = context.pipeline.model_copy(update={"lease_seconds": 2})
    context = replace(context, pipeline=impatient)
    keys = [context.files.write_manifest(Manifest("shop", f"b{n}", ())) for n in (4, 5, 6)]
    monkeypatch.setattr(waiting, "time", Clock())
    lease = Lease("elsewhere:1", 60)
    stage(context, "b4", "orders", 4)
    for batch in ("b4", "b5", "b6"):
        context.ledger.batches.record(batch, LANDED)

    def fail(*_: object) -> None:
        context.ledger.batches.record("b4", LOADING, attempt="a2", lease=lease)
        raise TransientError("the lease is another batch's")

    monkeypatch.setattr(stages, "load", fail)
    results, failure = stages.load_and_publish(context, keys)
    assert (results, str(failure)) == ([], "the lease is another batch's")
    assert [state(context, b) for b in ("b4", "b5", "b6")] == [LOADING, LANDED, LANDED]
    orders = context.catalog.load_table(("shop", "orders"))
    assert branch_name("b4", "a1") in orders.metadata.refs


def test_batch_that_another_run_took_up_is_left_to_that_run(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = context.files.write_manifest(Manifest("shop", "b4", ()))
    lease = Lease("elsewhere:1", 60)
    context.ledger.batches.record("b4", LANDED, attempt="taken-up-1", lease=lease)
    monkeypatch.setattr(stages, "load", lambda *_: 1 / 0)
    assert stages.load_and_publish(context, [key]) == ([], None)
    row = context.ledger.batches.get("b4")
    assert row is not None
    assert (row.state, row.holder) == (LANDED, "elsewhere:1")


@pytest.mark.parametrize("on_the_way", [LOADING, LOADED])
def test_nothing_is_undone_under_a_batch_that_is_compared_with_it(
    context: Context, on_the_way: str
) -> None:
    context.ledger.batches.record("b4", on_the_way, attempt="a1")
    with pytest.raises(
        RollbackRefusedError, match=rf"batch b4 of shop is {on_the_way}, compared with"
    ):
        undo_batch(context, "b3")
    assert everything(context) == [[0, 1, 2, 3]] * 2
    context.ledger.batches.record("b4", FAILED)
    undo_batch(context, "b3")
    assert everything(context) == [[0, 1, 2]] * 2


@pytest.mark.parametrize(
    ("manifest", "advice"),
    [
        (Manifest("shop", "b3", ()), "files are held: sluice release shop --batch b3, then run"),
        (Manifest("shop", "b3", (), reprocess=Reprocess()), "no files: trigger the same again"),
        (Manifest("shop", "b3", (), tables=("t",)), "no files: trigger the same again"),
        (Manifest("shop", "b3", (), rebuild=Rebuild(("t",), at="")), "trigger the same again"),
        (
            Manifest("shop", "b3", (), tables=("t",), share_of="b2"),
            "those of batch b2: sluice rollback shop --batch b2, sluice release shop --batch b2",
        ),
    ],
)
def test_publish_of_a_rolled_back_batch_is_refused(
    context: Context, manifest: Manifest, advice: str
) -> None:
    """Only of files that the batch claimed is there anything to release."""
    key = context.files.write_manifest(manifest)
    context.files.write_result(BatchResult("shop", "b3", "a1", ()))
    undo_batch(context, "b3")
    with pytest.raises(TerminalError, match=f"b3 was rolled back.*{advice}"):
        stages.publish(context, key)


def test_batch_rolled_back_while_its_publisher_is_suspended_stays_rolled_back(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = context.files.write_manifest(Manifest("shop", "b4", ()))
    staged = tuple(stage(context, "b4", name, 4) for name in TABLES)
    table = TableResult("orders", "orders", Counts(), staged)
    context.files.write_result(BatchResult("shop", "b4", "a1", (table,)))
    context.ledger.batches.record("b4", LOADED, attempt="a1")

    def undo_meanwhile(point: Point) -> None:
        if point == Point.PUBLISH_HELD:
            undo_batch(context, "b4")

    monkeypatch.setattr("sluice.operations.publish.reach", undo_meanwhile)
    with pytest.raises(LeaseHeldError, match="b4 of shop is rolled_back by somebody else"):
        stages.publish(context, key)
    assert (state(context, "b4"), everything(context)) == (ROLLED_BACK, [[0, 1, 2, 3]] * 2)


def test_an_intent_for_a_table_that_is_gone_is_no_publication(context: Context) -> None:
    publish(context, "b4", 4, tables=(), state=PUBLISHING)
    context.catalog.drop_table(("shop", "users"))
    context.ledger.batches.record("b4", FAILED)
    undo_batch(context, "b4")
    assert state(context, "b4") == ROLLED_BACK
    assert ids(context, "orders") == [0, 1, 2, 3]


@pytest.mark.parametrize("way", [undo.undo_batch, undo.give_up])
def test_batch_that_another_run_continued_meanwhile_is_not_given_up(
    context: Context, monkeypatch: pytest.MonkeyPatch, way: Callable[..., list[str]]
) -> None:
    publish(context, "b4", 4, tables=(), state=LOADED)

    def published_meanwhile() -> str:
        context.ledger.batches.record("b4", PUBLISHING)
        return new_attempt()

    monkeypatch.setattr(undo, "given_up", published_meanwhile)
    with pytest.raises(LeaseHeldError, match="another run went on with it"):
        way(context, "b4")
    assert state(context, "b4") == PUBLISHING
    assert any(branches(context.catalog, "shop", "orders", branch_name("b4", "")))


def test_nobody_publishes_an_attempt_that_is_given_up(context: Context) -> None:
    publish(context, "b4", 4, tables=(), state=LOADED)
    undo.give_up(context, "b4")
    assert state(context, "b4") == FAILED
    with pytest.raises(LeaseHeldError, match="has taken it over"):
        context.ledger.lease.renew("b4", "a1", Lease("me", 60))
    with pytest.raises(TerminalError, match="left no result"):
        stages.current_result(context, "b4")


def test_a_half_published_batch_that_is_merged_again_goes_back_to_before_it(
    context: Context,
) -> None:
    publish(context, "b4", 4, tables=("orders",), state=PUBLISHING)
    staged = tuple(stage(context, "b4", name, 4, "a2") for name in TABLES)
    table = TableResult("orders", "orders", Counts(), staged)
    context.files.write_result(BatchResult("shop", "b4", "a2", (table,)))
    context.ledger.batches.record("b4", LOADED, attempt="a2")
    stages.publish(context, context.files.write_manifest(Manifest("shop", "b4", ())))
    assert everything(context) == [[0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4]]
    undo_batch(context, "b4")
    assert everything(context) == [[0, 1, 2, 3]] * 2


def test_a_rollback_that_takes_longer_than_a_lease_is_nobody_elses(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next reconcile completes it, and its operator is refused what is done."""
    seconds = 3
    brief = context.pipeline.model_copy(update={"lease_seconds": seconds})
    waited: list[Point] = []

    def dawdle(point: Point) -> None:
        if point == Point.ROLLBACK_TABLE and not waited:
            waited.append(point)
            time.sleep(seconds + 1)
            with pytest.raises(LeaseHeldError):
                undo.complete_rollbacks(context)

    monkeypatch.setattr(undo, "reach", dawdle)
    undo_batch(replace(context, pipeline=brief), "b3")
    assert waited
    assert (state(context, "b3"), everything(context)) == (ROLLED_BACK, [[0, 1, 2]] * 2)
