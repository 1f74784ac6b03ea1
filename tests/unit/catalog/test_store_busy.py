"""A catalog or store that fails for one batch of a run: the others are loaded all the same, unless
that one is half published."""

from __future__ import annotations

import errno
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import RESTError
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from sluice.catalog import retries
from sluice.catalog.table_publish import publish_table
from sluice.errors import (
    AuditFailedError,
    CommitStateUnknownError,
    HalfwayError,
    PublishRefusedError,
    SluiceError,
    TerminalError,
    TransientError,
)
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.states import FAILED, LANDED, MAINTENANCE, PUBLISHED, PUBLISHING
from sluice.manifest import Manifest
from sluice.operations import stages, waiting
from sluice.operations.context import Context
from sluice.result import BatchResult, StagedTable
from tests.unit.clocks import Clock
from tests.unit.projects import open_shop
from tests.unit.undo_lake import everything, fold, state, three_batches, write

pytestmark = pytest.mark.catalog
BATCHES = ("b1", "b2")
AWAY = OperationalError("SELECT 1", {}, Exception("server closed the connection unexpectedly"))
DENIED = "When reading key 'x' in bucket 'w': AWS Error ACCESS_DENIED during GetObject"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return open_shop(tmp_path)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("AWS Error SLOW_DOWN during HeadObject operation"), TransientError),
        (OperationalError("SELECT 1", {}, Exception("connection refused")), TransientError),
        (RESTError("500"), TransientError),
        (OSError(DENIED), TerminalError),
    ],
)
def test_one_failed_request_does_not_keep_the_other_batches_waiting(
    context: Context, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[SluiceError]
) -> None:
    keys = [context.files.write_manifest(Manifest("shop", batch, ())) for batch in BATCHES]
    for batch in BATCHES:
        context.ledger.batches.record(batch, LANDED)
    tried: list[str] = []
    said: list[str] = []

    def load(ctx: Context, key: str) -> None:
        tried.append(key)
        raise error

    monkeypatch.setattr(stages, "load", load)
    results, failure = stages.load_and_publish(replace(context, say=said.append), keys)
    assert (results, type(failure), tried) == ([], kind, keys)
    assert f"batch b1 is not published, {kind.__name__}: {failure}" in said
    rows = {row.batch_id: row.state for row in context.ledger.batches.all()}
    assert rows == dict.fromkeys(BATCHES, FAILED)


