"""Roll one table back: `main`, schema and properties from before a batch, in one commit."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.types import IcebergType, NestedField

from sluice.catalog.client import load_table
from sluice.catalog.current_schema import forget_shapes, made_current
from sluice.catalog.lineage import ancestors, changes_rows, foreign, operation_of, passes_over
from sluice.catalog.placing import placing_ids
from sluice.catalog.published_properties import properties_back
from sluice.catalog.snapshots import MAIN, commit, head, point
from sluice.errors import FollowedError, RollbackRefusedError
from sluice.names import SUMMARY_BATCH, tag_name
from sluice.result import StagedTable, moved_main


@dataclass(frozen=True)
class MainChange:
    """`main` of one table before and after a commit; `after` None: `main` was removed.

    `gone`: the columns that the schema lost.
    """

    table: str
    before: int | None
    after: int | None
    gone: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The move, for people."""
        return f"{self.table}: main {moved_main(self.before, self.after)}"


def rollback_table(catalog: Catalog, staged: StagedTable, batch_id: str) -> MainChange:
    """Restore `main`, the schema and the column defaults from before the batch published the table,
    if since then only Sluice's maintenance wrote.

    If `main` is back already, but the batch's tag shows that it was moved by hand, the schema and
    the defaults are restored. Raises RollbackRefusedError, which names the writer.
    """
    table = load_table(catalog, (staged.namespace, staged.name))
    current, base = head(table), staged.base_snapshot
    if _is_back(table, current, staged, batch_id):
        return MainChange(staged.full_name, current, base)
    refuse_rollback(table, current, staged, batch_id)
    updates = _steps_back(table, staged, batch_id)
    requirements: tuple[TableRequirement, ...] = (
        AssertRefSnapshotId(ref=MAIN, snapshot_id=current),
        AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
    )
    after = columns_after(table, staged)
    gone = tuple(f.name for f in table.schema().fields if f.name not in after)
    commit(catalog, table, requirements, (*updates, *properties_back(table, base)))
    return MainChange(staged.full_name, current, base, gone)


def _steps_back(table: Table, staged: StagedTable, batch_id: str) -> list[TableUpdate]:
    """Return the updates that restore `main` and the schema and remove the batch's tag."""
    updates: list[TableUpdate] = (
        [RemoveSnapshotRefUpdate(ref_name=MAIN)]
        if staged.base_snapshot is None
        else [point(MAIN, SnapshotRefType.BRANCH, staged.base_snapshot)]
    )
    tag = tag_name(batch_id)
    if head(table, tag) is not None:
        updates.append(RemoveSnapshotRefUpdate(ref_name=tag))
    return updates + _schema_back(table, _schema_before(table, staged))


def columns_after(table: Table, staged: StagedTable) -> tuple[str, ...]:
    """Return the columns of the table once the batch that published it is rolled back."""
    return tuple(field.name for field in _fields_back(table, _schema_before(table, staged)))


def _schema_before(table: Table, staged: StagedTable) -> Schema:
    """Return the schema from before the batch, as the files from before it can be read.

    Others may have removed it (`expire_snapshots` with `clean_expired_metadata`): then that of the
    snapshot from before the batch, and without one the current schema.
    """
    schemas = table.schemas()
    base = None if staged.base_snapshot is None else table.snapshot_by_id(staged.base_snapshot)
    written = None if base is None or base.schema_id is None else schemas.get(base.schema_id)
    before = schemas.get(staged.base_schema) or written or table.schema()
    return before if written is None else _as_written(before, written, table.schema())


def _as_written(before: Schema, written: Schema, now: Schema) -> Schema:
    """Return an earlier schema with the wider types and the columns in the place of others that
    files written in another one have.

    Maintenance, which needs the lease, may rewrite files after a batch has evolved the table, which
    needs none.
    """
    ids = written.field_ids & now.field_ids - before.field_ids
    replaced = {field.name.lower(): field for field in written.fields if field.field_id in ids}
    fields = (
        field if field.field_id in written.field_ids else replaced.get(field.name.lower(), field)
        for field in before.fields
    )
    return _with_wider_types(Schema(*fields, schema_id=before.schema_id), written)


def _with_wider_types(before: Schema, written: Schema) -> Schema:
    """Return an earlier schema with the types to which another one promotes its columns."""
    types = {field.field_id: field.field_type for field in written.fields}
    fields = (
        field.model_copy(update={"field_type": types[field.field_id]})
        if _is_promoted(field.field_type, types.get(field.field_id, field.field_type))
        else field
        for field in before.fields
    )
    return Schema(*fields, schema_id=before.schema_id)


def _is_promoted(before: IcebergType, after: IcebergType) -> bool:
    with suppress(ResolveError):
        return promote(before, after) != before
    return False


def _placing_since(table: Table, before: Schema) -> list[NestedField]:
    """Return the current columns that an earlier schema lacks and by which anybody partitions or
    sorts the table, or partitioned it once: without these nothing can write it."""
    ids = placing_ids(table).difference(before.field_ids)
    return [field for field in table.schema().fields if field.field_id in ids]


