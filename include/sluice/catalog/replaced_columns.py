"""Replace columns by others that take their names, in one commit."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.types import IcebergType, NestedField

from sluice.catalog.client import load_table
from sluice.catalog.current_schema import made_current
from sluice.catalog.gap_property import carry_gap
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
    updates: list[TableUpdate] = [*made_current(table, _replaced(table, columns))]
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


def _replaced(table: Table, columns: Mapping[str, str]) -> list[NestedField]:
    schema, new = table.schema(), set(columns.values())
    return [
        schema.find_field(columns[f.name]).model_copy(update={"name": f.name})
        if f.name in columns
        else f
        for f in schema.fields
        if f.name not in new
    ]


def set_columns_aside(
    catalog: Catalog, table: Table, aside: Mapping[str, str], types: Mapping[str, IcebergType]
) -> None:
    """Rename columns, and add columns of other types under their names, in one commit: every
    reader finds one of the two.

    `aside`: a column's name → the one that it gets; `types`: of the new columns, by name. Raises
    PublishRefusedError if the schema has changed since `table` was read.
    """
    kept = [f.model_copy(update={"name": aside.get(f.name, f.name)}) for f in table.schema().fields]
    last = table.metadata.last_column_id
    added = [
        NestedField(number, name, types[name], required=False)
        for number, name in enumerate(aside, start=last + 1)
    ]
    requirements = (
        AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
        AssertLastAssignedFieldId(last_assigned_field_id=last),
    )
    commit(catalog, table, requirements, tuple(made_current(table, [*kept, *added])))


def left_columns(table: Table, prefix: str) -> list[str]:
    """Return the columns with the prefix."""
    return [name for name in table.schema().column_names if name.startswith(prefix)]


def drop_left(catalog: Catalog, name: tuple[str, str], prefix: str, branch: str) -> None:
    """Drop the columns with the prefix, and the branch, in one commit; do nothing without them.

    A process that is still about to replace columns by these is refused. Raises
    PublishRefusedError if schema or branch change meanwhile.
    """
    table = load_table(catalog, name)
    left, written = left_columns(table, prefix), head(table, branch)
    current = table.metadata.current_schema_id
    requirements: list[TableRequirement] = [AssertCurrentSchemaId(current_schema_id=current)]
    updates: list[TableUpdate] = []
    if left:
        updates += made_current(table, (f for f in table.schema().fields if f.name not in left))
    if written is not None:
        requirements.append(AssertRefSnapshotId(ref=branch, snapshot_id=written))
        updates.append(RemoveSnapshotRefUpdate(ref_name=branch))
    if updates:
        commit(catalog, table, tuple(requirements), tuple(updates))
