"""Files that the store fails to hand out: tried again, then left to the next run; and a store that
is away, which is no matter of one file."""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import BinaryIO, Never

import pytest

from sluice.errors import FileDeniedError, FilesLeftOutError, FilesUnreadError, TransientError
from sluice.landing.inspection import Inspection, Inspector
from sluice.objects.store import LocalStore, StoredObject
from sluice.operations import inspecting, stages, unreadable_files
from sluice.operations import preview as preview_module
from sluice.operations.context import Context
from sluice.operations.preview import Forecast, preview
from sluice.operations.selection import EVERYTHING, Selection
from sluice.operations.unreadable_files import AWAY_AFTER, TRIES, UnreadableFiles, files_left_out
from tests.all_readable import land
from tests.unit.projects import SHOP, files_of_loads, keys, open_shop

pytestmark = pytest.mark.catalog

INSPECT = Inspector.inspect


class Store:
    """Stands before `inspect`: fails for some files as often as it is told, and counts."""

    def __init__(self) -> None:
        self.failing: dict[str, float] = {}
        self.denied: set[str] = set()
        self.asked: Counter[str] = Counter()

    def inspect(self, inspector: Inspector, found: StoredObject) -> Inspection:
        self.asked[found.key] += 1
        if found.key in self.denied:
            raise FileDeniedError(f"s3://b/{found.key}: AccessDenied; let Sluice read it")
        if self.asked[found.key] <= self.failing.get(found.key, 0):
            raise TransientError(f"s3://b/{found.key}: InternalError; try again")
        return INSPECT(inspector, found)

    def fail(self, *keys: str, times: float = float("inf")) -> None:
        self.failing.update(dict.fromkeys(keys, times))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    found = Store()
    monkeypatch.setattr(Inspector, "inspect", lambda by, file: found.inspect(by, file))
    monkeypatch.setattr(unreadable_files, "pause", lambda _turn: 0.0)
    return found


@pytest.fixture
def context(tmp_path: Path, store: Store) -> Context:
    context = open_shop(tmp_path, SHOP + "tables: {s.orders: {key: [id]}}\n")
    write(context, "a.jsonl", "b.jsonl", "c.jsonl")
    return context


def write(context: Context, *names: str) -> None:
    for name in names:
        (context.project.root / "landing" / name).write_text(f'{{"op": "{name}"}}\n')


def test_a_file_that_fails_for_a_moment_is_landed_with_the_others(
    context: Context, store: Store
) -> None:
    store.fail("b.jsonl", times=TRIES - 1)
    assert keys(context, land(context)) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert store.asked == {"a.jsonl": 1, "b.jsonl": TRIES, "c.jsonl": 1}


def test_a_file_that_fails_each_time_is_left_to_the_next_run(
    context: Context, store: Store
) -> None:
    store.fail("b.jsonl")
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == ["a.jsonl", "c.jsonl"]
    assert list(unreadable.errors) == ["b.jsonl"]
    assert store.asked["b.jsonl"] == TRIES
    store.failing.clear()
    assert keys(context, land(context)) == ["b.jsonl"]


def test_a_file_that_the_store_fails_on_is_told_after_the_others_are_claimed(
    context: Context, store: Store
) -> None:
    store.fail("b.jsonl")
    unreadable = UnreadableFiles()
    stages.land(context, EVERYTHING, unreadable)
    assert set(context.ledger.files.known()) == {"a.jsonl", "c.jsonl"}
    error = files_left_out("shop", unreadable)
    assert isinstance(error, FilesUnreadError)
    assert re.match(r"pipeline shop: 1 file that .*\n.*b\.jsonl: InternalError", str(error))


@pytest.mark.parametrize("tables", [(), ("s.orders",)])
def test_run_loads_the_other_files_and_ends_as_a_transient_error(
    context: Context, store: Store, monkeypatch: pytest.MonkeyPatch, tables: tuple[str, ...]
) -> None:
    store.fail("b.jsonl")
    loaded = files_of_loads(monkeypatch)
    _, failure = stages.run(context, Selection(tables=tables))
    assert loaded == ["a.jsonl", "c.jsonl"]
    assert isinstance(failure, FilesUnreadError)
    assert failure.exit_code == 75
    assert "s3://b/b.jsonl" in str(failure)


def test_denied_file_beside_a_failing_one_makes_the_error_lasting(
    context: Context, store: Store
) -> None:
    store.fail("b.jsonl")
    store.denied.add("c.jsonl")
    unreadable = UnreadableFiles()
    stages.land(context, EVERYTHING, unreadable)
    error = files_left_out("shop", unreadable)
    assert isinstance(error, FilesLeftOutError)
    assert re.search(r"(?s)2 files .*b\.jsonl.*c\.jsonl", str(error))
    assert set(context.ledger.files.known()) == {"a.jsonl"}
    assert store.asked["c.jsonl"] == 1


@pytest.mark.parametrize("tables", [False, True])
def test_store_that_fails_for_all_files_counts_as_away(
    context: Context, store: Store, tables: bool
) -> None:
    store.fail("a.jsonl", "b.jsonl", "c.jsonl")
    lands = stages.land_tables if tables else stages.land
    selection = Selection(tables=("s.orders",) if tables else ())
    with pytest.raises(TransientError, match="InternalError") as caught:
        lands(context, selection, UnreadableFiles())
    assert type(caught.value) is TransientError
    assert context.ledger.batches.all() == []
    assert context.ledger.files.known() == {}


