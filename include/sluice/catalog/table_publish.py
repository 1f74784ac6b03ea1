"""Publish one table: point `main` at the branch of a batch, in one commit."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from sluice.catalog.client import known_table
from sluice.catalog.dropped_columns import without_columns
from sluice.catalog.lineage import ancestors
from sluice.catalog.published_properties import publish_properties
from sluice.catalog.retries import limited_retries
from sluice.catalog.snapshots import COMMIT_TRIES, MAIN, commit, head, point
from sluice.errors import PublishRefusedError
from sluice.names import tag_name
from sluice.result import StagedTable


def publish_table(catalog: Catalog, staged: StagedTable, batch_id: str) -> None:
    """Point `main` at the branch's audited head, tag it and drop the branch, in one commit.

    Does nothing if `main` is at that head already, or past it. Raises PublishRefusedError if `main`
    is no longer the recorded base or a column of the staged rows is gone, CommitStateUnknownError
    if the catalog did not answer.
    """
    # Another commit may come between the check and this one; it is looked at again each time.
    again = limited_retries(COMMIT_TRIES, on=(PublishRefusedError,))
    again(_publish_unless_moved, catalog, staged, batch_id)


def _publish_unless_moved(catalog: Catalog, staged: StagedTable, batch_id: str) -> None:
    table = known_table(catalog, staged.namespace, staged.name)
    if is_published(table, staged):
        return
    _refuse_moved(table, staged, batch_id)
    _publish(catalog, table, staged, tag_name(batch_id))


def _refuse_moved(table: Table, staged: StagedTable, batch_id: str) -> None:
    if head(table) != staged.base_snapshot or head(table, staged.branch) != staged.head_snapshot:
        raise PublishRefusedError(
            f"{'.'.join(table.name())}: batch {batch_id} was staged on snapshot "
            f"{staged.base_snapshot}, but main is at {head(table)} and branch {staged.branch} at "
            f"{head(table, staged.branch)}"
        )
    if lost := _columns_lost(table, staged.head_snapshot):
        raise PublishRefusedError(
            f"{'.'.join(table.name())}: batch {batch_id} was staged with {', '.join(lost)}, which "
            "the schema does not have any more"
        )


def _columns_lost(table: Table, snapshot: int) -> list[str]:
    """Return the columns with which a snapshot was written and that the schema lacks.

    Iceberg identifies columns by their ids: one that is added again has another id, and is NULL in
    earlier rows.
    """
    written = table.snapshot_by_id(snapshot)
    schema_id = None if written is None else written.schema_id
    if schema_id is None or schema_id not in table.schemas():
        return []
    now, then = table.schema().field_ids, table.schemas()[schema_id]
    return [field.name for field in then.fields if field.field_id not in now]


def _publish(catalog: Catalog, table: Table, staged: StagedTable, tag: str) -> None:
    requirements: tuple[TableRequirement, ...] = (
        AssertRefSnapshotId(ref=MAIN, snapshot_id=staged.base_snapshot),
        AssertRefSnapshotId(ref=staged.branch, snapshot_id=staged.head_snapshot),
        AssertRefSnapshotId(ref=tag, snapshot_id=head(table, tag)),
        AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
    )
    updates: tuple[TableUpdate, ...] = (
        point(MAIN, SnapshotRefType.BRANCH, staged.head_snapshot),
        point(tag, SnapshotRefType.TAG, staged.head_snapshot),
        RemoveSnapshotRefUpdate(ref_name=staged.branch),
    )
    updates += without_columns(table, staged.dropped)
    commit(catalog, table, requirements, updates + publish_properties(table, staged))


def is_published(table: Table, staged: StagedTable) -> bool:
    """Whether the staged head is `main` or one of its ancestors."""
    return staged.head_snapshot in ancestors(table, head(table))
