"""A disk without room for the copy of a file: an error of that file, which names both."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sluice.containers.csv_rows import CsvStyle
from sluice.errors import FilesUnreadError, NoRoomError
from sluice.landing import file_detection as contents_module
from sluice.landing import inspection as landed_module
from sluice.objects.store import LocalStore
from sluice.operations import stages, unreadable_files
from sluice.operations.context import Context
from sluice.operations.selection import EVERYTHING, Selection
from sluice.operations.unreadable_files import AWAY_AFTER, UnreadableFiles
from tests.unit.projects import SHOP, files_of_loads, keys, open_shop
from tests.unit.tablefiles import look, parquet_bytes

pytestmark = pytest.mark.catalog

FULL = Path("/dev/full")
COPIED = '[{"b": 1}, {"b": "NAME"}]'
AS_IT_IS = '{"a": "NAME"}\n'


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every copy goes to disk, and the disk is full."""
    for module in (contents_module, landed_module):
        monkeypatch.setattr(module, "IN_MEMORY", 8)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FULL.open("w+b"))
    monkeypatch.setattr(unreadable_files, "pause", lambda _turn: 0.0)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    context = open_shop(tmp_path, SHOP)
    write(context, COPIED, "b.jsonl")
    write(context, AS_IT_IS, "a.jsonl", "c.jsonl")
    return context


def write(context: Context, content: str, *names: str) -> None:
    for name in names:
        (context.project.root / "landing" / name).write_text(content.replace("NAME", name))


@pytest.mark.usefixtures("full")
def test_a_file_whose_copy_fills_the_temporary_disk_keeps_no_other_waiting(
    context: Context,
) -> None:
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == ["a.jsonl", "c.jsonl"]
    assert {key: str(error) for key, error in unreadable.errors.items()} == {
        "b.jsonl": f"b.jsonl: no room in {tempfile.gettempdir()} for its copy; make room there, "
        "set TMPDIR, or lower max_staged_bytes_per_file"
    }


@pytest.mark.usefixtures("full")
def test_a_run_loads_what_there_was_room_for_and_ends_as_an_error_to_try_again(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = files_of_loads(monkeypatch)
    _, failure = stages.run(context)
    assert loaded == ["a.jsonl", "c.jsonl"]
    assert isinstance(failure, FilesUnreadError)
    assert "b.jsonl: no room in" in str(failure)


@pytest.mark.usefixtures("full")
def test_without_room_for_many_the_store_is_not_taken_for_one_that_is_away(
    context: Context,
) -> None:
    many = [f"m{n:02}.jsonl" for n in range(2 * AWAY_AFTER)]
    write(context, COPIED, *many)
    write(context, AS_IT_IS, "z.jsonl")
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == [
        "a.jsonl",
        "c.jsonl",
        "z.jsonl",
    ]
    assert sorted(unreadable.errors) == ["b.jsonl", *many]


@pytest.mark.usefixtures("full")
def test_file_without_room_asked_for_by_name_is_an_error(context: Context) -> None:
    with pytest.raises(NoRoomError, match=r"b\.jsonl: no room"):
        stages.land(context, Selection(files=("b.jsonl",)), UnreadableFiles())


@pytest.mark.usefixtures("full")
def test_parquet_inspection_without_room_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoRoomError, match=r"a\.parquet: no room in"):
        look(tmp_path, "a.parquet", parquet_bytes(), CsvStyle())


def test_a_warehouse_without_room_for_the_copy_is_named(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = LocalStore.put_stream

    def put(store: LocalStore, key: str, content: BinaryIO) -> Any:
        if "/staged/" in key:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        return really(store, key, content)

    monkeypatch.setattr(LocalStore, "put_stream", put)
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == ["a.jsonl", "c.jsonl"]
    message = str(unreadable.errors["b.jsonl"])
    assert (
        f"b.jsonl: no room in file://{context.project.root}/data/warehouse/_sluice/shop/" in message
    )
    assert message.endswith("for its copy; make room there, or lower max_staged_bytes_per_file")
