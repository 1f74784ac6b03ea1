"""Columns that leave a table, in the commit that publishes a batch."""

from __future__ import annotations

from collections.abc import Collection

from pyiceberg.table import Table
from pyiceberg.table.update import TableUpdate

from sluice.catalog.current_schema import forget_shapes, made_current


def without_columns(table: Table, dropped: Collection[str]) -> tuple[TableUpdate, ...]:
    """Return the updates that drop columns of a table; none if it has none of them.

    Data files keep the values, which a rollback shows again with the schema. A column that is added
    again has another id, and is NULL in earlier rows. With the cached shapes the next batch would
    add the columns again.
    """
    left = [field for field in table.schema().fields if field.name not in dropped]
    if len(left) == len(table.schema().fields):
        return ()
    return (*made_current(table, left), *forget_shapes(table))


def schema_of_published(table: Table, schema_id: int) -> int:
    """Return the schema in which a published snapshot is read, given that with which it was
    written: without the columns that left the table with it."""
    written, now = table.schemas().get(schema_id), table.schema()
    if written is None or written.field_ids <= now.field_ids:
        return schema_id
    ids = written.field_ids & now.field_ids
    left = [field for field in written.fields if field.field_id in ids]
    same = (s for s in table.metadata.schemas if s.field_ids == ids)
    # A type that was widened since has its column's id.
    found = max(same, key=lambda s: (list(s.fields) == left, s.schema_id), default=now)
    return found.schema_id
