"""The valid publications of batches, and which of them are in `main`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from sluice.catalog.client import find_table
from sluice.catalog.lineage import ancestors
from sluice.catalog.snapshots import head
from sluice.ledger import states
from sluice.ledger.rows import Publication
from sluice.names import (
    target_namespace,
)
from sluice.operations.context import Context

Published = dict[str, list[Publication]]
"""The publications of batches."""


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
