"""land as a whole: what a run claims, on a real folder and a real ledger."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import TerminalError, UnstableFileError
from sluice.landing.inspection import Inspection, Inspector
from sluice.ledger.states import LANDED, PUBLISHED
from sluice.manifest import Manifest
from sluice.objects.originals import refuse_replaced
from sluice.objects.store import StoredObject
from sluice.operations.context import Context, open_context
from sluice.operations.held_files import release
from sluice.operations.inspecting import Inspecting
from sluice.operations.reconcile import reconcile
from sluice.operations.selection import (
    FileHour,
    Selection,
    covers,
    hour_start,
    open_landing,
    selected,
)
from sluice.operations.sweep import clean_up
from sluice.operations.undo import undo_batch
from sluice.operations.window import Window
from tests.all_readable import land
from tests.unit.projects import SHOP, keys, open_shop

pytestmark = pytest.mark.catalog

INSPECT = Inspector.inspect


@pytest.fixture
def context(tmp_path: Path) -> Context:
    context = open_shop(tmp_path)
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / "landing" / name).write_text(f'{{"op": "{name}"}}\n')
    return context


@pytest.fixture
def growing(monkeypatch: pytest.MonkeyPatch, context: Context) -> Path:
    """`b.jsonl` grows between the listing and the reading, every time."""
    path = context.project.root / "landing" / "b.jsonl"

    def grow_and_inspect(inspector: Inspector, found: StoredObject) -> Inspection:
        if found.key == path.name:
            path.write_text(path.read_text() + '{"op": "more"}\n')
        return INSPECT(inspector, found)

    monkeypatch.setattr(Inspector, "inspect", grow_and_inspect)
    return path


def test_a_file_still_being_written_waits_and_holds_nobody_up(
    context: Context, growing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys(context, land(context)) == ["a.jsonl"]
    monkeypatch.setattr(Inspector, "inspect", INSPECT)
    assert keys(context, land(context)) == ["b.jsonl"]


def test_a_file_asked_for_by_name_is_never_left_out(context: Context, growing: Path) -> None:
    with pytest.raises(UnstableFileError, match="still being written"):
        land(context, Selection(files=("b.jsonl",)))
    assert context.ledger.files.known() == {}


def test_released_files_whose_landing_is_killed_again_are_landed_by_the_next_run(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = land(context)
    batch = context.files.read_manifest(key).batch_id
    undo_batch(context, batch)
    release(context, batch)
    with monkeypatch.context() as killed:
        killed.setattr(type(context.ledger.batches), "record", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            land(context)
    assert land(context) == []
    assert reconcile(context) == [key]
    row = context.ledger.batches.get(batch)
    assert row is not None
    assert row.state == LANDED


@pytest.mark.parametrize(
    ("names", "window", "covered"),
    [
        ((), None, True),
        (("a.jsonl",), None, False),
        (("a.jsonl", "b.jsonl"), None, True),
        ((), ("20260301T00", "20260301T05"), False),
        ((), ("20260301T04", "20260301T06"), True),
    ],
)
def test_a_batch_is_covered_by_a_run_that_selects_all_of_it(
    context: Context, names: tuple[str, ...], window: Any, covered: bool
) -> None:
    hours = Window(*map(hour_start, window)) if window else None
    files = [FileHour("a.jsonl", "20260301T04"), FileHour("b.jsonl", "20260301T05")]
    assert covers(context, files, Selection(hours, files=names)) == covered
    absolute = tuple(f"{context.pipeline.landing.url}/{name}" for name in names)
    assert covers(context, files, Selection(hours, files=absolute)) == covered


@pytest.mark.parametrize(
    "name", ["{landing}/a.jsonl", "{landing}//a.jsonl", "./a.jsonl", "x/../a.jsonl"]
)
def test_a_file_that_is_named_in_two_ways_is_taken_once(context: Context, name: str) -> None:
    name = name.format(landing=context.pipeline.landing.url)
    twice = Selection(files=("a.jsonl", name))
    assert [o.key for o in selected(context, open_landing(context), twice)] == ["a.jsonl"]
    assert covers(context, [FileHour("a.jsonl", "20260301T04")], Selection(files=(name,)))


@pytest.mark.parametrize("name", ["a.jsonl ", "../a.jsonl", "b.jsonl/../../a.jsonl", ""])
def test_a_name_that_no_file_has_is_refused(context: Context, name: str) -> None:
    with pytest.raises(TerminalError, match="are not among the files"):
        land(context, Selection(files=("a.jsonl", name)))


def test_file_that_changed_after_it_was_claimed_is_reported_and_left_alone(tmp_path: Path) -> None:
    messages: list[str] = []
    context = open_shop(tmp_path, say=messages.append)
    path = tmp_path / "landing" / "a.jsonl"
    path.write_text('{"a": 1}\n')
    (key,) = land(context)
    path.write_text('{"a": 22}\n')
    assert land(context) == []
    batch = context.files.read_manifest(key).batch_id
    assert [line for line in messages if f"a.jsonl has changed since batch {batch} took it" in line]


def test_the_rejects_of_many_files_are_bounded_together(context: Context) -> None:
    folder = context.project.root / "landing"
    for number in range(20):
        (folder / f"bad{number:02}.jsonl").write_bytes(b'{"a":"\xe9%d"}\n' % number * 300)
    (key,) = land(context)
    kept = context.files.read_manifest(key).rejects
    assert sum(reject.records for reject in kept) == 20 * 300
    assert len(kept) == 3 * 300 + 17
    assert {reject.records for reject in kept[900:]} == {300}


def test_a_batch_of_a_later_hour_is_left_to_later_runs(context: Context) -> None:
    below = Selection(until=hour_start("20260301T05"))
    assert not covers(context, [FileHour("a.jsonl", "20260301T05")], below)
    assert covers(context, [FileHour("a.jsonl", "20260301T04")], below)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "a.jsonl is gone in "),
        ('{"op": "x.jsonl"}\n', "a.jsonl has other bytes than those that landed in "),
        ('{"op": "a.jsonl"}\n', None),
    ],
    ids=["gone", "other_bytes", "same_bytes"],
)
def test_landed_file_is_refused_only_if_it_is_gone_or_has_other_bytes(
    context: Context, content: str | None, problem: str | None
) -> None:
    """The same bytes written again are another object of the store, with the landed checksum."""
    (key,) = land(context)
    manifest = context.files.read_manifest(key)
    path = context.project.root / "landing" / "a.jsonl"
    path.unlink()
    if content is not None:
        path.write_text(content)
        os.utime(path, (1, 1))
    if problem is None:
        refuse_replaced(context.pipeline, manifest)
        path.write_text("")
    with pytest.raises(TerminalError) as caught:
        refuse_replaced(context.pipeline, manifest)
    expected = problem or "a.jsonl has other bytes"
    assert expected in str(caught.value)
    assert "sluice release shop --batch" in str(caught.value)


def test_released_files_are_read_as_the_pipeline_says_now(context: Context) -> None:
    """Their batch had fixed what landing rejected; read in another way they are another batch."""
    root = context.project.root
    for path in (root / "landing").iterdir():
        path.unlink()
    (root / "landing" / "rows.csv").write_text("id;v\n1,5;2\n")
    rows = SHOP.replace("debezium", "rows") + "tables: {rows: {key: [id]}}\n"

    def land_with(options: str) -> Manifest:
        (root / "pipelines" / "shop.yaml").write_text(f"{rows}format_options: {options}\n")
        (key,) = land(open_context(root, "shop"))
        return context.files.read_manifest(key)

    wrong = land_with("{table: rows}")
    assert [reject.reason for reject in wrong.rejects] == ["wrong_field_count"]
    undo_batch(context, wrong.batch_id)
    release(context, wrong.batch_id)
    mended = land_with('{table: rows, csv_delimiter: ";"}')
    assert (mended.rejects, mended.batch_id != wrong.batch_id) == ((), True)
    undo_batch(context, mended.batch_id)
    release(context, mended.batch_id)
    assert land_with('{table: rows, csv_delimiter: ";"}') == mended


def test_lander_that_is_late_after_its_claim_leaves_the_batch_to_its_successor(
    context: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = context.ledger.files.claim

    def claim_and_sleep(*args: Any, **more: Any) -> Any:
        claimed = claim(*args, **more)
        context.ledger.batches.record(claimed.batch_id, PUBLISHED, attempt="another")
        return claimed

    monkeypatch.setattr(context.ledger.files, "claim", claim_and_sleep)
    assert land(context) == []
    assert [row.state for row in context.ledger.batches.all()] == [PUBLISHED]


@pytest.mark.parametrize("published", [True, False])
def test_a_lander_that_is_too_late_leaves_no_copy_that_nobody_needs(
    context: Context, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    (context.project.root / "landing" / "c.json").write_text("[{}, {}]\n")
    claim = context.ledger.files.claim

    def too_late(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        (key,) = land(context)
        if published:
            finish(context, context.files.read_manifest(key))
        again = Inspecting(context, open_landing(context), named=True).all(listed)
        assert copies(context) == {one.inspection.file.url.rsplit("/", 1)[1] for one in again}
        return claim(*args, **more)

    listed = list(open_landing(context).list("*.json"))
    monkeypatch.setattr(context.ledger.files, "claim", too_late)
    assert land(context) == []
    assert len(copies(context)) == (0 if published else 1)


def copies(context: Context) -> set[str]:
    return {key.rsplit("/", 1)[1] for key in context.files.staged_there("shop")}


def finish(context: Context, manifest: Manifest) -> None:
    """The end of a publication."""
    clean_up(context.files, context.ledger, manifest, print)
    context.ledger.batches.record(manifest.batch_id, PUBLISHED, attempt="a1")


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        ("format: rows", ["a/2026-03-01/1.csv", "b/1.csv"]),
        ("format: rows\nformat_options: {table: t}", ["a/2026-03-01/1.csv"]),
        ("format: aws_dms", ["a/2026-03-01/1.csv", "b/1.csv"]),
        ("format: canal", ["a/2026-03-01/1.csv"]),
    ],
)
def test_the_same_bytes_are_another_content_in_the_folder_of_another_table(
    tmp_path: Path, told: str, taken: list[str]
) -> None:
    context = open_shop(tmp_path, SHOP.replace("format: debezium", told))
    store = open_landing(context)
    for key in ("a/2026-03-01/1.csv", "a/2026-03-02/1.csv", "b/1.csv"):
        store.put(key, b"id\n1\n")
    (key,) = land(context)
    assert keys(context, [key]) == taken
    assert land(context) == []
