"""Files of the landing place that a run does not take: the reason is named, and the way to load
them."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.operations import refolding, stages
from sluice.operations.land import candidates
from sluice.operations.selection import Selection
from sluice.operations.why_nothing import why_nothing
from tests.unit.fake_driver import ONE, play
from tests.unit.projects import SHOP, keys, open_shop

pytestmark = pytest.mark.catalog


def test_held_files_asked_for_by_name_are_reported_with_their_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = open_shop(tmp_path)
    monkeypatch.setattr("sluice.operations.load.submit", play(ctx, lambda _: (ONE, ())))
    path = tmp_path / "landing" / "a.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"x": 1}\n')
    (result,), _ = stages.run(ctx)
    batch = result.batch_id
    asked = Selection(files=("a.jsonl",))
    assert why_nothing(ctx, asked).endswith("are in the ledger already")
    refolding.undo_or_refold(ctx, batch)
    assert f"files of {batch} are held (sluice release shop --batch {batch})" in why_nothing(
        ctx, asked
    )


def test_files_of_a_future_hour_are_reported_and_not_landed(tmp_path: Path) -> None:
    """A source may name its folders in its own time, hours ahead of UTC."""
    messages: list[str] = []
    ctx = open_shop(tmp_path, say=messages.append)
    now = datetime.now(UTC)
    local = now + timedelta(hours=8)
    name = f"{local:dt=%Y-%m-%d/hr=%H}/a.jsonl"
    (tmp_path / "landing" / name).parent.mkdir(parents=True)
    (tmp_path / "landing" / name).write_text("{}\n")
    assert stages.land(ctx, Selection(until=now)) == []
    assert f"1 files, such as {name}, are named by an hour that is yet to come" in messages[-1]
    assert f"have an hour from {now:%Y-%m-%dT%H}" in why_nothing(ctx, Selection(until=now))
    loaded = tmp_path / "landing" / "dt=2020-01-01" / "hr=00" / "b.jsonl"
    loaded.parent.mkdir(parents=True)
    loaded.write_text("{}\n")
    assert stages.land(ctx, Selection(until=now))
    assert why_nothing(ctx, Selection(until=now)).startswith(f"1 files, such as {name}, have an")
    assert why_nothing(ctx, Selection(tables=("orders",))).startswith("the batches with these")
    for path in (tmp_path / "landing" / name, loaded):
        path.unlink()
    assert "the folder is empty" in why_nothing(ctx, Selection(until=now))


def test_a_file_that_changed_lately_is_left_to_a_later_run(tmp_path: Path) -> None:
    """Its writer may only have paused. One with a wrong time, far in the future, is taken."""
    messages: list[str] = []
    pipeline = SHOP.replace("url: landing", "url: landing, quiet_seconds: 3600")
    ctx = open_shop(tmp_path, pipeline, messages.append)
    for name, age in (("young", 60), ("old", 4000), ("to_come", -4000)):
        path = tmp_path / "landing" / f"{name}.jsonl"
        path.write_text(f'{{"op": "{name}"}}\n')
        os.utime(path, (time.time() - age,) * 2)
    assert keys(ctx, stages.land(ctx)) == ["old.jsonl", "to_come.jsonl"]
    why = "1 files, such as young.jsonl, changed less than 3600 s ago (landing.quiet_seconds)"
    assert f"land: {why}, and are left to a later run" in messages
    assert why_nothing(ctx).startswith(f"{why}, and every other one of")
    assert why_nothing(ctx, Selection(tables=("t",))) == why
    one_table = stages.land_tables(ctx, Selection(tables=("t",)))
    assert keys(ctx, one_table) == ["old.jsonl", "to_come.jsonl"]
    assert [one.key for one in candidates(ctx, Selection(files=("young.jsonl",)))]
    os.utime(tmp_path / "landing" / "young.jsonl", (time.time() - 3601,) * 2)
    assert keys(ctx, stages.land(ctx)) == ["young.jsonl"]
