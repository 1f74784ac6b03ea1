"""Publish and roll back one table: commits with requirements of our own.

pyiceberg's `set_current_snapshot` and `create_tag` require the state that they have just loaded,
so a second publisher would silently discard the first; here the recorded base is required
(docs/architecture.md, "Decisions that are not obvious").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
)
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from sqlalchemy.exc import DBAPIError

from sluice.catalog.client import find_table, known_table, list_tables, load_table
from sluice.catalog.clocks import refuse_clock_behind
from sluice.catalog.dropped_columns import without_columns
from sluice.catalog.lineage import ancestors, changes_rows, foreign, operation_of, passes_over
from sluice.catalog.retries import Errors, error_text, limited_retries, transient_errors
from sluice.errors import (
    CommitStateUnknownError,
    FollowedError,
    PublishRefusedError,
    RollbackRefusedError,
    TransientError,
)
from sluice.names import (
    PROP_DEFAULTS,
    PROP_HIGHEST,
    PROP_HINTS,
    PROP_SHAPES,
    SUMMARY_BATCH,
    changelog_namespace,
    full_name,
    tag_name,
)
from sluice.result import StagedTable

MAIN: Final = "main"
_COMMIT_TRIES: Final = 3
# Properties that a rollback restores.
_RESTORED: Final = (PROP_DEFAULTS, PROP_HINTS)
_KEPT: Final = tuple(f"{name}-at." for name in _RESTORED)


@dataclass(frozen=True)
class MainChange:
    """`main` of one table before and after a commit; `after` None: `main` was removed."""

    table: str
    before: int | None
    after: int | None


def head(table: Table, ref: str = MAIN) -> int | None:
    """Return the snapshot that a branch or tag points to; None if there is none."""
    named: SnapshotRef | None = table.metadata.refs.get(ref)
    return None if named is None else named.snapshot_id


def publish_table(catalog: Catalog, staged: StagedTable, batch_id: str) -> None:
    """Point `main` at the branch's audited head, tag it and drop the branch, in one commit.

    Does nothing if `main` is at that head already, or past it. Raises PublishRefusedError if `main`
    is no longer the recorded base or a column of the staged rows is gone, CommitStateUnknownError
    if the catalog did not answer.
    """
    # Another commit may come between the check and this one; it is looked at again each time.
    again = limited_retries(_COMMIT_TRIES, on=(PublishRefusedError,))
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
    commit(catalog, table, requirements, updates + _properties(table, staged))


def _properties(table: Table, staged: StagedTable) -> tuple[TableUpdate, ...]:
    """Return the updates of three table properties.

    `highest`: a batch whose positions are all above it need not be compared with the rows. A
    rollback leaves it, since too high a value only costs a comparison. `defaults`: the values of
    added columns in earlier rows, needed for late rows. `hints`: those by which the rows were
    read. A rollback restores these two, so their values at each base are kept in properties of
    their own while the base exists.
    """
    stated = {PROP_DEFAULTS: staged.defaults, PROP_HINTS: staged.hints}
    known = {name: value for name, value in stated.items() if value is not None}
    changed = {n: table.properties.get(n, "") for n in known if table.properties.get(n) != known[n]}
    known |= {_at(name, staged.base_snapshot): before for name, before in changed.items()}
    if staged.highest is not None:
        known[PROP_HIGHEST] = staged.highest
    kept = (None, *(s.snapshot_id for s in table.metadata.snapshots))
    needed = {_at(name, snapshot) for name in _RESTORED for snapshot in kept} | known.keys()
    gone = [n for n in table.properties if n.startswith(_KEPT) and n not in needed]
    updates: list[TableUpdate] = [SetPropertiesUpdate(updates=known)] if known else []
    return (*updates, *([RemovePropertiesUpdate(removals=gone)] if gone else []))


def _at(name: str, snapshot: int | None) -> str:
    return f"{name}-at.{snapshot}"


def _properties_back(table: Table, base: int | None) -> tuple[TableUpdate, ...]:
    """Return the updates that restore the base's properties that the batch changed."""
    before = {
        n: table.properties[_at(n, base)] for n in _RESTORED if _at(n, base) in table.properties
    }
    if not before:
        return ()
    back = {name: value for name, value in before.items() if value}
    gone = [_at(name, base) for name in before] + [n for n in before if n not in back]
    updates: list[TableUpdate] = [SetPropertiesUpdate(updates=back)] if back else []
    return (*updates, RemovePropertiesUpdate(removals=gone))


