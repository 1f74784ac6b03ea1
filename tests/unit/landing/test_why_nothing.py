"""Files of the landing place that a run does not take: the reason is named, and the way to load
them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.operations import refolding, stages
from sluice.operations.selection import Selection
from sluice.operations.why_nothing import why_nothing
from tests.unit.fake_driver import ONE, play
from tests.unit.projects import open_shop

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
