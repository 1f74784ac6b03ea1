"""Replace columns by others that take their names, in one commit."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    TableRequirement,
    TableUpdate,
)

from sluice.catalog.client import load_table
from sluice.catalog.gaps import carry_gap
from sluice.catalog.snapshots import MAIN, commit, head, point
from sluice.errors import PublishRefusedError
from sluice.names import SUMMARY_MAINTENANCE


def replace_columns(
    catalog: Catalog, table: Table, columns: Mapping[str, str], branch: str, signature: str
) -> None:
    """Replace columns by others that take their names, and move `main` to the branch that has the
    new columns' values, in one commit.

    `table`: as it was when the branch was made; `columns`: the old column's name → the new one's;
    `signature`: of the snapshot that the caller wrote to the branch. A table without rows has no
    branch. Raises PublishRefusedError if `main` or the schema has changed, or if another writer
    wrote to the branch: its files may have the values under the field id of a column that was
    dropped.
    """
    base = head(table)
    requirements: list[TableRequirement] = [
        AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
        AssertRefSnapshotId(ref=MAIN, snapshot_id=base),
    ]
    updates: list[TableUpdate] = [
        AddSchemaUpdate(schema_=_replaced(table, columns)),
        SetCurrentSchemaUpdate(schema_id=-1),
    ]
    if base is not None:
        new = _written(load_table(catalog, table.name()), branch, signature)
        requirements.append(AssertRefSnapshotId(ref=branch, snapshot_id=new))
        updates.append(point(MAIN, SnapshotRefType.BRANCH, new))
        updates.append(RemoveSnapshotRefUpdate(ref_name=branch))
        updates += carry_gap(table, base, new)
    commit(catalog, table, tuple(requirements), tuple(updates))


def _written(table: Table, branch: str, signature: str) -> int:
    found = table.snapshot_by_name(branch)
    summary = None if found is None else found.summary
    if found is None or summary is None or summary.get(SUMMARY_MAINTENANCE) != signature:
        raise PublishRefusedError(f"{'.'.join(table.name())}: another run uses branch {branch}")
    return found.snapshot_id


def _replaced(table: Table, columns: Mapping[str, str]) -> Schema:
    schema, new = table.schema(), set(columns.values())
    fields = [
        schema.find_field(columns[f.name]).model_copy(update={"name": f.name})
        if f.name in columns
        else f
        for f in schema.fields
        if f.name not in new
    ]
    number = max(s.schema_id for s in table.metadata.schemas) + 1
    return Schema(*fields, schema_id=number, identifier_field_ids=schema.identifier_field_ids)