def _fields_back(table: Table, before: Schema) -> list[NestedField]:
    """Return the fields of an earlier schema, and after them those that stay."""
    return [*before.fields, *_placing_since(table, before)]


def _schema_back(table: Table, before: Schema) -> list[TableUpdate]:
    """Return the updates that make an earlier schema current again, and remove the cached shapes;
    none if it is current."""
    fields = _fields_back(table, before)
    if fields == list(table.schema().fields):
        return []
    if fields == list(table.schemas()[before.schema_id].fields):
        return [SetCurrentSchemaUpdate(schema_id=before.schema_id), *forget_shapes(table)]
    return [*made_current(table, fields), *forget_shapes(table)]


def refuse_rollback(table: Table, current: int | None, staged: StagedTable, batch_id: str) -> None:
    """Raise RollbackRefusedError unless `main`, at `current`, may go back to before the batch.

    It may if it is there already, or if only maintenance wrote since the batch. Raises
    FollowedError if another batch wrote since, a needed snapshot has expired, or the table is
    partitioned or sorted by a column that took the place of an earlier one.
    """
    if _is_back(table, current, staged, batch_id):
        return
    _refuse_replaced(table, _schema_before(table, staged), batch_id)
    base, published = staged.base_snapshot, staged.head_snapshot
    if current == base:  # moved by hand
        return
    past = ancestors(table, current)
    if current is None or published not in past:
        raise _moved_or_expired(table, current, past, published, batch_id)
    _refuse_foreign(table, current, published, batch_id)
    if base is not None and table.snapshot_by_id(base) is None:
        name = ".".join(table.name())
        raise FollowedError(f"{name}: snapshot {base}, from before batch {batch_id}, has expired")


def _is_back(table: Table, current: int | None, staged: StagedTable, batch_id: str) -> bool:
    """Whether `main`, at `current`, was moved back to before the batch, and not by hand."""
    return current == staged.base_snapshot and head(table, tag_name(batch_id)) is None


def _moved_or_expired(
    table: Table, current: int | None, past: set[int], published: int, batch_id: str
) -> RollbackRefusedError:
    """Return why `main`, at `current`, is not on what the batch published: somebody moved it, or
    snapshots have expired."""
    name = ".".join(table.name())
    if current is None or passes_over(table, past, published) or foreign(table, past):
        return RollbackRefusedError(
            f"{name}: main is at {current}, not on what batch {batch_id} published: somebody "
            "moved it"
        )
    return FollowedError(
        f"{name}: between main and what batch {batch_id} published snapshots have expired"
        if table.snapshot_by_id(published)  # kept by somebody else's tag or branch
        else f"{name}: what batch {batch_id} published, {published}, has expired"
    )


def _refuse_replaced(table: Table, before: Schema, batch_id: str) -> None:
    """Raise FollowedError if a column that has to stay has the name of an earlier one, such as one
    of another type: rows from before the batch have their values in that."""
    earlier = {field.name.lower() for field in before.fields}
    if taken := [f.name for f in _placing_since(table, before) if f.name.lower() in earlier]:
        raise FollowedError(
            f"{'.'.join(table.name())}: {', '.join(taken)}, by which the table is or was "
            f"partitioned or sorted, took an earlier column's place since batch {batch_id}"
        )


def restore_schema(catalog: Catalog, namespace: str, name: str, schema_id: int) -> bool:
    """Remove a failed batch's columns by making an earlier schema current again, unless somebody
    removed that; return whether the schema changed.

    Wider types stay: maintenance may have written files with them since, or be about to.
    """
    table = load_table(catalog, (namespace, name))
    before = table.schemas().get(schema_id)
    back = None if before is None else _with_wider_types(before, table.schema())
    updates = [] if back is None else _schema_back(table, back)
    if updates:
        requirement = AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id)
        commit(catalog, table, (requirement,), tuple(updates))
    return bool(updates)


def _refuse_foreign(table: Table, current: int, head_snapshot: int, batch_id: str) -> None:
    snapshots = {s.snapshot_id: s for s in table.metadata.snapshots}
    walk: int | None = current
    while walk is not None and walk != head_snapshot:
        snapshot = snapshots[walk]
        if changes_rows(snapshot):
            writer = snapshot.summary.get(SUMMARY_BATCH) if snapshot.summary else None
            raise (RollbackRefusedError if writer is None else FollowedError)(
                f"{'.'.join(table.name())}: {_who(writer)} wrote "
                f"snapshot {walk} ({operation_of(snapshot)}) after batch {batch_id}"
            )
        walk = snapshot.parent_snapshot_id


def foreign_snapshots(table: Table, snapshot: int) -> list[str]:
    """Return the foreign snapshots of `main` (see `foreign`) after a given one, newest first."""
    past = ancestors(table, head(table)) - ancestors(table, snapshot)
    return foreign(table, past)


def _who(batch_id: str | None) -> str:
    return f"batch {batch_id}" if batch_id else "somebody else"
