"""Only files that may have to be loaded are looked at, since a lake's ledger has many more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.ledger.rows import FileRow
from sluice.ledger.states import FILE_HELD, FILE_LOADED, FILE_RELEASED, PUBLISHED
from sluice.objects.store import StoredObject
from sluice.operations.context import Context
from sluice.operations.land import candidates
from sluice.operations.selection import Selection, open_landing
from sluice.operations.why_nothing import why_nothing
from tests.all_readable import land
from tests.unit.projects import SHOP, keys, open_shop

pytestmark = pytest.mark.catalog


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Two files that are loaded."""
    context = open_shop(tmp_path, SHOP)
    for name in ("a", "b"):
        write(context, f"{name}.jsonl", name)
    (key,) = land(context)
    batch = context.files.read_manifest(key).batch_id
    context.ledger.files.mark(batch, FILE_LOADED)
    context.ledger.batches.record(batch, PUBLISHED)
    return context


def write(context: Context, name: str, text: str) -> None:
    (context.project.root / "landing" / name).write_text(f'{{"op": "{text}"}}\n')


def listed(context: Context) -> list[StoredObject]:
    return list(open_landing(context).list("*"))


def batch_of(context: Context, key: str) -> str:
    return context.ledger.files.known()[key].batch_id


@pytest.fixture
def rows_made(monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[str]]:
    """Of which objects somebody made a row since."""
    made, really = set[str](), FileRow.__init__

    def noted(self: FileRow, *given: Any, **more: Any) -> None:
        really(self, *given, **more)
        made.add(self.object_key)

    monkeypatch.setattr(FileRow, "__init__", noted)
    return lambda: made


def test_a_landing_makes_no_rows_of_files_that_are_loaded(
    context: Context, rows_made: Callable[[], set[str]]
) -> None:
    write(context, "c.jsonl", "c")
    assert [one.key for one in candidates(context)] == ["c.jsonl"]
    assert keys(context, land(context)) == ["c.jsonl"]
    assert rows_made() == {"c.jsonl"}


def test_why_nothing_is_loaded_makes_no_rows(
    context: Context, rows_made: Callable[[], set[str]]
) -> None:
    assert "is in the ledger already" in why_nothing(context)
    assert rows_made() == set()


def test_a_file_that_changed_is_left_with_what_is_known_of_it(context: Context) -> None:
    write(context, "b.jsonl", "another")
    left, known = context.ledger.files.unclaimed_or_changed(listed(context))
    assert [one.key for one in left] == list(known) == ["b.jsonl"]
    assert known["b.jsonl"].batch_id == batch_of(context, "b.jsonl")


@pytest.mark.parametrize(("state", "left"), [(FILE_HELD, 0), (FILE_RELEASED, 2)])
def test_a_held_file_is_settled_until_it_is_released(
    context: Context, state: str, left: int
) -> None:
    for one in dict.fromkeys((FILE_HELD, state)):
        context.ledger.files.mark(batch_of(context, "a.jsonl"), one)
    found, known = context.ledger.files.unclaimed_or_changed(listed(context))
    assert (len(found), len(known)) == (left, left)
    assert len(context.ledger.files.held()) == 2 - left


def test_held_files_are_reported_only_if_the_selection_has_them(context: Context) -> None:
    context.ledger.files.mark(batch_of(context, "a.jsonl"), FILE_HELD)
    assert "are held" in why_nothing(context, Selection(files=("a.jsonl",)))
    write(context, "c.jsonl", "c")
    land(context)
    assert "are held" in why_nothing(context)
    assert "are held" not in why_nothing(context, Selection(files=("c.jsonl",)))
