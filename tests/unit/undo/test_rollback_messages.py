"""What a rollback says: each batch that goes, and how its files come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.types import StringType

from sluice.catalog.client import UnknownMetadataError
from sluice.catalog.scan_files import read_files
from sluice.errors import TerminalError
from sluice.ledger import scans
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.states import FAILED, FILE_HELD, PUBLISHED, ROLLED_BACK
from sluice.manifest import SourceFile
from sluice.names import PROP_FLOOR, changelog_table
from sluice.operations import refolding
from sluice.operations.context import Context
from sluice.operations.held_files import release, to_have_back
from sluice.operations.rollback import RollbackRequest, roll_back
from sluice.result import BatchResult, Counts, StagedTable, TableResult
from tests.unit import fake_loads, staged_tables
from tests.unit.projects import open_shop
from tests.unit.undo_lake import TABLES, changelog, fold, publish, state

pytestmark = pytest.mark.catalog

RELEASE = "1 file of batch {0} is held until: sluice release shop --batch {0}"


def lines_of(context: Context, **asked: object) -> list[str]:
    return roll_back(context, RollbackRequest(**asked))  # type: ignore[arg-type]


def test_each_batch_that_was_undone_is_named_with_its_release(context: Context) -> None:
    lines = lines_of(context, to="b1")
    assert lines[-2:] == [RELEASE.format("b3"), RELEASE.format("b2")]
    assert lines_of(context, batch="b3")[-1] == RELEASE.format("b3")


@pytest.mark.parametrize("asked", [{"batch": "b3"}, {"to": "b1"}], ids=["one batch", "several"])
def test_columns_that_anybody_added_since_are_named_as_they_go(
    context: Context, asked: dict[str, str]
) -> None:
    with context.catalog.load_table(("shop", "orders")).update_schema() as update:
        update.add_column("region", StringType())
    gone = "shop.orders: columns that go: region"
    told = lines_of(context, dry_run=True, **asked)
    assert [line for line in told if "columns" in line] == [f"would undo: {gone}"]
    assert [line for line in lines_of(context, **asked) if "columns" in line] == [gone]
    assert context.catalog.load_table(("shop", "orders")).schema().column_names == ["id"]


def test_a_table_whose_metadata_are_missing_is_named_with_what_to_do(context: Context) -> None:
    file = context.catalog.load_table(("shop", "orders")).metadata_location
    Path(urlsplit(file).path).unlink()
    with pytest.raises(UnknownMetadataError, match=f"^shop.orders: .* missing.*put {file} back"):
        lines_of(context, batch="b3")
    assert state(context, "b3") == PUBLISHED


def test_of_batches_without_held_files_nothing_is_to_be_released(context: Context) -> None:
    context.ledger.batches.record("b4", "published", attempt="a1")  # has none
    assert [line for line in lines_of(context, batch="b4") if "release" in line] == []
    lines_of(context, batch="b3")
    assert [line for line in lines_of(context, batch="b2", release=True) if "--batch" in line] == []


def test_rollback_and_release_report_files_that_return_at_another_epoch(
    tmp_path: Path, messages: list[str]
) -> None:
    """There they rank above all that came since, which nobody might expect of old files."""
    context = open_shop(tmp_path, fake_loads.PIPELINE)
    fake_loads.write(context, "orders/first.csv")
    batch = fake_loads.load(context)
    later = replace(fake_loads.raised(context, full_load=False), say=messages.append)
    above = (
        f"batch {batch} was loaded at epoch 0, and the next run loads its files at epoch 1, above "
        "all that older epochs brought"
    )
    assert lines_of(later, batch=batch) == [f"{RELEASE.format(batch)}; {above}"]
    assert release(later, batch) == 1
    assert messages == [f"release: {above}"]


def test_changed_files_come_back_at_the_epoch_of_what_they_replace(tmp_path: Path) -> None:
    context = open_shop(tmp_path, fake_loads.PIPELINE)
    for text in ("id\n1\n", "id\n2\n"):
        fake_loads.write(context, "orders/first.csv", text)
        batch = fake_loads.load(context, changed=True)
    later = fake_loads.raised(context, full_load=False)
    assert lines_of(later, batch=batch) == [RELEASE.format(batch)]


def test_a_dry_run_names_every_batch_that_goes(context: Context) -> None:
    context.ledger.batches.record("b4", "published", attempt="a1")  # wrote nothing
    assert lines_of(context, to="b1", dry_run=True)[0] == "would undo: batch b4, b3, b2"
    assert lines_of(context, to="b4", dry_run=True) == ["nothing was published after batch b4"]


def test_a_rollback_to_no_snapshot_says_none(context: Context) -> None:
    context.catalog.drop_table(("shop", "users"))
    context.catalog.create_table(("shop", "users"), staged_tables.SCHEMA)
    publish(context, "b4", 4)
    for dry_run in (True, False):
        lines = lines_of(context, batch="b4", dry_run=dry_run)
        (moved,) = (line for line in lines if "shop.users: main " in line)
        assert moved.endswith(" → none")


def test_a_dry_run_names_the_changes_of_a_batch_that_failed(context: Context) -> None:
    context.ledger.batches.record("b5", FAILED, attempt="a1")
    changelog(context, "users", "b5")
    assert lines_of(context, batch="b5", dry_run=True) == [
        "would undo: batch b5, which is failed",
        "would hold: 0 files",
        "would undo: shop__cdc.users__changes: changes of batch b5",
    ]
    assert "shop__cdc.users__changes: changes of the batch removed" in lines_of(context, batch="b5")


def test_dry_run_lists_what_an_unpublished_batch_loses(context: Context) -> None:
    publish(context, "b4", 4, tables=(), state=FAILED)
    assert lines_of(context, batch="b4", dry_run=True) == [
        "would undo: batch b4, which is failed",
        "would undo: shop.orders: branch batch_b4_a1 dropped",
        "would undo: shop.users: branch batch_b4_a1 dropped",
        "would hold: 1 file",
    ]
    assert state(context, "b4") == FAILED
    assert lines_of(context, batch="b4")[-1] == RELEASE.format("b4")


@pytest.mark.usefixtures("with_changelogs")
def test_a_dry_run_that_would_fold_says_what_it_takes_and_how_many_files_it_holds(
    context: Context,
) -> None:
    assert lines_of(context, batch="b2", dry_run=True)[-2:] == [
        "would take a Spark job and the pipeline's lease, as a load does",
        "would hold: 1 file",
    ]


@pytest.mark.usefixtures("folded")
def test_an_undo_among_the_newer_batches_stays_and_is_named_with_the_release(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines_of(context, batch="b1")
    undo = next(row.batch_id for row in context.ledger.batches.all() if "undone" in row.details)
    publish(context, "b5", 5)
    for name in TABLES:
        table = context.catalog.load_table(("shop__cdc", f"{name}__changes"))
        table.append(pa.table({"_batch_id": ["b5"]}))
    monkeypatch.setattr(refolding, "load", fold(context, 98, "a2"))
    stays = (
        f"batch {undo} stays, which undid b1; to have that back, release its files and run: "
        "sluice release shop --batch b1"
    )
    would = lines_of(context, to="b3", dry_run=True)
    assert would[0] == "would undo: batch b5"
    assert stays in would
    assert stays in lines_of(context, to="b3")
    assert [state(context, batch) for batch in (undo, "b5")] == [PUBLISHED, ROLLED_BACK]


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize(
    ("taken_by", "comes_back"),
    [
        ("", "its files are released: the next run loads them"),
        ("b6", "its files are those of batch b6 by now"),
        ("b5", "to have that back, release its files and run: sluice release shop --batch b5"),
    ],
    ids=["released", "of a batch that stays", "of one that goes"],
)
def test_what_an_undo_took_out_comes_back_from_the_batch_that_has_its_files(
    context: Context, taken_by: str, comes_back: str
) -> None:
    lines_of(context, batch="b1")
    undo = next(row.batch_id for row in context.ledger.batches.all() if "undone" in row.details)
    release(context, "b1")
    if taken_by:
        first = SourceFile("b1.jsonl", "file:///b1.jsonl", 1)
        context.ledger.files.claim(ClaimRequest((first,), lambda _: taken_by))
    publish(context, "b5", 5)
    for name in TABLES:
        table = context.catalog.load_table(("shop__cdc", f"{name}__changes"))
        table.append(pa.table({"_batch_id": ["b5"]}))
    would = lines_of(context, to="b3", dry_run=True)
    assert f"batch {undo} stays, which undid b1; {comes_back}" in would


def test_what_several_undone_batches_brought_is_read_at_once(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan of the files of years is too large to be kept for the next batch."""
    monkeypatch.setattr(scans, "_KEPT_BYTES", 0)
    lines_of(context, to="b1")
    read = []

    def noted(wanted: DataScan, tasks: Sequence[FileScanTask]) -> pa.Table:
        assert wanted.table_identifier is not None
        read.append(wanted.table_identifier[-1])
        return read_files(wanted, tasks)

    monkeypatch.setattr(scans, "read_files", noted)
    assert to_have_back(context, ["b2", "b3"]) == (
        "to have that back, release its files and run: sluice release shop --batch b2, "
        "sluice release shop --batch b3"
    )
    assert read == ["files"]


