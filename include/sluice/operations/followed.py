"""Refusals to undo a batch on which later batches were built, or with which they were compared."""

from __future__ import annotations

from collections import defaultdict

from pyiceberg.table import Table

from sluice.catalog.client import load_table
from sluice.catalog.listing import tables_of
from sluice.errors import FollowedError, RollbackRefusedError
from sluice.ledger import states
from sluice.ledger.changelogs import batches_in, files_of
from sluice.ledger.column_log import recorded
from sluice.ledger.details import UNDONE
from sluice.ledger.rows import BatchRow, Publication
from sluice.names import (
    PROP_SOURCE,
    full_name,
    is_changelog,
    published_tables,
    target_namespace,
    target_of_changelog,
)
from sluice.operations.context import Context
from sluice.operations.pipeline_tables import changelogs, has_floor, tables_renamed, target_of
from sluice.operations.published_batches import followers, published_rows, published_until
from sluice.operations.valid_publications import Published

# The batches that others followed, with these others.
Followed = dict[str, list[BatchRow]]


def refuse_if_followed(ctx: Context, published: Published) -> None:
    """Raise FollowedError if a batch that stays was built on one of these, or compared with it.

    Raises RollbackRefusedError if that cannot be told any more, since maintenance expired the
    changes.
    """
    own = {
        (p.namespace, p.table_name, p.head_snapshot): p.batch_id
        for publications in published.values()
        for p in publications
    }
    rows = published_rows(ctx)
    others = {row.batch_id for row in rows} - published.keys()
    built = ctx.ledger.publications.built_on({snapshot for _, _, snapshot in own})
    later = ctx.ledger.publications.of_batches(*(others & built))
    for p in sorted(later, key=lambda p: p.seq, reverse=True):
        before = own.get((p.namespace, p.table_name, p.base_snapshot or 0))
        if p.state == states.PUBLISHED and before is not None:
            raise FollowedError(f"batch {p.batch_id} wrote {p.full_name} after batch {before}")
    followed = _followed(rows, published)
    _refuse_if_base_has_undone_rows(published, followed)
    _refuse_if_changes_compared(ctx, published, followed)
    _refuse_if_nothing_written(ctx, published, followed)
    _refuse_if_expired(ctx, published, followed, rows)


def _refuse_if_base_has_undone_rows(published: Published, followed: Followed) -> None:
    """Raise FollowedError if a later batch undid others: the snapshot from before `published` still
    has the undone rows.

    This holds even if the undo wrote nothing to the table, as for keys that the batch deleted.
    Batches without publications move no table back and pass.
    """
    for batch_id in (batch for batch in followed if published[batch]):
        for later in followed[batch_id]:
            if undone := later.details.get(UNDONE):
                raise FollowedError(
                    f"batch {later.batch_id} undid {', '.join(undone)} after batch {batch_id}"
                )


def _refuse_if_changes_compared(ctx: Context, published: Published, followed: Followed) -> None:
    """Raise FollowedError if a later batch has changes in a changelog of one of these batches.

    Changes that were late, or stored already, wrote nothing; after the undo no table would have
    them.
    """
    for batch_id, others in followed.items():
        for log in _changelogs_written(ctx, published[batch_id]):
            stored = batches_in(log)  # one scan, however many batches followed
            if other := next((row for row in others if row.batch_id in stored), None):
                where = ".".join(log.name()[-2:])
                raise FollowedError(
                    f"batch {other.batch_id} has changes in {where}, which were compared with "
                    f"{batch_id}"
                )


def _refuse_if_nothing_written(ctx: Context, published: Published, followed: Followed) -> None:
    """Raise FollowedError if a batch has changes or renames of a table to which it wrote nothing,
    and later batches exist.

    Such a batch had only duplicates or DDL. What later batches wrote may depend on it, and no
    snapshot shows that.
    """
    statements = recorded(ctx.catalog, ctx.pipeline.name)
    logs = changelogs(ctx) if followed else {}
    for batch_id, others in followed.items():
        written = {p.table_name for p in published[batch_id]}
        own = [one for one in statements if one.batch_id == batch_id]
        renamed = tables_renamed(ctx, own, logs)
        for target, log in logs.items():
            silent = not written & published_tables(target)
            if silent and (log.properties.get(PROP_SOURCE) in renamed or files_of(log, batch_id)):
                raise FollowedError(
                    f"batch {others[0].batch_id} came after batch {batch_id}, which has "
                    f"changes or renames of {target} and wrote nothing to it"
                )


def _refuse_if_expired(
    ctx: Context, published: Published, followed: Followed, rows: list[BatchRow]
) -> None:
    """Raise RollbackRefusedError if the changes of a batch expired, and with them maybe those of a
    later batch that was compared with it.

    The oldest changes expire first: while the changelog has any of this batch or an earlier one, it
    has all later ones.
    """
    for batch_id, others in followed.items():
        for log in _changelogs_written(ctx, published[batch_id]):
            namespace, target = target_of(log)
            if not has_floor(ctx, namespace, target) or files_of(log, batch_id):
                continue
            if batches_in(log).isdisjoint(published_until(rows, batch_id)):
                raise RollbackRefusedError(
                    f"{full_name(namespace, target)}: maintenance has forgotten the changes of "
                    f"batch {batch_id} (changelog_days), and may have those of batch "
                    f"{others[-1].batch_id}, which came after it: changes that it found there "
                    "already would be in no table; the batch cannot be undone any more"
                )


def _followed(rows: list[BatchRow], published: Published) -> Followed:
    """Return those of the batches that others followed, with these others."""
    found = {batch_id: followers(rows, batch_id, published) for batch_id in published}
    return {batch_id: others for batch_id, others in found.items() if others}


def _changelogs_written(ctx: Context, publications: list[Publication]) -> list[Table]:
    """Return the changelogs of the targets of these publications, in all namespaces."""
    written = defaultdict(set)
    for p in publications:
        written[target_namespace(p.namespace)].add(p.table_name)
    return [
        load_table(ctx.catalog, (space, name))
        for namespace, names in written.items()
        for space, name in tables_of(ctx.catalog, namespace)
        if is_changelog(space, name) and names & published_tables(target_of_changelog(name))
    ]
