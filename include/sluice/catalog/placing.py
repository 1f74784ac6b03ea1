"""The columns by which a table's files are partitioned and sorted, by anybody's statement."""

from __future__ import annotations

from pyiceberg.table import Table


def placing_ids(table: Table) -> set[int]:
    """Return the field ids of the columns that partition or sort new files. Iceberg refuses a
    schema without one of them."""
    by_partition = {field.source_id for field in table.spec().fields}
    return by_partition | {field.source_id for field in table.sort_order().fields}


def ever_placing_ids(table: Table) -> set[int]:
    """Return the field ids of the columns of all partition specs and sort orders that a table has
    or had. Spark's MERGE fails on a table that lacks the column of a former spec."""
    ids = {field.source_id for spec in table.specs().values() for field in spec.fields}
    return ids | {
        field.source_id for order in table.sort_orders().values() for field in order.fields
    }
