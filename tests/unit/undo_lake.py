"""A shop of two tables with three published batches, for tests that undo them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType

from sluice.catalog.table_publish import publish_table
from sluice.faults import Point
from sluice.ledger.changelogs import forget_changes
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.ledger import Ledger
from sluice.ledger.rows import Publication
from sluice.ledger.states import INTENT, LOADED, PUBLISHED
from sluice.manifest import SourceFile
from sluice.names import BATCH_ID, PROP_PIPELINE, changelog_table
from sluice.operations import rollback_mark, undo
from sluice.operations.context import Context, open_context
from sluice.result import BatchResult, Counts, StagedTable, TableResult
from tests.unit import staged_tables
from tests.unit.clocks import FastClock
from tests.unit.projects import open_shop

TABLES = ("orders", "users")
_CLOCK = FastClock()


class Killed(BaseException):
    """The exception that ends a process at a point."""


def at_point(point: Point, action: Callable[[], None], time: int = 1) -> Callable[[Point], None]:
    """A function for `reach`: runs the action when the point is reached for the `time`-th time."""
    passed: list[Point] = []

    def reach(here: Point) -> None:
        passed.append(here)
        if here == point and passed.count(point) == time:
            action()

    return reach


def killed_at(point: Point, time: int = 1) -> Callable[[Point], None]:
    """A function for `reach`, in a process that ends when it reaches the point for the
    `time`-th time."""

    def die() -> None:
        raise Killed

    return at_point(point, die, time)


def pass_points(patch: pytest.MonkeyPatch, reach: Callable[[Point], object]) -> None:
    """Have a function called at each point of a rollback."""
    for module in (undo, rollback_mark):
        patch.setattr(module, "reach", reach)


def forget_batch(context: Context, batch_id: str, besides: Container[tuple[str, str]] = ()) -> None:
    """Remove a batch's changes from the changelogs, as an undo or retention does."""
    forget_changes(context.catalog, "shop", batch_id, besides, confirm=lambda: None)


def three_batches(tmp_path: Path) -> Context:
    """Two tables with an earlier row, and batches b1, b2, b3 that add a row to each.

    Created once, and restored for each test in the same place, since tables know their paths.
    """
    root, kept = tmp_path.parent / "three_batches", tmp_path.parent / "three_batches_kept"
    if kept.is_dir():
        shutil.rmtree(root)
        shutil.copytree(kept, root)
    else:
        root.mkdir()
        _publish_three(open_shop(root))
        shutil.copytree(root, kept)
    context = open_context(root, "shop")
    _CLOCK.ahead = timedelta()
    return replace(context, ledger=Ledger(context.catalog, _CLOCK).of("shop"))


def _publish_three(context: Context) -> None:
    context.catalog.create_namespace("shop")
    for name in TABLES:
        context.catalog.create_table(("shop", name), staged_tables.SCHEMA)
        write(context, name, 0)
    for number in (1, 2, 3):
        publish(context, f"b{number}", number)


def write(context: Context, name: str, value: int) -> None:
    staged_tables.write(context.catalog, value, name=("shop", name))


def stage(context: Context, batch: str, name: str, value: int, attempt: str = "a1") -> StagedTable:
    """Stage as a driver does: a branch of `main` with one more row."""
    return staged_tables.stage(context.catalog, batch, value, attempt, ("shop", name))


def publish(
    context: Context,
    batch: str,
    value: int,
    tables: tuple[str, ...] = TABLES,
    state: str = PUBLISHED,
) -> None:
    """Publish a batch of one file in `tables`, with its rows in the ledger; it is staged
    in all tables."""
    file = SourceFile(f"{batch}.jsonl", f"file:///{batch}.jsonl", 1)
    context.ledger.files.claim(ClaimRequest((file,), lambda _: batch))
    rows = []
    for name in TABLES:
        s = stage(context, batch, name, value)
        if name in tables:
            publish_table(context.catalog, s, batch)
        rows.append(
            Publication("shop", batch, "a1", "shop", name, s.base_snapshot, 0,
                        s.head_snapshot, s.branch)
        )  # fmt: skip
    # Of a publication under way the ledger has the intent alone.
    publication_state = PUBLISHED if state == PUBLISHED else INTENT
    context.ledger.publications.record(replace(row, state=publication_state) for row in rows)
    context.ledger.batches.record(batch, state, attempt="a1")


def publish_users(context: Context, batch: str = "b4") -> None:
    """A batch that has rows for one of the two tables."""
    staged = stage(context, batch, "users", int(batch[1:]))
    publish_table(context.catalog, staged, batch)
    row = Publication("shop", batch, "a1", "shop", "users", staged.base_snapshot, 0,
                      staged.head_snapshot, staged.branch, state=PUBLISHED)  # fmt: skip
    context.ledger.publications.record([row])
    context.ledger.batches.record(batch, PUBLISHED, attempt="a1")


def fold(
    context: Context, value: int = 99, attempt: str = "a1"
) -> Callable[[Context, str], BatchResult]:
    """Replaces the driver of a batch that undoes others: one more row in each table stands for
    the folded rows."""

    def load(_: Context, key: str) -> BatchResult:
        manifest = context.files.read_manifest(key)
        batch = manifest.batch_id
        tables = (
            TableResult(n, n, Counts(), (stage(context, batch, n, value, attempt),)) for n in TABLES
        )
        lease = Lease(this_holder(), 60)
        context.ledger.lease.acquire(batch, attempt, lease, undone=manifest.undone)
        folded = counted(context, *manifest.undone)
        result = BatchResult("shop", batch, attempt, tuple(tables), folded=folded)
        context.files.write_result(result)
        context.ledger.batches.record(batch, LOADED, attempt=result.attempt)
        return result

    return load


def counted(context: Context, *without: str) -> tuple[str, ...]:
    """The batches whose changes a fold counts: those published now, without some."""
    return tuple(sorted(context.ledger.batches.published() - set(without)))


def an_hour_later() -> None:
    """Let all leases in the shop of `three_batches` lapse."""
    _CLOCK.ahead += timedelta(hours=1)


def ids(context: Context, name: str) -> list[int]:
    return staged_tables.ids(context.catalog, ("shop", name))


def everything(context: Context) -> list[list[int]]:
    return [ids(context, name) for name in TABLES]


def state(context: Context, batch: str) -> str:
    row = context.ledger.batches.get(batch)
    assert row is not None
    return row.state


def changelog(context: Context, name: str, *batches: str) -> None:
    """A changelog with one change of each batch."""
    rows = Schema(NestedField(1, BATCH_ID, StringType(), required=False))
    by_batch = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), BATCH_ID))
    context.catalog.create_namespace_if_not_exists("shop__cdc")
    ident = ("shop__cdc", changelog_table(name))
    mine = {PROP_PIPELINE: "shop"}
    table = context.catalog.create_table(ident, rows, partition_spec=by_batch, properties=mine)
    table.append(pa.table({BATCH_ID: list(batches)}))