def is_published(table: Table, staged: StagedTable) -> bool:
    """Whether the staged head is `main` or one of its ancestors."""
    return staged.head_snapshot in ancestors(table, head(table))


def rollback_table(catalog: Catalog, staged: StagedTable, batch_id: str) -> MainChange:
    """Restore `main`, the schema and the column defaults from before the batch published the table,
    if since then only Sluice's maintenance wrote.

    If `main` is back already, but the batch's tag shows that it was moved by hand, the schema and
    the defaults are restored. Raises RollbackRefusedError, which names the writer.
    """
    table = load_table(catalog, (staged.namespace, staged.name))
    current, base = head(table), staged.base_snapshot
    if current == base and head(table, tag_name(batch_id)) is None:
        return MainChange(staged.full_name, current, base)
    refuse_rollback(table, current, staged, batch_id)
    updates = _steps_back(table, staged, batch_id)
    requirements: tuple[TableRequirement, ...] = (
        AssertRefSnapshotId(ref=MAIN, snapshot_id=current),
        AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
    )
    commit(catalog, table, requirements, (*updates, *_properties_back(table, base)))
    return MainChange(staged.full_name, current, base)


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
    if staged.base_schema != table.metadata.current_schema_id:
        updates += _schema_back(table, staged.base_schema)
    return updates


def _schema_back(table: Table, schema_id: int) -> list[TableUpdate]:
    """Return the updates that make an earlier schema current again.

    They remove the cached shapes, which may be of the later schema: the next batch would be planned
    with them.
    """
    known = [PROP_SHAPES] if PROP_SHAPES in table.properties else []
    forgotten = [RemovePropertiesUpdate(removals=known)] if known else []
    return [SetCurrentSchemaUpdate(schema_id=schema_id), *forgotten]


def refuse_rollback(table: Table, current: int | None, staged: StagedTable, batch_id: str) -> None:
    """Raise RollbackRefusedError unless `main`, at `current`, may go back to before the batch.

    It may if it is there already, or if only maintenance wrote since the batch. Raises
    FollowedError if another batch wrote since, or a needed snapshot has expired.
    """
    base, published = staged.base_snapshot, staged.head_snapshot
    if current == base:
        return
    name = ".".join(table.name())
    past = ancestors(table, current)
    if current is None or published not in past:
        if current is None or passes_over(table, past, published) or foreign(table, past):
            raise RollbackRefusedError(
                f"{name}: main is at {current}, not on what batch {batch_id} published: somebody "
                "moved it"
            )
        raise FollowedError(
            f"{name}: between main and what batch {batch_id} published snapshots have expired"
            if table.snapshot_by_id(published)  # kept by somebody else's tag or branch
            else f"{name}: what batch {batch_id} published, {published}, has expired"
        )
    _refuse_foreign(table, current, published, batch_id)
    if base is not None and table.snapshot_by_id(base) is None:
        raise FollowedError(f"{name}: snapshot {base}, from before batch {batch_id}, has expired")


def restore_schema(catalog: Catalog, namespace: str, name: str, schema_id: int) -> bool:
    """Make an earlier schema current again after a failed batch; returns whether it changed."""
    table = load_table(catalog, (namespace, name))
    now = table.metadata.current_schema_id
    if now == schema_id:
        return False
    requirement = AssertCurrentSchemaId(current_schema_id=now)
    commit(catalog, table, (requirement,), tuple(_schema_back(table, schema_id)))
    return True


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


