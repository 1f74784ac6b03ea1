"""Which batches are published, which tables have their rows, and on what they are built."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from pyiceberg.table import Table

from sluice.catalog.client import UNREADABLE, find_table
from sluice.catalog.lineage import ancestors
from sluice.catalog.retries import error_text
from sluice.catalog.snapshots import head, pipeline_tables, tables_of
from sluice.errors import TerminalError
from sluice.ledger import states
from sluice.ledger.changelogs import changelogs_of
from sluice.ledger.column_log import ColumnStatement, tables_named_in
from sluice.ledger.details import UNDOING, UNDONE
from sluice.ledger.rows import BatchRow, Publication
from sluice.names import (
    PROP_FLOOR,
    PROP_SOURCE,
    full_name,
    target_namespace,
    target_of_changelog,
)
from sluice.operations.context import Context

Published = dict[str, list[Publication]]
"""The publications of batches."""


@contextmanager
def advise_rollback(ctx: Context, batch_id: str) -> Iterator[None]:
    """Add to an error that another try would not mend how an operator goes on without the batch."""
    try:
        yield
    except TerminalError as error:
        if type(error) is not TerminalError:  # its subclasses have advice of their own
            raise
        way = f"to get on without it: sluice rollback {ctx.pipeline.name} --batch {batch_id}"
        raise TerminalError(f"batch {batch_id} is not published: {error}; {way}") from error


def publications(ctx: Context, batch_id: str) -> list[Publication]:
    """Return the batch's valid publication of each table that still exists.

    That is the newest one that is recorded as published or, if only the intent is recorded, that is
    in `main`.
    """
    return publications_of(ctx, [batch_id])[batch_id]


def publications_of(ctx: Context, batches: Iterable[str]) -> Published:
    """Return the `publications` of each of the batches; each table is looked for once."""

    @cache
    def exists(namespace: str, name: str) -> bool:
        return find_table(ctx.catalog, namespace, name) is not None

    return {batch_id: _publications(ctx, batch_id, exists) for batch_id in batches}


def _publications(
    ctx: Context, batch_id: str, exists: Callable[[str, str], bool]
) -> list[Publication]:
    counted = (
        next((p for p in rows if p.state == states.PUBLISHED or came_to_main(ctx, p)), None)
        for rows in ctx.ledger.publications.since_undo(batch_id)
        if exists(rows[0].namespace, rows[0].table_name)
    )
    return [publication for publication in counted if publication is not None]


def newest_first(ctx: Context, batches: list[str]) -> Published:
    """Return the publications of the batches, in the order in which the batches are undone.

    It is the order of publication. The batches' own rows do not have it, since they were written
    again when the rollback began.
    """
    published = publications_of(ctx, batches)
    last = {b: max((p.seq for p in own), default=0) for b, own in published.items()}
    return {b: published[b] for b in sorted(published, key=last.__getitem__, reverse=True)}


def is_here(ctx: Context, p: Publication) -> bool:
    """Whether the table is in the pipeline's current namespace, and not in one that it left."""
    return target_namespace(p.namespace) == ctx.pipeline.namespace


def came_to_main(ctx: Context, p: Publication) -> bool:
    """Whether `main` of the table is, or is built on, the snapshot of the publication."""
    table = find_table(ctx.catalog, p.namespace, p.table_name)
    return table is not None and p.head_snapshot in ancestors(table, head(table))


def unfinished_except_undone(ctx: Context) -> list[BatchRow]:
    """Return the unfinished batches without those that one of them undoes."""
    rows = ctx.ledger.unfinished()
    taken = {batch for row in rows for batch in row.details.get(UNDONE, ())}
    return [row for row in rows if row.batch_id not in taken]


def present_batches(ctx: Context) -> set[str]:
    """Return the batches that are published, or whose rollback is not finished."""
    rows = ctx.ledger.batches.all()
    return {r.batch_id for r in rows if r.state in (states.PUBLISHED, states.ROLLING_BACK)}


def must_complete(ctx: Context, row: BatchRow) -> bool:
    """Whether a batch that undoes others has begun to delete their changes, and is not finished."""
    undone = row.details.get(UNDONE)
    if not undone or not row.halfway:
        return False
    return bool(set(undone) - present_batches(ctx)) or UNDOING in row.details


def published_rows(ctx: Context) -> list[BatchRow]:
    """Return the rows of the published batches, the one that was published last first."""
    return [r for r in ctx.ledger.batches.all() if r.state == states.PUBLISHED]


def followers(rows: list[BatchRow], batch_id: str, undone: Container[str]) -> list[BatchRow]:
    """Return the published batches after one that are not undone; none if it is not published."""
    since = next((r.seq for r in rows if r.batch_id == batch_id), None)
    return [r for r in rows if since is not None and r.seq > since and r.batch_id not in undone]


def published_until(rows: list[BatchRow], batch_id: str) -> list[str]:
    """Return the published batches up to this one."""
    last = next((r.seq for r in rows if r.batch_id == batch_id), 0)
    return [r.batch_id for r in rows if r.seq <= last]


def tables(ctx: Context) -> list[tuple[str, str]]:
    """Return all tables of the pipeline's two namespaces."""
    return tables_of(ctx.catalog, ctx.pipeline.namespace)


@contextmanager
def passing_over(ctx: Context, namespace: str, name: str) -> Iterator[None]:
    """Say of a table of somebody else that it cannot be read, instead of raising the error."""
    try:
        yield
    except UNREADABLE as error:
        if (namespace, name) in pipeline_tables(ctx.catalog, ctx.pipeline.namespace):
            raise
        ctx.say(f"{full_name(namespace, name)} is passed over: {error_text(error)}")


def changelogs(ctx: Context) -> dict[str, Table]:
    """Return the changelogs of the pipeline by their targets' names."""
    return changelogs_of(ctx.catalog, ctx.pipeline.name, ctx.pipeline.namespace)


def target_of(changelog: Table) -> tuple[str, str]:
    """Return namespace and name of a changelog's target."""
    namespace, name = changelog.name()[-2:]
    return target_namespace(namespace), target_of_changelog(name)


def has_floor(ctx: Context, namespace: str, target: str) -> bool:
    """Whether maintenance has ever expired changes of a target."""
    table = find_table(ctx.catalog, namespace, target)
    return table is not None and PROP_FLOOR in table.properties


def tables_renamed(
    ctx: Context, statements: list[ColumnStatement], logs: dict[str, Table]
) -> frozenset[str]:
    """Return the source tables of these changelogs whose columns the statements rename."""
    sources = [log.properties.get(PROP_SOURCE, target) for target, log in logs.items()]
    return tables_named_in(statements, sources, ctx.pipeline.format)
