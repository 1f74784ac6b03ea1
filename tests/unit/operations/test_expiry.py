"""What may expire: old, and needed by no branch, no tag and no rollback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from sluice.operations.expiry import Retention, expirable, stale_tags

pytestmark = pytest.mark.catalog

LATER = datetime.now(UTC) + timedelta(days=40)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Five snapshots on main, the second of them tagged."""
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w"
    )
    catalog.create_namespace("shop")
    made = catalog.create_table("shop.t", Schema(NestedField(1, "id", LongType())))
    for number in range(5):
        made.append(pa.table({"id": [number]}))
    made.manage_snapshots().create_tag(history(made)[1], "batch-b1").commit()
    return made


def history(table: Table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.metadata.snapshots]


def test_the_head_and_tags_stay(table: Table) -> None:
    first, _, third, fourth, _ = history(table)
    assert expirable(table, (), LATER, dropped=()) == [first, third, fourth]


def test_a_dropped_tag_holds_nothing(table: Table) -> None:
    first, second, third, fourth, _ = history(table)
    assert expirable(table, (), LATER, dropped=["batch-b1"]) == [first, second, third, fourth]


def test_snapshots_that_a_rollback_walks_along_stay(table: Table) -> None:
    """From the head to the third, whose publication is promised, it looks who wrote the fourth."""
    first, _, third, _, _ = history(table)
    assert expirable(table, {third}, LATER, dropped=()) == [first]


def test_young_snapshots_stay(table: Table) -> None:
    assert expirable(table, (), datetime.now(UTC) - timedelta(days=1), dropped=()) == []


def test_only_stale_tags_of_batches_go(table: Table) -> None:
    promised = Retention(frozenset(), frozenset({"batch-b1", "batch-elsewhere"}))
    table.manage_snapshots().create_tag(history(table)[0], "mine").commit()
    assert stale_tags(table, promised) == ["batch-b1"]
