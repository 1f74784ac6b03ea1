"""Files with the bytes of others are read once: the ledger knows them, and asks each time anew
whether what they repeat counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.landing.inspection import Inspection, Inspector
from sluice.ledger.rows import FileRow
from sluice.ledger.states import FILE_COPY, FILE_HELD, FILE_LOADED, FILE_RELEASED
from sluice.objects.store import StoredObject
from sluice.operations import preview as preview_module
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.land import candidates
from sluice.operations.preview import Forecast, preview
from sluice.operations.selection import Selection
from sluice.operations.undo import undo_batch
from sluice.operations.why_nothing import why_nothing
from tests.all_readable import land
from tests.unit.fake_loads import PIPELINE, load, publish, raised, undo, write
from tests.unit.projects import keys, open_shop

pytestmark = pytest.mark.catalog

FIRST, SECOND = "orders/first.csv", "orders/second.csv"


@pytest.fixture
def context(tmp_path: Path, messages: list[str]) -> Context:
    """A pipeline of dumps, the first of which is loaded, and a copy of it that a run has seen."""
    context = open_shop(tmp_path, PIPELINE, messages.append)
    write(context, FIRST)
    load(context)
    write(context, SECOND)
    assert land(context) == []
    return context


@pytest.fixture
def read(context: Context, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets the name of each file that is read through from now on."""
    seen: list[str] = []

    inspect = Inspector.inspect

    def noted(inspector: Inspector, found: StoredObject) -> Inspection:
        seen.append(found.key)
        return inspect(inspector, found)

    monkeypatch.setattr(Inspector, "inspect", noted)
    return seen


def first(context: Context) -> FileRow:
    return context.ledger.files.known()[FIRST]


def undo_and_release(context: Context, batch: str) -> None:
    undo(context.ledger, batch)
    release(context, batch)


def remove(context: Context, key: str) -> None:
    (context.project.root / "landing" / key).unlink()


def test_a_copy_is_read_once_and_is_in_the_ledger(
    context: Context, read: list[str], messages: list[str]
) -> None:
    row = context.ledger.files.copies()[SECOND]
    assert (row.state, row.batch_id, row.sha256) == (
        FILE_COPY, first(context).batch_id, first(context).sha256,
    )  # fmt: skip
    assert land(context) == []
    assert read == []
    assert messages[-1].startswith("land: left out unread: 1 file with the bytes of others")
    assert candidates(context) == []
    assert "in the ledger already" in why_nothing(context)


def test_copy_of_a_file_of_the_same_batch_is_read_once(context: Context, read: list[str]) -> None:
    write(context, "orders/third.csv", "id\n3\n")
    write(context, "orders/third_copy.csv", "id\n3\n")
    batch = load(context)
    assert context.ledger.files.copies()["orders/third_copy.csv"].batch_id == batch
    assert sorted(read) == ["orders/third.csv", "orders/third_copy.csv"]
    assert land(context) == []
    assert len(read) == 2


def test_a_copy_that_changes_is_read_and_loaded(context: Context, read: list[str]) -> None:
    write(context, SECOND, "id\n3\n")
    assert keys(context, land(context)) == [SECOND]
    assert read == [SECOND]


def test_a_full_load_of_a_raised_epoch_takes_a_known_copy(context: Context) -> None:
    later = raised(context)
    assert keys(later, land(later)) == [SECOND]


def test_epoch_without_a_full_load_leaves_a_known_copy_unread(
    context: Context, read: list[str]
) -> None:
    assert land(raised(context, full_load=False)) == []
    assert read == []


def test_copy_of_a_held_file_waits_and_is_loaded_once_that_is_released(
    context: Context, read: list[str]
) -> None:
    batch = first(context).batch_id
    undo(context.ledger, batch)
    remove(context, FIRST)
    assert land(context) == []
    assert read == []
    assert release(context, batch) == 1
    assert keys(context, land(context)) == [SECOND]


def test_of_two_released_copies_one_is_loaded_and_the_other_recorded_as_its_copy(
    context: Context, read: list[str]
) -> None:
    batch = first(context).batch_id
    undo_and_release(context, batch)
    again = load(context)
    assert first(context).batch_id == again
    assert context.ledger.files.copies()[SECOND].batch_id == again
    read.clear()
    assert land(context) == []
    assert read == []


def test_copy_is_loaded_if_the_batch_of_its_original_was_never_loaded(tmp_path: Path) -> None:
    context = open_shop(tmp_path, PIPELINE)
    write(context, FIRST)
    write(context, SECOND)
    (key,) = land(context)
    assert (keys(context, [key]), set(context.ledger.files.copies())) == ([FIRST], {SECOND})
    batch = context.files.read_manifest(key).batch_id
    undo_batch(context, batch)
    release(context, batch)
    remove(context, FIRST)
    assert keys(context, land(context)) == [SECOND]


def test_a_copy_that_was_loaded_is_a_file_as_any(context: Context) -> None:
    undo_and_release(context, first(context).batch_id)
    remove(context, FIRST)
    batch = load(context)
    assert context.ledger.files.known()[SECOND].state == FILE_LOADED
    undo(context.ledger, batch)
    assert context.ledger.files.known()[SECOND].state == FILE_HELD
    assert land(context) == []
    release(context, batch)
    assert context.ledger.files.known()[SECOND].state == FILE_RELEASED
    assert keys(context, land(context)) == [SECOND]


def test_no_batch_has_a_copy(context: Context) -> None:
    batch = first(context).batch_id
    assert [row.object_key for row in context.ledger.files.of_batch(batch)] == [FIRST]
    assert SECOND not in context.ledger.files.known()
    assert context.ledger.files.mark(batch, FILE_HELD) == 1
    assert context.ledger.files.copies()[SECOND].state == FILE_COPY


def test_a_changed_file_that_brings_known_bytes_stays_its_own_batchs(
    context: Context, read: list[str]
) -> None:
    """It is known as a copy beside what was loaded under its name, not in the place of that."""
    write(context, "orders/other.csv", "id\n7\n")
    other = load(context)
    write(context, FIRST, "id\n7\n")
    for _ in range(2):
        assert land(context, Selection(changed=True)) == []
    assert read.count(FIRST) == 1
    assert context.ledger.files.copies()[FIRST].batch_id == other
    batch = first(context).batch_id
    assert first(context).state == FILE_LOADED
    undo_and_release(context, batch)
    undo_and_release(context, other)
    remove(context, "orders/other.csv")
    assert set(keys(context, land(context))) == {FIRST, SECOND}


def test_bytes_put_back_count_as_those_of_the_batch_that_loaded_them(
    context: Context, read: list[str]
) -> None:
    write(context, FIRST, "id\n5\n")
    later = load(context, changed=True)
    undo_and_release(context, later)
    write(context, FIRST)
    assert land(context) == []
    read.clear()
    assert land(context) == []
    assert read == []
    write(context, "orders/third.csv")
    assert land(context) == []


def test_plan_does_not_read_a_known_copy(
    context: Context, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_module, "_forecast", lambda *_: Forecast())
    found = preview(context)
    assert (found.files, found.repeated, read) == ((), (), [])
    assert preview(raised(context)).files == (SECOND,)


def test_a_batch_that_is_published_again_has_its_copies_still(
    context: Context, read: list[str]
) -> None:
    batch = first(context).batch_id
    undo_and_release(context, batch)
    (key,) = land(context)
    assert keys(context, [key]) == [FIRST]
    publish(context.ledger, context.files.read_manifest(key).batch_id, 0)
    read.clear()
    assert land(context) == []
    assert read == []
