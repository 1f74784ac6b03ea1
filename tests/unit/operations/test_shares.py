"""What becomes of the tables that a batch is published without: when they are tried again, and
where its publication is cut short.

The driver is played; landing, ledger, shares and undo are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest

from sluice.errors import AuditFailedError
from sluice.faults import Point
from sluice.ledger.states import FAILED, PUBLISHED, ROLLED_BACK
from sluice.manifest import Manifest
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.shares import share_of
from sluice.operations.undo import undo_batch
from sluice.result import Counts, LeftOut
from sluice.spark_submit.submit import LOAD_BATCH
from tests.all_readable import land
from tests.unit.fake_driver import ONE, play
from tests.unit.projects import SHOP, open_shop
from tests.unit.undo_lake import Killed, killed_at

pytestmark = pytest.mark.catalog

LEFT = LeftOut("d.s.notes", 1, "fails its check")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def ctx(tmp_path: Path, said: list[str]) -> Context:
    ctx = open_shop(tmp_path, SHOP + "consistency: table\n", said.append)
    (ctx.project.root / "landing" / "a.jsonl").write_text('{"x":1}\n')
    return ctx


def landed_and_loaded(ctx: Context) -> str:
    (key,) = land(ctx)
    play(ctx, lambda _: (ONE, (LEFT,)))(ctx.project, LOAD_BATCH, "--manifest", key)
    return key


def killed(*_: object) -> Never:
    raise KeyboardInterrupt


def state_of(ctx: Context, batch_id: str) -> str:
    row = ctx.ledger.batches.get(batch_id)
    assert row is not None
    return row.state


def test_share_that_was_given_up_stays_given_up(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the batch's next life: what is landed anew is left out anew."""
    key = landed_and_loaded(ctx)
    manifest = ctx.files.read_manifest(key)
    share = share_of(ctx.pipeline, manifest, LEFT.source, epoch=0).batch_id
    with monkeypatch.context() as cut_short:
        cut_short.setattr("sluice.operations.publish.clean_up", killed)
        with pytest.raises(KeyboardInterrupt):
            stages.publish(ctx, key)
    assert state_of(ctx, share) == FAILED
    undo_batch(ctx, share)
    stages.publish(ctx, key)
    assert state_of(ctx, share) == ROLLED_BACK

    undo_batch(ctx, manifest.batch_id)
    release(ctx, manifest.batch_id)
    again = landed_and_loaded(ctx)
    assert again == key
    stages.publish(ctx, again)
    assert state_of(ctx, share) == FAILED


@pytest.mark.parametrize("time", [1, 2])
def test_a_publication_that_dies_at_a_share_is_completed(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, time: int
) -> None:
    """Once its manifest is written, and once it is recorded."""
    key = landed_and_loaded(ctx)
    with monkeypatch.context() as cut_short:
        reach = killed_at(Point.PUBLISH_SHARE, time)
        cut_short.setattr("sluice.operations.shares.reach", reach)
        with pytest.raises(Killed):
            stages.publish(ctx, key)
    stages.publish(ctx, key)
    batch, share = sorted(ctx.ledger.batches.all(), key=lambda row: row.state, reverse=True)
    assert (batch.state, share.state) == (PUBLISHED, FAILED)
    assert ctx.files.read_manifest(share.manifest).share_of == batch.batch_id


def test_a_share_stays_at_the_epoch_of_its_batch(ctx: Context) -> None:
    """Tried again when the epoch has been raised, its old events would rank above the new ones."""
    key = landed_and_loaded(ctx)
    stages.publish(ctx, key)
    (share,) = (row for row in ctx.ledger.batches.all() if row.state == FAILED)
    assert ctx.files.read_manifest(share.manifest).epoch == 0


Run = Callable[..., list[str]]


@pytest.fixture
def hour(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Land a file of the hour and run; returns the hours whose driver started, "share" before those
    of shares. `wrong`: the hours whose notes cannot be loaded; None: all."""
    drivers: list[str] = []
    (ctx.project.root / "landing" / "a.jsonl").unlink()

    def run(number: int, wrong: set[int] | None = None) -> list[str]:
        def answer(manifest: Manifest) -> tuple[Counts, tuple[LeftOut, ...]]:
            (file,) = manifest.files
            fails = wrong is None or int(file.hour[-2:]) in wrong
            drivers.append(f"share {file.hour[-2:]}" if manifest.share_of else file.hour[-2:])
            if manifest.share_of and fails:
                raise AuditFailedError("d.s.notes: fails its check")
            return ONE, (LEFT,) if fails and not manifest.share_of else ()

        monkeypatch.setattr("sluice.operations.load.submit", play(ctx, answer))
        folder = ctx.project.root / "landing" / f"dt=2026-01-01/hr={number:02d}"
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_text(f'{{"x":{number}}}\n')
        drivers.clear()
        stages.run(ctx)
        return list(drivers)

    return run


def shares(ctx: Context) -> list[str]:
    return [row.state for row in ctx.ledger.batches.all() if "share_of" in row.details]


def test_a_table_that_keeps_failing_starts_one_driver_a_run_after_the_others_have_theirs(
    hour: Run, ctx: Context
) -> None:
    """Each run tries the share that has waited longest."""
    assert [hour(number) for number in range(5)] == [
        ["00"], ["01", "share 00"], ["02", "share 01"], ["03", "share 00"], ["04", "share 02"],
    ]  # fmt: skip
    assert shares(ctx) == 5 * [FAILED]


def test_all_shares_are_loaded_by_the_run_after_the_cause_is_mended(
    hour: Run, ctx: Context
) -> None:
    for number in range(4):
        hour(number)
    started = hour(4, wrong=set())
    assert (started[0], sorted(started[1:])) == ("04", [f"share 0{n}" for n in range(4)])
    assert shares(ctx) == 4 * [PUBLISHED]


def test_a_share_that_fails_for_good_does_not_keep_the_others_of_its_table(
    hour: Run, ctx: Context
) -> None:
    for number in range(4):
        hour(number)
    for number in (4, 5):
        hour(number, wrong={1})
    assert sorted(shares(ctx)) == [FAILED, *3 * [PUBLISHED]]


def test_a_run_says_how_many_shares_it_leaves_to_the_next_one(hour: Run, said: list[str]) -> None:
    for number in range(3):
        hour(number)
    (line,) = (one for one in said if "next run" in one and one.startswith("load"))
    assert line == "load: d.s.notes failed; 1 more batch of it waits for the next run"