def test_batch_that_cannot_be_given_up_does_not_keep_the_others_waiting(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [context.files.write_manifest(Manifest("shop", batch, ())) for batch in BATCHES]
    tried: list[str] = []

    def fail(_: Context, key: str) -> list[str]:
        tried.append(key)
        raise OSError("AWS Error SLOW_DOWN during HeadObject operation")

    monkeypatch.setattr(stages, "_load_in_turn", fail)
    monkeypatch.setattr(stages, "give_up", fail)
    results, failure = stages.load_and_publish(context, keys)
    assert (results, type(failure)) == ([], TransientError)
    assert tried == [keys[0], "b1", keys[1], "b2"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(retries, "time", made)
    return made


def loaded(context: Context, batch: str, value: int) -> str:
    """A batch of two tables whose driver is done; returns its manifest."""
    key = context.files.write_manifest(Manifest("shop", batch, ()))
    fold(context, value)(context, key)
    return key


def lose_answers(context: Context, patch: pytest.MonkeyPatch, times: int) -> None:
    """Let the catalog's answers about the second table be lost that often, some of them to commits
    that arrived."""
    left, commit, load = [None] * times, context.catalog.commit_table, context.catalog.load_table

    def commit_then_lose(table: Table, *asked: Any) -> Any:
        answer = commit(table, *asked)
        if table.name()[-1] == "users" and left:
            left.pop()
            raise AWAY
        return answer

    def lose(name: tuple[str, str]) -> Table:
        if name[-1] == "users" and len(left) > 1:
            left.pop()
            raise AWAY
        return load(name)

    patch.setattr(context.catalog, "commit_table", commit_then_lose)
    patch.setattr(context.catalog, "load_table", lose)


def test_a_lost_answer_between_two_tables_does_not_end_a_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    shop = three_batches(tmp_path)
    key = loaded(shop, "b4", 4)
    lose_answers(shop, monkeypatch, 3)
    stages.publish(shop, key)
    assert state(shop, "b4") == PUBLISHED
    assert everything(shop) == [[0, 1, 2, 3, 4]] * 2
    assert len(clock.slept) == 3


def test_a_publication_that_takes_long_outlives_a_lost_answer_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    shop = three_batches(tmp_path)
    key = loaded(shop, "b4", 4)
    lost = ["users"]

    def slow(catalog: Catalog, table: StagedTable, batch: str) -> None:
        clock.now += 60
        publish_table(catalog, table, batch)
        if table.name in lost:
            lost.remove(table.name)
            raise AWAY

    monkeypatch.setattr("sluice.operations.publish.publish_table", slow)
    stages.publish(shop, key)
    assert (state(shop, "b4"), len(clock.slept)) == (PUBLISHED, 1)


def test_a_publication_that_nobody_can_write_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    shop = three_batches(tmp_path)
    key = loaded(shop, "b4", 4)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def on_a_full_disk(catalog: Catalog, table: StagedTable, batch: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(catalog, "commit_table", full)
            publish_table(catalog, table, batch)

    monkeypatch.setattr("sluice.operations.publish.publish_table", on_a_full_disk)
    with pytest.raises(CommitStateUnknownError, match="No space left"):
        stages.publish(shop, key)
    assert clock.slept == []


@pytest.mark.parametrize("back", [True, False])
def test_a_half_published_batch_is_completed_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, back: bool
) -> None:
    shop = three_batches(tmp_path)
    keys = [shop.files.write_manifest(Manifest("shop", batch, ())) for batch in ("b4", "b5")]
    for batch in ("b4", "b5"):
        shop.ledger.batches.record(batch, LANDED)
    values = iter((4, 5))
    monkeypatch.setattr(stages, "load", lambda ctx, key: fold(shop, next(values))(ctx, key))
    failing = iter([True] if back else itertools.repeat(True))

    def publish_once(catalog: Catalog, table: StagedTable, batch: str) -> None:
        if table.name == "users" and next(failing, False):
            raise TransientError("this host's clock is behind")
        publish_table(catalog, table, batch)

    monkeypatch.setattr("sluice.operations.publish.publish_table", publish_once)
    results, failure = stages.load_and_publish(shop, keys)
    states = [state(shop, batch) for batch in ("b4", "b5")]
    if back:
        assert ([r.batch_id for r in results], failure) == (["b4", "b5"], None)
        assert states == [PUBLISHED, PUBLISHED]
        return
    assert states == [PUBLISHING, LANDED]
    assert isinstance(failure, HalfwayError)
    assert "batch b4 is half published: this host's clock is behind; the next run completes it" in (
        str(failure)
    )


def test_a_half_published_batch_whose_merge_fails_keeps_the_others_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its second load takes the lease of a half published batch, and then its audit fails."""
    shop = three_batches(tmp_path)
    keys = [shop.files.write_manifest(Manifest("shop", batch, ())) for batch in ("b4", "b5")]
    for batch in ("b4", "b5"):
        shop.ledger.batches.record(batch, LANDED)
    tried: list[str] = []

    def load(ctx: Context, key: str) -> None:
        tried.append(key)
        fold(shop, 4)(ctx, key)

    def merge_again(ctx: Context, _: str) -> None:
        lease = Lease(this_holder(), 60)
        ctx.ledger.lease.acquire("b4", "a2", lease, is_half_published=lambda: True)
        ctx.ledger.batches.record("b4", FAILED, attempt="a2")
        raise AuditFailedError("rows beyond the limit")

    def refused(catalog: Catalog, table: StagedTable, batch: str) -> None:
        if table.name == "users":
            raise PublishRefusedError("main has moved")
        publish_table(catalog, table, batch)

    monkeypatch.setattr(stages, "load", load)
    monkeypatch.setattr("sluice.operations.publish.load", merge_again)
    monkeypatch.setattr("sluice.operations.publish.publish_table", refused)
    results, failure = stages.load_and_publish(shop, keys)
    assert (results, type(failure), tried) == ([], AuditFailedError, keys[:1])
    assert [state(shop, batch) for batch in ("b4", "b5")] == [FAILED, LANDED]


@pytest.mark.parametrize(("holder", "left"), [("", LANDED), ("elsewhere:1:1", FAILED)])
def test_batch_of_another_run_that_is_half_published_keeps_the_others_landed(
    context: Context, monkeypatch: pytest.MonkeyPatch, holder: str, left: str
) -> None:
    """Each of them would start a driver, which would wait a minute, for nothing. If a rollback has
    the pipeline, their turn comes after it."""
    keys = [context.files.write_manifest(Manifest("shop", batch, ())) for batch in BATCHES]
    for batch in BATCHES:
        context.ledger.batches.record(batch, LANDED)
    tried: list[str] = []
    lease, clock = context.ledger.lease, Clock()
    clock.meanwhile(lambda: lease.release(MAINTENANCE, "m1"))
    monkeypatch.setattr(waiting, "time", clock)

    def load(ctx: Context, key: str) -> None:
        tried.append(key)
        if holder:
            lease.acquire_for_maintenance("m1", Lease(holder, 60), "z")
        ctx.ledger.batches.record("z", PUBLISHING, attempt="a1")
        raise TransientError("HalfwayError: batch z is half published")

    monkeypatch.setattr(stages, "load", load)
    results, failure = stages.load_and_publish(context, keys)
    assert (results, str(failure)) == ([], "HalfwayError: batch z is half published")
    assert (state(context, "b2"), tried) == (left, keys[: 1 if left == LANDED else 2])


def test_an_outage_after_a_failure_leaves_the_results_of_earlier_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came of the second batch cannot be looked up, so that the third one waits."""
    shop = three_batches(tmp_path)
    keys = [shop.files.write_manifest(Manifest("shop", f"b{n}", ())) for n in (4, 5, 6)]
    for batch in ("b4", "b5", "b6"):
        shop.ledger.batches.record(batch, LANDED)
    tried: list[str] = []

    def load(ctx: Context, key: str) -> None:
        tried.append(key)
        if len(tried) == 1:
            fold(shop, 4)(ctx, key)
            return
        monkeypatch.setattr(type(shop.ledger.batches), "get", no_answer)
        raise TransientError("connection reset")

    def no_answer(*_: object) -> None:
        raise CommitStateUnknownError("the ledger could not be read: no answer in 90 s")

    monkeypatch.setattr(stages, "load", load)
    results, failure = stages.load_and_publish(shop, keys)
    assert ([result.batch_id for result in results], tried) == (["b4"], keys[:2])
    assert (type(failure), str(failure)) == (TransientError, "connection reset")


def test_an_outage_while_a_batch_is_completed_leaves_the_results_of_earlier_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = three_batches(tmp_path)
    keys = [shop.files.write_manifest(Manifest("shop", f"b{n}", ())) for n in (4, 5)]
    for batch in ("b4", "b5"):
        shop.ledger.batches.record(batch, LANDED)
    publish, failing = stages.publish, iter(("b5", "b5 again"))

    def published(ctx: Context, key: str) -> BatchResult:
        if key == keys[0]:
            return publish(ctx, key)
        shop.ledger.batches.record("b5", PUBLISHING)
        if next(failing) != "b5":
            monkeypatch.setattr(type(shop.ledger.batches), "get", no_answer)
        raise TransientError("connection reset")

    def no_answer(*_: object) -> None:
        raise CommitStateUnknownError("the ledger could not be read: no answer in 90 s")

    monkeypatch.setattr(stages, "load", fold(shop, 4))
    monkeypatch.setattr(stages, "publish", published)
    results, failure = stages.load_and_publish(shop, keys)
    assert ([result.batch_id for result in results], str(failure)) == (["b4"], "connection reset")


def test_a_batch_that_others_always_overtake_is_merged_three_times_and_is_not_half_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = three_batches(tmp_path)
    key = shop.files.write_manifest(Manifest("shop", "b4", ()))
    shop.ledger.batches.record("b4", LANDED)
    merged: list[str] = []

    def load(ctx: Context, key: str) -> None:
        merged.append(key)
        fold(shop, 4, f"a{len(merged)}")(ctx, key)
        write(shop, "orders", 100 + len(merged))

    monkeypatch.setattr(stages, "load", load)
    monkeypatch.setattr("sluice.operations.publish.load", load)
    results, failure = stages.load_and_publish(shop, [key])
    assert (results, type(failure), len(merged)) == ([], HalfwayError, 3)
    assert str(failure).startswith("batch b4 is being published: shop.orders: main is at ")
    assert str(failure).endswith("; the next run completes it")


def test_what_the_first_try_failed_of_is_said_with_what_its_completion_failed_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = three_batches(tmp_path)
    key = shop.files.write_manifest(Manifest("shop", "b4", ()))
    shop.ledger.batches.record("b4", LANDED)
    errors = iter((TransientError("the clock is behind"), PublishRefusedError("main has moved")))

    def fail(ctx: Context, _: str) -> None:
        ctx.ledger.batches.record("b4", PUBLISHING)
        raise next(errors)

    monkeypatch.setattr(stages, "load", fold(shop, 4))
    monkeypatch.setattr(stages, "publish", fail)
    _, failure = stages.load_and_publish(shop, [key])
    assert str(failure) == (
        "batch b4 is being published: the clock is behind; then: main has moved; the next run "
        "completes it"
    )
