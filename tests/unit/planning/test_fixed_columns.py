"""Columns whose type cannot grow by another column's taking their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, NestedField

from sluice.errors import PlanError
from spark_jobs.planning.type_changes import TypeChange, fixed_columns, refuse_widening

pytestmark = pytest.mark.catalog

NAMES = ("id", "region", "qty", "note")


def test_columns_that_identify_place_or_sort_rows_are_fixed(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    fields = (NestedField(i, n, IntegerType(), required=False) for i, n in enumerate(NAMES, 1))
    table = catalog.create_table("shop.orders", Schema(*fields))
    assert fixed_columns(table, ["id"]) == {"id"}
    with table.update_spec() as spec:
        spec.add_field("region", BucketTransform(4))
    with table.update_sort_order() as order:
        order.asc("qty", IdentityTransform())
    assert fixed_columns(table, ["id"]) == {"id", "region", "qty"}
    with table.update_spec() as spec:
        spec.remove_field("region_bucket_4")
    with table.update_sort_order() as order:
        order.asc("note", IdentityTransform())
    assert fixed_columns(table, ["id"]) == {"id", "region", "note"}  # a former spec's column too


@pytest.mark.parametrize("before", ["int", "decimal(9,2)"])
def test_the_refusal_names_what_fixes_a_column(before: str) -> None:
    rescaled = TypeChange("qty", before, "decimal(12,4)")
    with pytest.raises(PlanError, match=r"'qty' cannot become .* or of the table's sort order; "):
        refuse_widening("shop.orders", rescaled, rewrites=True, fixed=True)
    refuse_widening("shop.orders", TypeChange("qty", "int", "bigint"), rewrites=True, fixed=True)
