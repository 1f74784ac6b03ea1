"""What becomes of the tables that a batch is published without, where its publication is cut short.

The driver is played; landing, ledger, shares and undo are the real ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Never

import pytest

from sluice.ledger.states import FAILED, ROLLED_BACK
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.land import land
from sluice.operations.shares import share_of
from sluice.operations.undo import undo_batch
from sluice.result import LeftOut
from sluice.spark_submit.submit import LOAD_BATCH
from tests.unit.fake_driver import ONE, play
from tests.unit.projects import SHOP, open_shop

pytestmark = pytest.mark.catalog

LEFT = LeftOut("d.s.notes", 1, "fails its check")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    ctx = open_shop(tmp_path, SHOP + "consistency: table\n")
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


def test_a_share_stays_at_the_epoch_of_its_batch(ctx: Context) -> None:
    """Tried again when the epoch has been raised, its old events would rank above the new ones."""
    key = landed_and_loaded(ctx)
    stages.publish(ctx, key)
    (share,) = (row for row in ctx.ledger.batches.all() if row.state == FAILED)
    assert ctx.files.read_manifest(share.manifest).epoch == 0
