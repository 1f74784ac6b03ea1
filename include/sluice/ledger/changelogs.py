"""A batch's changes in the changelogs of its pipeline: one partition in each."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from sluice.catalog.client import find_table, load_table
from sluice.catalog.clocks import refuse_clock_behind
from sluice.catalog.damage import explained_damage
from sluice.catalog.expressions import equals
from sluice.catalog.listing import tables_of
from sluice.catalog.retries import limited_retries
from sluice.catalog.table_transaction import transaction_on
from sluice.config.format_versions import WRITABLE_VERSION
from sluice.errors import TerminalError
from sluice.faults import Point, reach
from sluice.names import (
    BATCH_ID,
    PROP_PIPELINE,
    PROP_SOURCE,
    is_changelog,
    target_of_changelog,
)

_TRIES: Final = 10


def forget_changes(
    catalog: Catalog,
    namespace: str,
    batch_id: str,
    besides: Container[tuple[str, str]] = (),
    *,
    confirm: Callable[[], None],
) -> list[str]:
    """Remove a batch's changes from all changelogs except `besides`; return what was done.

    `confirm` raises to keep them. It is called after the files of a changelog are listed, so files
    that the batch writes when it is loaded again are never among those that are removed.
    """
    done = []
    for where, name in tables_of(catalog, namespace):
        if not is_changelog(where, name) or (where, name) in besides:
            continue
        if _forget_with_retries(catalog, (where, name), batch_id, confirm):
            done.append(f"{where}.{name}: changes of the batch removed")
    return done


def stored_sources(catalog: Catalog, pipeline: str, namespace: str) -> dict[str, str]:
    """Return the source tables whose changes a pipeline stores, by target name."""
    logs = changelogs_of(catalog, pipeline, namespace)
    return {target: log.properties.get(PROP_SOURCE, target) for target, log in logs.items()}


def changelogs_of(catalog: Catalog, pipeline: str, namespace: str) -> dict[str, Table]:
    """Return a pipeline's changelogs by target name."""
    logs: dict[str, Table] = {}
    for where, name in tables_of(catalog, namespace):
        table = find_table(catalog, where, name) if is_changelog(where, name) else None
        if table is not None and table.properties.get(PROP_PIPELINE) == pipeline:
            logs[target_of_changelog(name)] = table
    return logs


def _forget_with_retries(
    catalog: Catalog, name: tuple[str, str], batch_id: str, confirm: Callable[[], None]
) -> bool:
    """Remove the batch's changes from one changelog, with retries.

    pyiceberg may miss a file to delete, and then commits nothing: its threads share the bounds of
    the manifest that they read (pyiceberg 0.12, `_OverwriteFiles._deleted_entries`).
    """
    again = limited_retries(_TRIES, on=(ValidationException,))
    return again(_forget, catalog, name, batch_id, confirm)


def _forget(
    catalog: Catalog, name: tuple[str, str], batch_id: str, confirm: Callable[[], None]
) -> bool:
    table = load_table(catalog, name)
    by_batch = table.spec().fields and table.spec().fields[0].name == BATCH_ID
    files = files_of(table, batch_id) if by_batch else []
    if files:
        refuse_upgraded_changelog(table)
        confirm()
        _drop(table, files)
        reach(Point.TABLE_CHANGES)
    return bool(files)


def files_of(changelog: Table, batch_id: str) -> list[DataFile]:
    """Return the files with a batch's changes: those of its partition."""
    return _files(changelog, equals(BATCH_ID, batch_id))


def refuse_upgraded_changelog(changelog: Table) -> None:
    """Raise TerminalError for a changelog of a format version in which pyiceberg deletes nothing,
    whatever the catalog."""
    if (version := changelog.metadata.format_version) > WRITABLE_VERSION:
        raise TerminalError(
            f"{'.'.join(changelog.name())} has format version {version}, which somebody upgraded "
            f"it to; only from version {WRITABLE_VERSION} a batch's changes can be removed: put a "
            "table of that version in its place, with its rows, properties and partition field"
        )


def batches_in(changelog: Table) -> set[str]:
    """Return the batches that have changes in a changelog."""
    return {file.partition[0] for file in _files(changelog, AlwaysTrue())}


def _files(changelog: Table, where: BooleanExpression) -> list[DataFile]:
    """Return the files with rows that may match; raises TerminalError over a damaged list of
    files."""
    wanted = changelog.scan(where)
    with explained_damage(wanted, changelog.name(), lists_only=True):
        return [task.file for task in wanted.plan_files()]


def _drop(table: Table, files: Iterable[DataFile]) -> None:
    """Delete whole files of one partition without reading them, since they may have columns that
    the current schema lacks."""
    refuse_clock_behind(table)
    with transaction_on(table) as transaction, transaction.update_snapshot().overwrite() as dropped:
        for file in files:
            dropped.delete_data_file(file)
