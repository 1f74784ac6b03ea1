"""Files of the landing place that a run does not take: the reason is named, and the way to load
them."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.ledger.details import SHARE_OF
from sluice.ledger.states import FAILED, FILE_LOADED, PUBLISHED
from sluice.objects.batch_files import batch_of
from sluice.operations import refolding, stages
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.land import candidates
from sluice.operations.selection import Selection
from sluice.operations.undo import undo_batch
from sluice.operations.why_nothing import why_nothing
from tests.all_readable import land, land_tables
from tests.unit.fake_driver import ONE, play
from tests.unit.fake_loads import load, loaded_two_tables, write_event
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
    assert why_nothing(ctx, asked) == "what was asked for, 1 file, is in the ledger already"
    refolding.undo_or_refold(ctx, batch)
    why = f"files of {batch} are held (sluice release shop --batch {batch})"
    for one in (asked, Selection(), Selection(tables=("t",))):
        assert why_nothing(ctx, one) == why


@pytest.mark.parametrize("asked", [Selection(), Selection(files=("a.jsonl",))])
def test_a_file_of_a_batch_that_failed_is_reported_with_the_batch(
    tmp_path: Path, asked: Selection
) -> None:
    """Of the ledger alone, it would sound as if it were loaded."""
    ctx = open_shop(tmp_path)
    landing = tmp_path / "landing"
    (landing / "a.jsonl").write_text('{"x": 1}\n')
    batch = batch_of(*land(ctx))
    ctx.ledger.batches.record(batch, FAILED)
    row = ctx.ledger.batches.get(batch)
    assert row is not None
    assert row.at is not None
    (landing / "b.jsonl").write_text('{"x": 2}\n')
    other = batch_of(*land(ctx))
    ctx.ledger.batches.record(other, FAILED)
    since = f"failed {row.at:%Y-%m-%dT%H:%MZ}: sluice status shop"
    why = why_nothing(ctx, asked)
    assert f"batch {batch} has 1 of the files and is not published ({since})" in why
    assert (f"batch {other} has 1 of" in why) == (not asked.files)


def test_files_in_the_ledger_are_named_only_beside_others_that_are_not_loaded(
    tmp_path: Path,
) -> None:
    ctx = open_shop(tmp_path)
    for name in "ab":
        (tmp_path / "landing" / f"{name}.jsonl").write_text(f'{{"x": "{name}"}}\n')
        batch = batch_of(*land(ctx))
    rest = "and every other one that was asked for is in the ledger already"
    assert rest not in why_nothing(ctx, Selection(files=("a.jsonl", "b.jsonl")))
    ctx.ledger.batches.record(batch, PUBLISHED)
    ctx.ledger.files.mark(batch, FILE_LOADED)
    assert why_nothing(ctx, Selection(files=("a.jsonl", "b.jsonl"))).endswith(rest)
    assert rest not in why_nothing(ctx, Selection(files=("a.jsonl",)))


def test_many_unfinished_batches_are_counted(tmp_path: Path) -> None:
    ctx = open_shop(tmp_path)
    for name in "abcde":
        (tmp_path / "landing" / f"{name}.jsonl").write_text(f'{{"x": "{name}"}}\n')
        assert land(ctx)
    why = why_nothing(ctx)
    assert why.count("is not published") == 3
    assert why.endswith("not published either: 2 more batches")


def test_a_table_that_was_left_out_is_reported_with_its_batch(tmp_path: Path) -> None:
    """Its batch claims no file: its manifest names them."""
    ctx = open_shop(tmp_path)
    (tmp_path / "landing" / "a.jsonl").write_text('{"x": 1}\n')
    (key,) = land(ctx)
    ctx.ledger.batches.record(batch_of(key), PUBLISHED)
    ctx.ledger.files.mark(batch_of(key), FILE_LOADED)
    share = ctx.files.write_manifest(replace(ctx.files.read_manifest(key), batch_id="share"))
    details = {SHARE_OF: batch_of(key)}
    ctx.ledger.batches.record("share", FAILED, manifest=share, replace_details=details)
    assert why_nothing(ctx).startswith("batch share has 1 of the files and is not published (")


def test_files_of_a_future_hour_are_reported_and_not_landed(tmp_path: Path) -> None:
    """A source may name its folders in its own time, hours ahead of UTC."""
    messages: list[str] = []
    ctx = open_shop(tmp_path, say=messages.append)
    now = datetime.now(UTC)
    local = now + timedelta(hours=8)
    name = f"{local:dt=%Y-%m-%d/hr=%H}/a.jsonl"
    (tmp_path / "landing" / name).parent.mkdir(parents=True)
    (tmp_path / "landing" / name).write_text("{}\n")
    assert land(ctx, Selection(until=now)) == []
    assert f"1 file, such as {name}, of an hour that is yet to come" in messages[-1]
    assert f"of an hour from {now:%Y-%m-%dT%H}" in why_nothing(ctx, Selection(until=now))
    loaded = tmp_path / "landing" / "dt=2020-01-01" / "hr=00" / "b.jsonl"
    loaded.parent.mkdir(parents=True)
    loaded.write_text("{}\n")
    assert land(ctx, Selection(until=now))
    later = f"left to later runs: 1 file, such as {name}, of an hour from "
    assert why_nothing(ctx, Selection(until=now)).startswith(later)
    one_table = why_nothing(ctx, Selection(until=now, tables=("orders",)))
    assert one_table == "what was asked for, 1 file, is published for these tables or under way"
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
    assert keys(ctx, land(ctx)) == ["old.jsonl", "to_come.jsonl"]
    why = "1 file, such as young.jsonl, changed less than 3600 s ago (landing.quiet_seconds)"
    assert f"land: {why}: left to a later run" in messages
    assert why_nothing(ctx).startswith(f"{why}, batch ")
    assert "and every other one of" not in why_nothing(ctx)
    assert why_nothing(ctx, Selection(tables=("t",))) == why
    one_table = land_tables(ctx, Selection(tables=("t",)))
    assert keys(ctx, one_table) == ["old.jsonl", "to_come.jsonl"]
    assert [one.key for one in candidates(ctx, Selection(files=("young.jsonl",)))]
    os.utime(tmp_path / "landing" / "young.jsonl", (time.time() - 3601,) * 2)
    assert keys(ctx, land(ctx)) == ["young.jsonl"]


OF_NOTES = Selection(tables=("s.notes",))
CHANGED = "left alone: 1 file, such as a.jsonl, that changed since a file of that name was loaded ("
FILLED = "what was asked for, 1 file, is published for these tables or under way"


@pytest.fixture
def loaded(tmp_path: Path, messages: list[str]) -> Context:
    return loaded_two_tables(tmp_path, messages.append)


def _fill_notes(ctx: Context) -> list[str]:
    """Read files for one table; returns their keys."""
    made = land_tables(ctx, OF_NOTES)
    for key in made:
        ctx.ledger.batches.record(batch_of(key), PUBLISHED)
    return keys(ctx, made)


def test_for_single_tables_a_file_that_was_read_is_not_called_left_alone(loaded: Context) -> None:
    assert _fill_notes(loaded) == ["a.jsonl"]
    assert why_nothing(loaded, OF_NOTES) == FILLED


def test_for_single_tables_a_copy_with_another_time_counts_as_the_loaded_file(
    loaded: Context,
) -> None:
    """As after a change of `landing.url`. Whether it has the same bytes shows when it is read."""
    path = loaded.project.root / "landing" / "a.jsonl"
    os.utime(path, (1, 1))
    assert _fill_notes(loaded) == ["a.jsonl"]
    assert _fill_notes(loaded) == []
    named = ", except for what was named as not read"
    assert why_nothing(loaded, OF_NOTES) == FILLED + named
    write_event(loaded, "a.jsonl", "other")
    assert _fill_notes(loaded) == []
    assert why_nothing(loaded, OF_NOTES) == FILLED + named
    write_event(loaded, "a.jsonl", "of another size")
    assert _fill_notes(loaded) == []
    assert why_nothing(loaded, OF_NOTES).startswith(CHANGED)


def test_for_single_tables_a_changed_file_is_its_own_batchs_until_that_is_published(
    loaded: Context, messages: list[str]
) -> None:
    """While the file is held, only a release helps."""
    write_event(loaded, "a.jsonl", "of another size")
    batch = batch_of(*land(loaded, Selection(changed=True)))
    assert _fill_notes(loaded) == []
    assert why_nothing(loaded, OF_NOTES) == (
        "left alone: 1 file, such as a.jsonl, that changed, of a batch that is not published "
        "(sluice status shop)"
    )
    undo_batch(loaded, batch)
    assert _fill_notes(loaded) == []
    assert messages[-1] == f"land: a.jsonl of batch {batch} is held: it is not read"
    release_shop = f"(sluice release shop --batch {batch})"
    assert why_nothing(loaded, OF_NOTES) == f"files of {batch} are held {release_shop}"
    release(loaded, batch)
    assert _fill_notes(loaded) == []
    assert why_nothing(loaded, OF_NOTES).startswith(CHANGED)
    load(loaded)
    assert _fill_notes(loaded) == ["a.jsonl"]
    assert why_nothing(loaded, OF_NOTES) == FILLED


def test_for_single_tables_a_loaded_file_that_was_moved_is_not_called_published(
    loaded: Context, messages: list[str]
) -> None:
    """That it is a copy shows when it is read: the run names it."""
    folder = loaded.project.root / "landing"
    (folder / "a.jsonl").rename(folder / "b.jsonl")
    assert _fill_notes(loaded) == []
    assert messages[-1].startswith("land: not read: 1 file, such as b.jsonl, ")
    assert why_nothing(loaded, OF_NOTES).endswith(", except for what was named as not read")
