"""What a driver tells of tables: how they are written, what it staged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema

from sluice.errors import PlanError, TransientError
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.tables import Base, Lake
from tests.unit.projects import open_shop

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
