"""What landing tells of a file stays so in each batch, whatever becomes of its staged file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.errors import TerminalError
from sluice.ledger.states import FILE_LOADED, PUBLISHED
from sluice.manifest import Manifest
from sluice.objects.batch_files import batch_of
from sluice.operations.context import Context, open_context
from sluice.operations.selection import Selection
from spark_jobs.decoding import staged_files
from tests.all_readable import land, land_tables
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

ROWS = """\
name: shop
namespace: shop
format: rows
format_options: {table: t, csv_delimiter: ";"}
landing: {url: landing}
tables: {t: {key: [id]}, u: {key: [id]}}
"""
GOOD = "".join(f"{number};{'x' * 40}\n" for number in range(8000))
OWN = "shop/b/decoded-1-copies/"


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., Context]:
    return lambda **more: open_shop(
        tmp_path, ROWS + "".join(f"{k}: {v}\n" for k, v in more.items())
    )


def put(context: Context, name: str, text: str) -> None:
    (context.project.root / "landing" / name).write_text(text)


def manifest_of(context: Context, key: str) -> Manifest:
    return context.files.read_manifest(key)


def without_staged_files(context: Context) -> None:
    context.files.store.delete(context.files.staged_there("shop"))


def test_batches_that_staged_files_split_keep_all_their_rejects(
    shop: Callable[..., Context],
) -> None:
    """By their own sizes two files are of one batch, by their staged files' each of its own."""
    context = shop(max_bytes_per_batch=800_000)
    for name in "abc":
        bad = "".join(f"{number};{name};c\n" for number in range(600))
        put(context, f"{name}.csv", f"id;v\n{GOOD}{bad}")
    batches = [manifest_of(context, key) for key in land(context)]
    assert [len(batch.rejects) for batch in batches] == [600] * 3


def test_a_staged_file_that_a_batch_waits_for_is_not_replaced_by_another_reading(
    shop: Callable[..., Context],
) -> None:
    context = shop(max_staged_bytes_per_file=20_000_000)
    put(context, "t.csv", f"id;v\n{GOOD * 4}")
    (key,) = land(context)
    (file,) = manifest_of(context, key).files
    staged_bytes = Path(file.url.removeprefix("file://")).read_bytes()

    configured = context.project.root / "pipelines" / "shop.yaml"
    configured.write_text(configured.read_text().replace("20000000", "1048576"))
    again = open_context(context.project.root, "shop", lambda _: None)
    (other,) = land_tables(again, Selection(tables=("t",)))
    (smaller,) = manifest_of(context, other).files
    assert Path(smaller.url.removeprefix("file://")).read_bytes() == b""
    assert Path(file.url.removeprefix("file://")).read_bytes() == staged_bytes


def test_a_staged_file_is_made_again_of_the_bytes_that_landed_alone(
    shop: Callable[..., Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = shop()
    put(context, "t.csv", "id;v\n1;a\n")
    (key,) = land(context)
    without_staged_files(context)

    def written_again_behind_it(*args: object) -> None:
        put(context, "t.csv", "id;v\n9;z\n")

    monkeypatch.setattr(staged_files, "refuse_replaced", written_again_behind_it)
    with pytest.raises(TerminalError, match=r"t\.csv has other bytes than those that landed"):
        staged_files.with_staged_files(context, manifest_of(context, key), OWN)


def test_rejects_are_recorded_in_the_batch_that_takes_the_file(
    shop: Callable[..., Context],
) -> None:
    context = shop()
    put(context, "t.csv", "id;v\n1;a\n2;b;c\n3;c\n")
    (key,) = land(context)
    mine = manifest_of(context, key)
    context.ledger.files.mark(batch_of(key), FILE_LOADED)
    context.ledger.batches.record(batch_of(key), PUBLISHED, replace_details={"epoch": 0})
    (other,) = land_tables(context, Selection(tables=("t",)))
    beside = manifest_of(context, other)
    without_staged_files(context)

    made = [staged_files.with_staged_files(context, batch, OWN) for batch in (mine, beside)]
    assert [len(batch.rejects) for batch in made] == [1, 0]
    assert [Path(b.files[0].url.removeprefix("file://")).exists() for b in made] == [True, True]


def test_staged_files_of_an_attempt_are_made_once(shop: Callable[..., Context]) -> None:
    context = shop()
    put(context, "t.csv", "id;v\n1;a\n")
    (key,) = land(context)
    without_staged_files(context)
    once = staged_files.with_staged_files(context, manifest_of(context, key), OWN)
    assert staged_files.with_staged_files(context, once, OWN) is once
