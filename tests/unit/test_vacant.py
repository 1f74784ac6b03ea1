"""What is dropped of tables that no batch ever published, on a real catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.rows import FAILED, LANDED, PUBLISHED
from sluice.names import BATCH_ID, PROP_HISTORY_OF, PROP_PIPELINE
from sluice.operations import vacant
from sluice.operations.context import Context
from sluice.operations.vacant import drop_vacant
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
    context.ledger.record_batch("shop", "b1", FAILED, attempt="a1")
    return context


def write(context: Context, ident: tuple[str, str], batch: str, branch: str = "main") -> None:
    rows = pa.table({"id": pa.array([1], pa.int64()), BATCH_ID: [batch]})
    context.catalog.load_table(ident).append(rows, branch=branch)


def there(context: Context) -> set[tuple[str, ...]]:
    return {
        ident for space in ("shop", "shop__cdc") for ident in context.catalog.list_tables(space)
    }


def test_tables_of_a_batch_that_failed_go_with_their_files(
    context: Context, tmp_path: Path
) -> None:
    assert there(context) == ALL
    assert drop_vacant(context) == ["shop.orders"]
    assert there(context) == set()
    assert not [p for p in (tmp_path / "warehouse" / "shop__cdc").rglob("*") if p.is_file()]
    assert drop_vacant(context) == []


@pytest.mark.parametrize("name", ["orders", "orders__history"])
def test_a_table_that_has_rows_stays(context: Context, name: str) -> None:
    write(context, ("shop", name), "b0")
    assert drop_vacant(context) == []
    assert there(context) == ALL


def test_a_table_whose_deletes_alone_were_published_stays(context: Context) -> None:
    write(context, ("shop__cdc", "orders__tombstones"), "b0")
    assert drop_vacant(context) == []
    assert there(context) == ALL


def test_a_table_with_changes_of_a_batch_that_is_published_stays(context: Context) -> None:
    write(context, ("shop__cdc", "orders__changes"), "b0")
    context.ledger.record_batch("shop", "b0", PUBLISHED, attempt="a1")
    assert drop_vacant(context) == []
    assert there(context) == ALL


@pytest.mark.parametrize("lease", [None, Lease(this_holder(), 60)])
def test_nothing_goes_while_a_batch_is_on_its_way(context: Context, lease: Lease | None) -> None:
    context.ledger.record_batch("shop", "b2", LANDED, lease=lease)
    assert drop_vacant(context) == []
    assert there(context) == ALL


def test_nothing_goes_where_a_load_began_since_the_first_look(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = vacant._targets

    def late(ctx: Context) -> Iterator[str]:
        yield from list(really(ctx))
        context.ledger.record_batch("shop", "b2", LANDED, lease=Lease(this_holder(), 60))

    monkeypatch.setattr(vacant, "_targets", late)
    assert drop_vacant(context) == []
    assert there(context) == ALL


@pytest.mark.parametrize("properties", [{}, {PROP_PIPELINE: "other"}, {PROP_HISTORY_OF: "x"}])
def test_what_is_no_target_of_the_pipeline_stays(
    context: Context, properties: dict[str, str]
) -> None:
    context.catalog.create_table(("shop", "theirs"), ROWS, properties=properties)
    assert drop_vacant(context) == ["shop.orders"]
    assert there(context) == {("shop", "theirs")}
