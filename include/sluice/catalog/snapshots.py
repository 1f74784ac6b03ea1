"""Branches and tags of a table, and commits with requirements of our own.

pyiceberg's `set_current_snapshot` and `create_tag` require the state that they have just loaded,
so a second publisher would silently discard the first; here the recorded base is required
(docs/architecture.md, "Decisions that are not obvious").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import ValidationError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
)
from pyiceberg.exceptions import ValidationError as MetadataError
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from sluice.catalog.client import find_table, load_table
from sluice.catalog.clocks import refuse_clock_behind
from sluice.catalog.failures import OUTCOME_UNKNOWN, error_text
from sluice.catalog.retries import limited_retries
from sluice.config.format_versions import WRITABLE_VERSION
from sluice.errors import (
    CommitStateUnknownError,
    PublishRefusedError,
    TerminalError,
    TransientError,
)
from sluice.faults import Point, reach
from sluice.names import (
    PROP_PIPELINE,
    full_name,
)

MAIN: Final = "main"
COMMIT_TRIES: Final = 3


def head(table: Table, ref: str = MAIN) -> int | None:
    """Return the snapshot that a branch or tag points to; None if there is none."""
    named: SnapshotRef | None = table.metadata.refs.get(ref)
    return None if named is None else named.snapshot_id


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
    to_delete = branches(catalog, namespace, name, prefix)
    for ref in to_delete:
        table = load_table(catalog, (namespace, name))
        requirement = AssertRefSnapshotId(ref=ref, snapshot_id=head(table, ref))
        commit(catalog, table, (requirement,), (RemoveSnapshotRefUpdate(ref_name=ref),))
        reach(Point.TABLE_BRANCH)
    return to_delete


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
        limited_retries(COMMIT_TRIES, on=(PublishRefusedError,))(drop)
    except PublishRefusedError as error:
        raise TransientError(
            f"{full_name(namespace, name)}: tag {tag} could not be dropped in {COMMIT_TRIES} "
            f"tries: {error}; run again"
        ) from error


def point(ref: str, kind: SnapshotRefType, snapshot: int) -> SetSnapshotRefUpdate:
    """Return the update that points a branch or tag to a snapshot."""
    return SetSnapshotRefUpdate(
        ref_name=ref, type=kind, snapshot_id=snapshot,
        max_ref_age_ms=None, max_snapshot_age_ms=None, min_snapshots_to_keep=None,
    )  # fmt: skip


def refuse_format_version(catalog: Catalog, table: Table) -> None:
    """Raise TerminalError for a table of a format version that pyiceberg cannot write, in a catalog
    for which it writes the metadata: one that has a database's engine."""
    version = table.metadata.format_version
    if getattr(catalog, "engine", None) is not None and version > WRITABLE_VERSION:
        raise _unwritable(table)


def _unwritable(table: Table) -> TerminalError:
    pipeline = table.properties.get(PROP_PIPELINE, "PIPELINE")
    return TerminalError(
        f"{'.'.join(table.name())} has format version {table.metadata.format_version}, which "
        f"somebody upgraded it to; with a jdbc catalog only version {WRITABLE_VERSION} can be "
        "published or rolled back, and no table goes back to it: give the lake a rest catalog, or, "
        "where this is a target and its changes are kept, drop the table and have it made again "
        f"(sluice rollback {pipeline} --rebuild --table {table.name()[-1]})"
    )


def commit(
    catalog: Catalog,
    table: Table,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> None:
    """Commit updates of a table under their requirements.

    Raises PublishRefusedError if one of these does not hold; CommitStateUnknownError if the catalog
    did not answer, or the store did not while the catalog wrote there; TransientError if this
    host's clock is behind; TerminalError if pyiceberg cannot write the metadata.
    """
    refuse_format_version(catalog, table)
    refuse_clock_behind(table)
    name = ".".join(table.name())
    try:
        catalog.commit_table(table, requirements, updates)
    except CommitFailedException as error:
        raise PublishRefusedError(f"{name}: {error}") from error
    except (NotImplementedError, ValidationError, MetadataError) as error:
        raise TerminalError(
            f"{name}: its metadata cannot be written ({error_text(error)}); another engine gave "
            "the table what pyiceberg does not know: take that back there, and run again"
        ) from error
    except OUTCOME_UNKNOWN as error:
        raise CommitStateUnknownError(
            f"{name}: the catalog did not say whether it committed ({error_text(error)}); run "
            "`sluice reconcile PIPELINE`, which looks"
        ) from error