def test_store_that_answers_for_a_file_of_another_batch_is_not_away(
    tmp_path: Path, store: Store
) -> None:
    context = open_shop(tmp_path, SHOP + "max_files_per_batch: 1\n")
    write(context, "a.jsonl", "b.jsonl")
    store.fail("a.jsonl")
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == ["b.jsonl"]
    assert list(unreadable.errors) == ["a.jsonl"]


def test_a_store_that_goes_away_is_not_waited_for_file_by_file(
    context: Context, store: Store
) -> None:
    many = [f"m{n:03}.jsonl" for n in range(200)]
    write(context, *many)
    store.fail(*many)
    with pytest.raises(TransientError, match="InternalError"):
        stages.land(context, EVERYTHING, UnreadableFiles())
    assert len([key for key in store.asked if key in many]) < 3 * AWAY_AFTER
    assert context.ledger.files.known() == {}


def test_files_after_many_failures_are_tried_only_once(
    context: Context, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspecting, "INSPECTED_AT_ONCE", 1)
    bad = [f"{n:03}-bad.jsonl" for n in range(2 * AWAY_AFTER)]
    write(context, *bad, *(f"{n:03}-good.jsonl" for n in range(2 * AWAY_AFTER)))
    store.fail(*bad)
    unreadable = UnreadableFiles()
    stages.land(context, EVERYTHING, unreadable)
    assert list(unreadable.errors) == bad
    assert {store.asked[key] for key in bad[:AWAY_AFTER]} == {TRIES}
    assert {store.asked[key] for key in bad[AWAY_AFTER + 1 :]} == {1}


def test_a_file_asked_for_by_name_is_never_left_out(context: Context, store: Store) -> None:
    store.fail("b.jsonl")
    with pytest.raises(TransientError, match=r"b\.jsonl: InternalError"):
        stages.land(context, Selection(files=("a.jsonl", "b.jsonl")), UnreadableFiles())
    assert store.asked["b.jsonl"] == TRIES
    assert context.ledger.files.known() == {}


def test_plan_lists_files_that_the_store_fails_on(
    context: Context, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_module, "_forecast", lambda *_: Forecast())
    monkeypatch.setattr(inspecting, "INSPECTED_AT_ONCE", 1)  # the error is of the first file
    store.fail("b.jsonl")
    found = preview(context)
    assert found.files == ("a.jsonl", "c.jsonl")
    assert "InternalError" in found.denied["b.jsonl"]
    store.fail("a.jsonl", "c.jsonl")
    with pytest.raises(TransientError, match=r"a\.jsonl: InternalError"):
        preview(context)


def test_a_plan_whose_files_cannot_be_removed_is_shown(
    context: Context, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance removes them."""

    def refuse(*_: object) -> Never:
        raise TransientError("s3://b/shop/planned-1: not deleted")

    monkeypatch.setattr(preview_module, "_forecast", lambda *_: Forecast())
    monkeypatch.setattr(LocalStore, "delete_prefix", refuse)
    assert preview(replace(context, say=messages.append)).files == ("a.jsonl", "b.jsonl", "c.jsonl")
    left = "plan: files beside the tables are left to maintenance: s3://b/shop/planned-1: not delet"
    assert left in messages[-1]


def opened_by(
    monkeypatch: pytest.MonkeyPatch, key: str, instead: Callable[[], BinaryIO | None]
) -> None:
    """Let something else happen where a file is opened; where it returns nothing, before that."""
    as_it_is = LocalStore.open

    def open_(folder: LocalStore, asked: str, *etag: str) -> BinaryIO:
        return (instead() if asked == key else None) or as_it_is(folder, asked, *etag)

    monkeypatch.setattr(LocalStore, "open", open_)


def fails(code: int) -> Callable[..., Never]:
    def fail(*_: object) -> Never:
        raise OSError(code, "as the disk says")

    return fail


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_a_file_that_the_disk_cannot_read_keeps_no_other_waiting(
    context: Context, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    opened_by(monkeypatch, "b.jsonl", fails(code))
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == ["a.jsonl", "c.jsonl"]
    assert str(unreadable.errors["b.jsonl"]) == "b.jsonl: as the disk says; try again"


def test_a_file_whose_bytes_break_off_on_the_disk_keeps_no_other_waiting(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(BytesIO):
        read = fails(errno.EIO)

    opened_by(monkeypatch, "b.jsonl", Broken)
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == ["a.jsonl", "c.jsonl"]
    assert list(unreadable.errors) == ["b.jsonl"]


def test_a_machine_without_a_free_handle_is_no_matter_of_one_file(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_by(monkeypatch, "b.jsonl", fails(errno.EMFILE))
    with pytest.raises(OSError, match="as the disk says"):
        stages.land(context, EVERYTHING, UnreadableFiles())


def test_a_file_that_vanishes_before_it_is_copied_is_left_to_the_next_run(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = context.project.root / "landing" / "b.jsonl"
    path.write_text('[{"b": 1}, {"b": 2}]')
    times = count()
    opened_by(monkeypatch, "b.jsonl", lambda: path.unlink() if next(times) else None)
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == ["a.jsonl", "c.jsonl"]
    assert unreadable.errors == {}
