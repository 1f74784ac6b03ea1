"""A batch that nobody can go on with: the error tells the way out, and that way is one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.errors import ConfigError, HalfwayError, RollbackRefusedError, TerminalError
from sluice.faults import Point
from sluice.ledger.details import of_rebuild
from sluice.ledger.states import LANDED, LOADED, PUBLISHED, PUBLISHING, ROLLED_BACK
from sluice.manifest import Manifest, Rebuild
from sluice.operations import refolding, stages, undo
from sluice.operations.context import Context
from sluice.result import BatchResult, TableResult
from spark_jobs.job import pipeline_for
from tests.all_readable import land
from tests.unit.fake_driver import ONE, play
from tests.unit.projects import SHOP, open_shop
from tests.unit.undo_lake import (
    TABLES,
    Killed,
    at_point,
    everything,
    killed_at,
    stage,
    state,
)

pytestmark = pytest.mark.catalog


def landed(ctx: Context, name: str = "a.jsonl") -> str:
    """Land a file; returns its manifest."""
    path = ctx.project.root / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"x": 1}\n')
    (key,) = land(ctx)
    return key


def way_out(batch: str) -> str:
    return f"to get on without it: sluice rollback shop --batch {batch}"


def test_a_table_that_is_dropped_before_its_batch_is_published(context: Context) -> None:
    key = landed(context)
    batch = context.files.read_manifest(key).batch_id
    staged = (stage(context, batch, "orders", 4),)
    table = TableResult("d.s.orders", "orders", ONE, staged)
    context.files.write_result(BatchResult("shop", batch, "a1", (table,)))
    context.ledger.batches.record(batch, PUBLISHING, attempt="a1", manifest=key)
    context.catalog.drop_table(("shop", "orders"))
    with pytest.raises(TerminalError, match=r"shop\.orders is gone") as caught:
        stages.reconcile(context)
    assert way_out(batch) in str(caught.value)

    refolding.undo_or_refold(context, batch)
    assert state(context, batch) == ROLLED_BACK
    assert stages.reconcile(context) == []


@pytest.mark.parametrize("since", [Point.PUBLISH_HELD, None])
def test_no_batch_is_published_beside_a_half_published_one(
    context: Context, monkeypatch: pytest.MonkeyPatch, since: Point | None
) -> None:
    """Of two halfway batches each is refused for the other one."""

    def other() -> None:
        context.ledger.batches.record("b4", PUBLISHING, attempt="a9")

    key = context.files.write_manifest(Manifest("shop", "b5", ()))
    table = TableResult("d.s.orders", "orders", ONE, (stage(context, "b5", "orders", 5),))
    context.files.write_result(BatchResult("shop", "b5", "a1", (table,)))
    context.ledger.batches.record("b5", LOADED, attempt="a1", manifest=key)
    if since is None:
        other()
    else:
        monkeypatch.setattr("sluice.operations.publish.reach", at_point(since, other))
    with pytest.raises(HalfwayError, match="b4 is half published; sluice reconcile shop first"):
        stages.publish(context, key)
    assert (state(context, "b5"), everything(context)) == (LOADED, [[0, 1, 2, 3]] * 2)
    undo.give_up(context, "b5")  # what else keeps b4 from being undone
    refolding.undo_or_refold(context, "b4")
    assert state(context, "b4") == ROLLED_BACK


def test_a_manifest_that_somebody_deleted(tmp_path: Path) -> None:
    ctx = open_shop(tmp_path)
    key = landed(ctx)
    batch = ctx.files.read_manifest(key).batch_id
    (path,) = tmp_path.rglob(Path(key).name)
    path.unlink()
    with pytest.raises(TerminalError, match="there is no manifest") as caught:
        stages.run(ctx)
    assert way_out(batch) in str(caught.value)

    refolding.undo_or_refold(ctx, batch)
    assert stages.release(ctx, batch) == 1
    assert len(land(ctx)) == 1


def unfinished_fold(ctx: Context, fold_state: str) -> str:
    """An unfinished undo of b2 whose manifest is damaged; returns the manifest's address."""
    asked = Manifest("shop", "f1", (), rebuild=Rebuild(TABLES, "now", ("b2",)))
    key = ctx.files.write_manifest(asked)
    ctx.ledger.batches.record(
        "f1", fold_state, attempt="a1", manifest=key, add_details=of_rebuild(asked)
    )
    url = ctx.files.store.url(key)
    Path(url.removeprefix("file://")).write_bytes(b"{")
    return url


def test_a_half_published_fold_with_a_damaged_manifest_is_named(
    context: Context, messages: list[str]
) -> None:
    damaged = unfinished_fold(context, PUBLISHING)
    with pytest.raises(RollbackRefusedError, match="f1"):
        refolding.undo_or_refold(replace(context, say=messages.append), "b3")
    assert any(f"{damaged} cannot be read" in line for line in messages)

    refolding.undo_or_refold(context, "f1")
    refolding.undo_or_refold(context, "b3")
    assert (state(context, "f1"), state(context, "b3")) == (ROLLED_BACK, ROLLED_BACK)


def test_a_fold_that_died_with_a_damaged_manifest_is_given_up(context: Context) -> None:
    unfinished_fold(context, LANDED)
    refolding.undo_or_refold(context, "b3")
    assert (state(context, "f1"), state(context, "b3")) == (ROLLED_BACK, ROLLED_BACK)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_claim_that_was_never_recorded_and_has_no_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    ctx = open_shop(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("sluice.operations.claim.reach", killed_at(Point.LAND_CLAIMED))
        with pytest.raises(Killed):
            landed(ctx)
    ((batch, key),) = [(r.batch_id, r.object_key) for r in ctx.ledger.files.claimed()]
    shutil.rmtree(Path(ctx.files.store.url(f"shop/{batch}").removeprefix("file://")))
    with pytest.raises(TerminalError, match="there is no manifest") as caught:
        stages.run(ctx)
    assert way_out(batch) in str(caught.value)

    told = refolding.undo_or_refold(ctx, batch, dry_run).lines
    if dry_run:
        assert told[-1] == "would hold: 1 file"
        assert ctx.ledger.batches.all() == []
        return
    assert stages.release(ctx, batch) == 1
    assert len(land(ctx)) == 1
    assert [row.object_key for row in ctx.ledger.files.claimed()] == [key]


def test_a_batch_for_a_table_that_is_listed_no_more(tmp_path: Path) -> None:
    ctx = open_shop(tmp_path, SHOP + "tables: {public.orders: {key: [id]}}\n")
    share = Manifest("shop", "b1", (), tables=("public.notes",))
    with pytest.raises(ConfigError, match=r"has no table 'public\.notes'") as caught:
        pipeline_for(ctx.project, share)
    assert "give the batch up: sluice rollback shop --batch b1" in str(caught.value)


def test_repeated_publish_loads_a_given_up_batch_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Airflow the tear-down of a batch whose publish failed gives it up."""
    ctx = open_shop(tmp_path)
    monkeypatch.setattr("sluice.operations.load.submit", play(ctx, lambda _: (ONE, ())))
    key = landed(ctx)
    batch = stages.load(ctx, key).batch_id
    stages.give_up(ctx, batch)
    stages.publish(ctx, key)
    assert state(ctx, batch) == PUBLISHED