def test_files_that_are_held_already_are_not_counted_in_a_dry_run(context: Context) -> None:
    """As a rollback leaves them that died before it recorded its end."""
    context.ledger.files.mark("b3", FILE_HELD)
    assert lines_of(context, batch="b3", dry_run=True)[-1] == "would hold: 0 files"


def test_a_rebuild_says_which_targets_are_right(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A colon in a target's name does not end it."""
    staged = (
        StagedTable("shop__cdc", "users__tombstones", "x", 1, 2, 0),
        StagedTable("shop", "a: b", "x", 1, 2, 0),
    )
    result = BatchResult("shop", "b", "a1", (TableResult("", "", Counts(), staged),))
    monkeypatch.setattr(refolding, "load", lambda *_: None)
    monkeypatch.setattr(refolding, "publish", lambda *_: result)
    targets = ["a: b", "orders", "users"]
    for name in targets:
        changelog(context, name, "b1")
    assert lines_of(context, rebuild=True) == [
        "shop__cdc.users__tombstones: main 1 → 2",
        "shop.a: b: main 1 → 2",
        "shop.orders: nothing differs from its changelog",
    ]
    would = [f"would make again: shop.{name}" for name in targets]
    assert lines_of(context, rebuild=True, dry_run=True) == would
    log = context.catalog.load_table(("shop__cdc", changelog_table("orders")))
    log.transaction().set_properties({PROP_FLOOR: "1.7"}).commit_transaction()
    would[1] += " (do not drop it: its changes up to 1.7 are forgotten)"
    assert lines_of(context, rebuild=True, dry_run=True) == would


def test_user_of_a_rebuild_is_kept_with_its_batch(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another process completes it, which nobody asked."""
    changelog(context, "orders", "b1")
    monkeypatch.setattr(refolding, "load", fold(context))
    lines_of(context, rebuild=True, user="ann")
    newest, *_ = context.ledger.batches.all()
    assert newest.state == PUBLISHED
    assert newest.details["rebuilt"] == ["orders"]
    assert newest.details["rebuilt_by"] == "ann"
    lines_of(context, rebuild=True)
    assert "rebuilt_by" not in context.ledger.batches.all()[0].details


def test_a_rebuild_of_nothing_says_that_no_table_is_there_yet(tmp_path: Path) -> None:
    empty = open_shop(tmp_path)
    with pytest.raises(TerminalError, match="pipeline shop has no table yet"):
        lines_of(empty, rebuild=True)
    with pytest.raises(TerminalError, match="has no table nosuch; it has: none"):
        lines_of(empty, rebuild=True, table="nosuch")