def strangers_since(table: Table, snapshot: int) -> list[str]:
    """Return the foreign snapshots of `main` (see `foreign`) after a given one, newest first."""
    past = ancestors(table, head(table)) - ancestors(table, snapshot)
    return foreign(table, past)


def branches(
    catalog: Catalog, namespace: str, name: str, prefix: str | tuple[str, ...]
) -> list[str]:
    """Return the branches of a table whose name begins with `prefix`, or with one of several."""
    table = find_table(catalog, namespace, name)
    if table is None:
        return []
    return [r for r in table.metadata.refs if r.startswith(prefix) and r != MAIN]


def drop_branches(
    catalog: Catalog, namespace: str, name: str, prefix: str | tuple[str, ...]
) -> list[str]:
    """Remove the branches that `branches` returns; returns their names."""
    doomed = branches(catalog, namespace, name, prefix)
    for ref in doomed:
        table = load_table(catalog, (namespace, name))
        requirement = AssertRefSnapshotId(ref=ref, snapshot_id=head(table, ref))
        commit(catalog, table, (requirement,), (RemoveSnapshotRefUpdate(ref_name=ref),))
    return doomed


def tables_of(catalog: Catalog, namespace: str) -> list[tuple[str, str]]:
    """Return all tables of a pipeline's namespace and of its changelog namespace."""
    tables: list[tuple[str, str]] = []
    for space in (namespace, changelog_namespace(namespace)):
        try:
            tables += [(space, ident[-1]) for ident in list_tables(catalog, space)]
        except NoSuchNamespaceError:
            continue
    return sorted(tables)


def drop_tags(catalog: Catalog, table: Table, tags: Iterable[str]) -> None:
    """Remove tags in one commit that requires each to be as the table object has it."""
    requirements = tuple(AssertRefSnapshotId(ref=tag, snapshot_id=head(table, tag)) for tag in tags)
    updates = tuple(RemoveSnapshotRefUpdate(ref_name=tag) for tag in tags)
    if updates:
        commit(catalog, table, requirements, updates)


def drop_tag(catalog: Catalog, namespace: str, name: str, tag: str) -> None:
    """Remove a tag, whatever snapshot it points to.

    Raises TransientError if other writers commit first at every try; not PublishRefusedError, since
    no merge has to be repeated.
    """

    def drop() -> None:
        table = load_table(catalog, (namespace, name))
        drop_tags(catalog, table, [tag] if head(table, tag) is not None else [])

    try:
        limited_retries(_COMMIT_TRIES, on=(PublishRefusedError,))(drop)
    except PublishRefusedError as error:
        raise TransientError(
            f"{full_name(namespace, name)}: tag {tag} could not be dropped in {_COMMIT_TRIES} "
            f"tries: {error}; run again"
        ) from error


def point(ref: str, kind: SnapshotRefType, snapshot: int) -> SetSnapshotRefUpdate:
    """Return the update that points a branch or tag to a snapshot."""
    return SetSnapshotRefUpdate(
        ref_name=ref, type=kind, snapshot_id=snapshot,
        max_ref_age_ms=None, max_snapshot_age_ms=None, min_snapshots_to_keep=None,
    )  # fmt: skip


def commit(
    catalog: Catalog,
    table: Table,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> None:
    """Commit updates of a table under their requirements.

    Raises PublishRefusedError if one of these does not hold; CommitStateUnknownError if the catalog
    did not answer, or the store did not while the catalog wrote there; TransientError if this
    host's clock is behind.
    """
    refuse_clock_behind(table)
    name = ".".join(table.name())
    unknown: Errors = (CommitStateUnknownException, DBAPIError, OSError, *transient_errors())
    try:
        catalog.commit_table(table, requirements, updates)
    except CommitFailedException as error:
        raise PublishRefusedError(f"{name}: {error}") from error
    except unknown as error:
        raise CommitStateUnknownError(
            f"{name}: the catalog did not say whether it committed ({error_text(error)}); run "
            "`sluice reconcile`, which looks"
        ) from error


def _who(batch_id: str | None) -> str:
    return f"batch {batch_id}" if batch_id else "somebody else"
