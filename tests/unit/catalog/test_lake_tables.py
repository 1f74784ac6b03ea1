"""What a driver tells of tables: how they are written, what it staged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
)

from sluice.errors import PlanError, TransientError
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.tables import Base, Lake
from tests.unit.foreign_tables import change_metadata
from tests.unit.projects import open_shop
from tests.unit.staged_tables import table

pytestmark = pytest.mark.catalog

ORDERS = TableId("shop", "orders")
NO_SPARK: Any = None


@pytest.mark.parametrize("dropped", [False, True])
def test_missing_branch_is_a_transient_error(tmp_path: Path, dropped: bool) -> None:
    """Whoever took the batch for dead dropped it; nothing is wrong of the table."""
    catalog = open_shop(tmp_path).catalog
    catalog.create_namespace("shop")
    if not dropped:
        catalog.create_table(("shop", "orders"), Schema())
    with pytest.raises(TransientError, match=r"shop\.orders: branch batch_b1_a1 is gone; run aga"):
        Lake(NO_SPARK, catalog, "shop").staged(ORDERS, "batch_b1_a1", Base(None, 0, None), None)


def test_a_table_that_is_dropped_meanwhile_says_what_comes_next(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="while its batch was loading: run again"):
        Lake(NO_SPARK, open_shop(tmp_path).catalog, "shop").base(ORDERS)


@pytest.mark.parametrize(
    ("properties", "mode"),
    [
        ({}, "copy-on-write"),  # Iceberg's default
        ({"write.merge.mode": "Merge-On-Read"}, "merge-on-read"),
        ({"write.merge.mode": "copy-on-write"}, "copy-on-write"),
    ],
)  # fmt: skip
def test_a_table_tells_how_it_is_written(
    tmp_path: Path, properties: dict[str, str], mode: str
) -> None:
    catalog = open_shop(tmp_path).catalog
    catalog.create_namespace("shop")
    catalog.create_table(("shop", "orders"), Schema(), properties=properties)
    lake = Lake(NO_SPARK, catalog, "shop")
    assert lake.write_mode(ORDERS) == mode
    assert lake.write_mode(TableId("shop", "none")) is None


@pytest.mark.parametrize(
    "kind",
    [
        TimeType(),
        TimestampNanoType(),
        ListType(2, TimeType(), element_required=False),
        StructType(NestedField(3, "at", TimestamptzNanoType(), required=False)),
    ],
    ids=str,
)
def test_a_column_that_spark_cannot_read_is_named(catalog: Catalog, kind: IcebergType) -> None:
    """Spark's own message names neither the table nor the column."""
    loaded = table(catalog)
    kept = [*loaded.schema().fields, NestedField(9, "extra", kind, required=False)]
    change_metadata(loaded, lambda metadata: with_fields(metadata, kept))
    expected = rf"table shop.orders, column 'extra': .* stores nothing as {re.escape(str(kind))}: "
    with pytest.raises(PlanError, match=expected):
        Lake(NO_SPARK, catalog, "shop").columns(ORDERS)


def with_fields(metadata: dict[str, Any], fields: list[NestedField]) -> None:
    """As another engine changes a schema."""
    metadata |= {"format-version": 3, "next-row-id": 0}
    metadata["schemas"][0]["fields"] = [
        field.model_dump(by_alias=True, mode="json") for field in fields
    ]
