"""The columns by which a table's files are partitioned and sorted, by anybody's statement."""

from __future__ import annotations

from pyiceberg.table import Table


def placing_ids(table: Table) -> set[int]:
    """Return the field ids of the columns that partition files, or once did, or that sort them.

    Iceberg refuses a schema without a column of the current spec or sort order, and Spark's MERGE
    fails on a table that lacks the column of a former spec.
    """
    ids = {field.source_id for spec in table.specs().values() for field in spec.fields}
    return ids | {field.source_id for field in table.sort_order().fields}
