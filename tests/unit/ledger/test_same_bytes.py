"""The same bytes under another name are skipped in one epoch, and are other events in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.ledger.claims import ClaimRequest, by_checksum
from sluice.ledger.states import FILE_LOADED, FILE_RELEASED, PUBLISHED
from sluice.manifest import SourceFile, name_batch
from sluice.operations import preview as preview_module
from sluice.operations.context import Context
from sluice.operations.preview import Forecast, preview
from sluice.operations.selection import Selection
from tests.all_readable import land, land_tables
from tests.unit.fake_loads import DUMP, PIPELINE, load, publish, raised, undo, write
from tests.unit.projects import keys, open_shop

pytestmark = pytest.mark.catalog


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A pipeline of dumps, the first of which is loaded."""
    context = open_shop(tmp_path, PIPELINE)
    write(context, "orders/first.csv")
    load(context)
    return context


def test_same_bytes_of_one_epoch_are_skipped(context: Context) -> None:
    write(context, "orders/second.csv")
    assert land(context) == []


def test_a_full_load_of_a_raised_epoch_is_taken(context: Context) -> None:
    write(context, "orders/second.csv")
    later = raised(context)
    assert keys(later, land(later)) == ["orders/second.csv"]
    write(later, "orders/third.csv")
    assert land(later) == []


def test_a_copy_of_the_old_log_is_skipped_where_no_full_load_takes_its_place(
    context: Context,
) -> None:
    write(context, "orders/second.csv")
    assert land(raised(context, full_load=False)) == []


def test_copies_in_a_raised_epoch_count_once(context: Context) -> None:
    later = raised(context)
    write(later, "orders/second.csv")
    load(later)
    write(later, "orders/third.csv")
    assert land(later) == []


def test_same_bytes_of_a_batch_not_loaded_yet_are_skipped_at_the_current_epoch(
    context: Context,
) -> None:
    write(context, "orders/waits.csv", "id\n3\n")
    assert len(land(context)) == 1
    later = raised(context)
    write(later, "orders/copy.csv", "id\n3\n")
    assert land(later) == []


def test_released_file_counts_at_the_epoch_where_it_is_claimed_again(context: Context) -> None:
    """Its batch still tells the epoch that it was published at before."""
    batch = context.ledger.files.known()["orders/first.csv"].batch_id
    undo(context.ledger, batch)
    context.ledger.files.mark(batch, FILE_RELEASED)
    later = raised(context)
    write(later, "orders/second.csv")
    assert keys(later, land(later)) == ["orders/first.csv"]


def test_released_file_that_is_claimed_already_is_not_loaded_twice(context: Context) -> None:
    batch = context.ledger.files.known()["orders/first.csv"].batch_id
    undo(context.ledger, batch)
    context.ledger.files.mark(batch, FILE_RELEASED)
    later = raised(context)
    assert keys(later, land(later)) == ["orders/first.csv"]
    write(later, "orders/second.csv")
    assert land(later) == []


def test_held_file_counts_at_its_own_epoch_alone(context: Context) -> None:
    undo(context.ledger, context.ledger.files.known()["orders/first.csv"].batch_id)
    write(context, "orders/second.csv")
    assert land(context) == []
    later = raised(context)
    assert keys(later, land(later)) == ["orders/second.csv"]


def test_a_changed_file_is_compared_at_the_epoch_that_it_is_loaded_at(context: Context) -> None:
    write(context, "orders/other.csv", "id\n3\n")
    load(context)
    later = raised(context)
    write(later, "orders/other.csv", DUMP)
    assert land(later, Selection(changed=True)) == []
    assert changed_of(later) == ()


def test_a_changed_file_may_have_bytes_of_a_later_epoch(context: Context) -> None:
    later = raised(context)
    write(later, "orders/second.csv", "id\n4\n")
    load(later)
    write(later, "orders/first.csv", "id\n4\n")
    assert changed_of(later) == ("orders/first.csv",)
    (key,) = land(later, Selection(changed=True))
    manifest = later.files.read_manifest(key)
    assert (manifest.epoch, keys(later, [key])) == (0, ["orders/first.csv"])


