"""What is dropped of tables that no batch ever published, on a real catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from sluice.errors import LeaseHeldError
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.states import FAILED, LANDED, PUBLISHED, ROLLED_BACK
from sluice.names import BATCH_ID, PROP_HISTORY_OF, PROP_PIPELINE
from sluice.operations import empty_tables
from sluice.operations.context import Context
from sluice.operations.empty_tables import drop_empty_tables
from sluice.operations.reconcile import reconcile
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

ROWS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, BATCH_ID, StringType(), required=False),
)
BY_BATCH = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), BATCH_ID))
OURS = {PROP_PIPELINE: "shop"}
ALL = {
    ("shop", "orders"), ("shop", "orders__history"),
    ("shop__cdc", "orders__changes"), ("shop__cdc", "orders__tombstones"),
}  # fmt: skip


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """What a failed batch leaves of one table, its changes included."""
    context = open_shop(tmp_path)
    for namespace in ("shop", "shop__cdc"):
        context.catalog.create_namespace(namespace)
    for ident in ALL:
        history = {PROP_HISTORY_OF: "orders"} if ident[1].endswith("__history") else {}
        spec = BY_BATCH if ident[1].endswith("__changes") else PartitionSpec()
        context.catalog.create_table(ident, ROWS, None, spec, properties={**OURS, **history})
    write(context, ("shop__cdc", "orders__changes"), "b1")
    context.ledger.batches.record("b1", FAILED, attempt="a1")
    return context


def write(context: Context, ident: tuple[str, str], batch: str, branch: str = "main") -> None:
    rows = pa.table({"id": pa.array([1], pa.int64()), BATCH_ID: [batch]})
    context.catalog.load_table(ident).append(rows, branch=branch)


def there(context: Context) -> set[tuple[str, ...]]:
    return {
        ident for space in ("shop", "shop__cdc") for ident in context.catalog.list_tables(space)
    }


def dropping(
    context: Context, monkeypatch: pytest.MonkeyPatch, then: Callable[[tuple[str, str]], None]
) -> None:
    """`then` is called with each table that was dropped."""
    really = context.catalog.drop_table

    def drop(ident: Any, **purge: bool) -> None:
        really(ident, **purge)
        then(ident)

    monkeypatch.setattr(context.catalog, "drop_table", drop)


def test_tables_of_a_failed_batch_are_dropped(context: Context) -> None:
    assert there(context) == ALL
    assert drop_empty_tables(context) == ["shop.orders"]
    assert there(context) == set()
    assert drop_empty_tables(context) == []


def test_a_dropped_table_is_not_said_to_be_of_a_batch_that_never_was_published(
    context: Context,
) -> None:
    """It may have been published, and rolled back."""
    context.ledger.batches.record("b1", ROLLED_BACK)
    told: list[str] = []
    reconcile(replace(context, say=told.append))
    assert told == [
        "reconcile: shop.orders is dropped: nothing of it is published, its batches failed or were "
        "rolled back"
    ]


def test_a_dropped_table_can_be_registered_again(context: Context) -> None:
    at = context.catalog.load_table(("shop__cdc", "orders__changes")).metadata_location
    drop_empty_tables(context)
    again = context.catalog.register_table(("shop__cdc", "orders__changes"), at)
    assert again.scan().to_arrow()["id"].to_pylist() == [1]


def test_tables_are_dropped_without_a_purge_if_the_catalog_refuses_it(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(ident: tuple[str, str]) -> None:
        raise ForbiddenError(f"Unable to purge entity: {ident}")

    monkeypatch.setattr(context.catalog, "purge_table", refuse)
    assert drop_empty_tables(context) == ["shop.orders"]
    assert there(context) == set()


@pytest.mark.parametrize("at", sorted(ALL))
def test_a_target_that_is_published_between_two_drops_stays(
    context: Context, monkeypatch: pytest.MonkeyPatch, at: tuple[str, str]
) -> None:
    left: list[set[tuple[str, ...]]] = []

    def publish(dropped: tuple[str, str]) -> None:
        if dropped == at:
            context.catalog.create_table_if_not_exists(("shop", "orders"), ROWS, properties=OURS)
            write(context, ("shop", "orders"), "b2")
            context.ledger.batches.record("b2", PUBLISHED, attempt="a2")
            left.append(there(context))

    dropping(context, monkeypatch, publish)
    drop_empty_tables(context)
    assert ("shop", "orders") in there(context)
    assert [there(context)] == left


def test_nobody_gets_the_lease_between_two_drops(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: tuple[str, str]) -> None:
        with pytest.raises(LeaseHeldError):
            context.ledger.lease.acquire("b2", "a2", Lease("other:1:1", 60))

    dropping(context, monkeypatch, load)
    assert drop_empty_tables(context) == ["shop.orders"]
    context.ledger.lease.acquire("b2", "a2", Lease("other:1:1", 60))


def test_nothing_goes_while_somebody_has_the_lease(context: Context) -> None:
    context.ledger.lease.acquire_for_maintenance("a9", Lease("other:1:1", 60))
    assert drop_empty_tables(context) == []
    assert there(context) == ALL


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_interrupted_drops_are_completed(
    context: Context, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    dropped: list[tuple[str, str]] = []

    def die(ident: tuple[str, str]) -> None:
        dropped.append(ident)
        if len(dropped) == gone:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        dropping(context, patch, die)
        with pytest.raises(KeyboardInterrupt):
            drop_empty_tables(context)
    assert len(there(context)) == len(ALL) - gone
    assert drop_empty_tables(context) == ["shop.orders"]
    assert there(context) == set()


def test_a_changelog_of_a_target_that_somebody_dropped_stays(context: Context) -> None:
    context.ledger.batches.record("b1", PUBLISHED, attempt="a1")
    context.catalog.drop_table(("shop", "orders"))
    assert drop_empty_tables(context) == []
    assert there(context) == ALL - {("shop", "orders")}


@pytest.mark.parametrize("name", ["orders", "orders__history"])
def test_a_table_that_has_rows_stays(context: Context, name: str) -> None:
    write(context, ("shop", name), "b0")
    assert drop_empty_tables(context) == []
    assert there(context) == ALL


def test_a_table_whose_deletes_alone_were_published_stays(context: Context) -> None:
    write(context, ("shop__cdc", "orders__tombstones"), "b0")
    assert drop_empty_tables(context) == []
    assert there(context) == ALL


@pytest.mark.parametrize("known", [True, False])
def test_a_table_with_changes_of_a_batch_that_may_be_published_stays(
    context: Context, known: bool
) -> None:
    write(context, ("shop__cdc", "orders__changes"), "b0")
    if known:
        context.ledger.batches.record("b0", PUBLISHED, attempt="a1")
    assert drop_empty_tables(context) == []
    assert there(context) == ALL


@pytest.mark.parametrize("lease", [None, Lease(this_holder(), 60)])
def test_nothing_goes_while_a_batch_is_on_its_way(context: Context, lease: Lease | None) -> None:
    context.ledger.batches.record("b2", LANDED, lease=lease)
    assert drop_empty_tables(context) == []
    assert there(context) == ALL


def test_nothing_goes_where_a_load_began_since_the_first_look(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = empty_tables._targets

    def late(ctx: Context) -> Iterator[str]:
        yield from list(really(ctx))
        context.ledger.batches.record("b2", LANDED, lease=Lease(this_holder(), 60))

    monkeypatch.setattr(empty_tables, "_targets", late)
    assert drop_empty_tables(context) == []
    assert there(context) == ALL


@pytest.mark.parametrize("properties", [{}, {PROP_PIPELINE: "other"}, {PROP_HISTORY_OF: "x"}])
def test_tables_that_are_no_target_of_the_pipeline_stay(
    context: Context, properties: dict[str, str]
) -> None:
    context.catalog.create_table(("shop", "theirs"), ROWS, properties=properties)
    assert drop_empty_tables(context) == ["shop.orders"]
    assert there(context) == {("shop", "theirs")}
