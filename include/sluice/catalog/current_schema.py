"""Make a schema current in a commit: columns that go, that come, or that get other names."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    TableUpdate,
)
from pyiceberg.types import NestedField

from sluice.names import PROP_SHAPES


def made_current(table: Table, fields: Iterable[NestedField]) -> list[TableUpdate]:
    """Return the updates that make a schema of the fields current, which is one of the table's
    schemas if it has had these fields before."""
    number = max(s.schema_id for s in table.metadata.schemas) + 1
    identifiers = table.schema().identifier_field_ids
    schema = Schema(*fields, schema_id=number, identifier_field_ids=identifiers)
    for known in table.metadata.schemas:
        if known == schema:
            return [SetCurrentSchemaUpdate(schema_id=known.schema_id)]
    return [AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)]


def forget_shapes(table: Table) -> list[TableUpdate]:
    """Return the update that removes the cached shapes; none if the table has none.

    They are of the schema that is left: the next batch would be planned with them.
    """
    return (
        [RemovePropertiesUpdate(removals=[PROP_SHAPES])] if PROP_SHAPES in table.properties else []
    )