def changed_of(context: Context) -> tuple[str, ...]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preview_module, "_forecast", lambda *_: Forecast())
        return preview(context, Selection(changed=True)).changed


def test_plan_lists_the_files_that_a_run_would_take(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_module, "_forecast", lambda *_: Forecast())
    write(context, "orders/second.csv")
    assert preview(context).repeated == ("orders/second.csv",)
    later = raised(context)
    write(later, "orders/third.csv")
    found = preview(later)
    assert found.files == ("orders/second.csv",)
    assert found.repeated == ("orders/third.csv",)


def test_a_run_for_one_table_reads_what_a_run_would_take(context: Context) -> None:
    write(context, "orders/second.csv")
    orders = Selection(tables=("orders",))
    assert keys(context, land_tables(context, orders)) == ["orders/first.csv"]
    later = raised(context)
    found = [later.files.read_manifest(key) for key in land_tables(later, orders)]
    assert [(m.epoch, [f.key for f in m.files]) for m in found] == [
        (0, ["orders/first.csv"]),
        (None, ["orders/second.csv"]),
    ]


def test_a_replaced_object_counts_at_the_epoch_of_its_own_batch(context: Context) -> None:
    write(context, "orders/first.csv", "id\n5\n")
    load(context, changed=True)
    write(context, "orders/second.csv")
    assert land(context) == []
    later = raised(context)
    assert keys(later, land(later)) == ["orders/second.csv"]


def test_batch_without_an_epoch_counts_at_every_epoch(context: Context) -> None:
    ledger = context.ledger

    def claimed(key: str, epoch: int) -> tuple[str, int]:
        file = SourceFile(key=key, url=key, size=1, etag="e", sha256="s", hour="h")
        batch, won = ledger.files.claim(
            ClaimRequest((file,), lambda f: name_batch("shop", f), epochs=[epoch])
        )
        return batch, len(won)

    batch, _ = claimed("a", 0)
    ledger.files.mark(batch, FILE_LOADED)
    ledger.batches.record(batch, PUBLISHED)
    assert claimed("b", 0) == claimed("b", 1) == ("", 0)
    assert "s" in ledger.files.known_contents(by_checksum, epochs=[1])
    publish(ledger, batch, 0)
    assert "s" not in ledger.files.known_contents(by_checksum, epochs=[1])
    assert claimed("b", 1)[1] == 1


CHANGES = ("20260302-090001000.csv", "20260302-090101000.csv", "20260302-090201000.csv")


@pytest.fixture
def changes(tmp_path: Path) -> Context:
    """A pipeline of files that AWS DMS names by when their first change was written."""
    return open_shop(tmp_path, PIPELINE.replace("rows", "aws_dms"))


@pytest.mark.parametrize("named", ["{}", "CDC_TXN-{}"])
def test_change_files_of_aws_dms_are_known_by_their_time_too(changes: Context, named: str) -> None:
    """A row that is set to a value for the second time has the bytes of the first."""
    whens = (name if named == "{}" else name.replace("-", "") for name in CHANGES)
    names = [f"shop/t/{named.format(when)}" for when in whens]
    for name, state in zip(names, ("on", "off", "on"), strict=True):
        write(changes, name, f"Op,id,state\nU,1,{state}\n")
    assert keys(changes, land(changes)) == names


def test_copies_of_a_change_file_and_of_a_full_load_are_skipped(changes: Context) -> None:
    names = [CHANGES[0], "LOAD00000001.csv", "LOAD00000002.csv"]
    landed = [f"a/shop/t/{name}" for name in names[:2]]
    for key in landed:
        write(changes, key, f"Op,id\nI,{len(key)}\n")
    assert keys(changes, land(changes)) == landed
    copies = [f"b/shop/t/{CHANGES[0]}", f"a/shop/t/2026/{CHANGES[0]}", f"a/shop/t/{names[2]}"]
    for key, original in zip(copies, (landed[0], landed[0], landed[1]), strict=True):
        write(changes, key, f"Op,id\nI,{len(original)}\n")
    assert land(changes) == []
