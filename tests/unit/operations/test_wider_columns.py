"""maintain: what a driver left that was killed while it changed a column's type."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyiceberg.types import StringType

from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.states import LANDED
from sluice.operations.context import Context
from spark_jobs.lake.column_rewrite import has_wider
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.tables import Lake
from spark_jobs.maintaining.context import MaintenanceContext
from spark_jobs.maintaining.steps import drop_wider_columns
from tests.unit.undo_lake import three_batches

pytestmark = pytest.mark.catalog

ORDERS = TableId("shop", "orders")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """With a column and a branch that a rewrite left in `orders`."""
    context = three_batches(tmp_path)
    table = context.catalog.load_table(("shop", "orders"))
    with table.update_schema() as update:
        update.add_column("_sluice_wider id", StringType())
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "_sluice_wider").commit()
    return context


def drop(context: Context, dry_run: bool = False) -> str:
    lake, now = Lake(MagicMock(), context.catalog, "shop"), datetime.now(UTC)
    upkeep = MaintenanceContext(
        lake.spark, lake, context.ledger, context.files, context.pipeline, now, dry_run
    )
    return drop_wider_columns(upkeep, ORDERS)


def is_left(context: Context) -> bool:
    return has_wider(context.catalog.load_table(("shop", "orders")))


def decode(context: Context, holder: str) -> None:
    """As a driver that has begun to decode a batch."""
    context.ledger.batches.record("b4", LANDED, attempt="a1", lease=Lease(holder, 60))


def test_they_are_dropped_once(context: Context) -> None:
    decode(context, this_holder().rpartition(":")[0] + ":1")  # which is dead
    assert "change of a column's type" in drop(context, dry_run=True)
    assert is_left(context)
    assert "change of a column's type" in drop(context)
    assert not is_left(context)
    assert drop(context) == ""


def test_they_stay_while_a_batch_is_decoded(context: Context) -> None:
    decode(context, this_holder())
    assert drop(context) == ""
    assert is_left(context)
