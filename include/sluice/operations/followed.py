"""Whether a batch that stays is built on, or was compared with, one that shall be undone."""

from __future__ import annotations

from collections import defaultdict

from pyiceberg.table import Table

from sluice.catalog.snapshots import tables_of
from sluice.errors import FollowedError, RollbackRefusedError
from sluice.ledger import rows as states
from sluice.ledger.changelogs import batches_in, files_of
from sluice.ledger.details import UNDONE
from sluice.ledger.rename_log import recorded
from sluice.ledger.rows import Publication
from sluice.names import (
    PROP_SOURCE,
    full_name,
    is_changelog,
    published_tables,
    target_namespace,
    target_of_changelog,
)
from sluice.operations.context import Context
from sluice.operations.published import (
    changelogs,
    followers,
    has_floor,
    published_rows,
    published_until,
    tables_renamed,
    target_of,
)


def refuse_if_followed(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """Raise FollowedError if a batch that stays is built on, or was compared with, one of these.

    RollbackRefusedError if maintenance has forgotten whether one was."""
    own = {
        (p.namespace, p.table_name, p.head_snapshot): p.batch_id
        for publications in published.values()
        for p in publications
    }
    others = {row.batch_id for row in published_rows(ctx)} - published.keys()
    built = ctx.ledger.publications.built_on({snapshot for _, _, snapshot in own})
    later = ctx.ledger.publications.of_batches(*(others & built))
    for p in sorted(later, key=lambda p: p.seq, reverse=True):
        before = own.get((p.namespace, p.table_name, p.base_snapshot or 0))
        if p.state == states.PUBLISHED and before is not None:
            did = f"wrote {p.full_name} after batch {before}"
            raise FollowedError(f"batch {p.batch_id} {did}")
    _refuse_if_undone_beneath(ctx, published)
    _refuse_if_compared(ctx, published)
    _refuse_if_silent(ctx, published)
    _refuse_if_forgotten(ctx, published)


def _refuse_if_undone_beneath(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """`main` from before a batch has the rows of batches that were taken out beneath it since, also
    if that left nothing to write, as for keys that the batch deleted. A batch without publications
    moves no table back."""
    rows = published_rows(ctx)
    for batch_id in (batch for batch, own in published.items() if own):
        for later in followers(rows, batch_id, published):
            if undone := later.details.get(UNDONE):
                did = f"took out {', '.join(undone)} after batch {batch_id}"
                raise FollowedError(f"batch {later.batch_id} {did}")


def _refuse_if_compared(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """A later batch whose changes were all late, or stored already, wrote nothing; without the
    batch that it was compared with they would be in no table."""
    rows = published_rows(ctx)
    for batch_id, publications in published.items():
        others = followers(rows, batch_id, published)
        if not others:
            continue
        for log in _changelogs_written(ctx, publications):
            for other in others:
                if files_of(log, other.batch_id):
                    where = ".".join(log.name()[-2:])
                    did = f"has changes in {where}, which were compared with {batch_id}"
                    raise FollowedError(f"batch {other.batch_id} {did}")


def _refuse_if_silent(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """A batch may have events of a table and write nothing to it, as one of duplicates or of DDL
    alone: what others wrote since is right only with it."""
    rows, statements = published_rows(ctx), recorded(ctx.catalog, ctx.pipeline.name)
    followed = {batch: followers(rows, batch, published) for batch in published}
    logs = changelogs(ctx) if any(followed.values()) else {}
    for batch_id, others in followed.items():
        if not others:
            continue
        written = {p.table_name for p in published[batch_id]}
        own = [one for one in statements if one.batch_id == batch_id]
        renamed = tables_renamed(ctx, own, logs)
        for target, log in logs.items():
            silent = not written & published_tables(target)
            if silent and (log.properties.get(PROP_SOURCE) in renamed or files_of(log, batch_id)):
                raise FollowedError(
                    f"batch {others[0].batch_id} came after batch {batch_id}, which tells of "
                    f"{target} and wrote nothing of it"
                )


def _refuse_if_forgotten(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """If maintenance has forgotten the changes of a batch, it may have forgotten those of a later
    one that was compared with it. The oldest go first: while any are left, all later ones are."""
    rows = published_rows(ctx)
    for batch_id, publications in published.items():
        others = followers(rows, batch_id, published)
        if not others:
            continue
        for log in _changelogs_written(ctx, publications):
            namespace, target = target_of(log)
            if not has_floor(ctx, namespace, target) or files_of(log, batch_id):
                continue
            if batches_in(log).isdisjoint(published_until(rows, batch_id)):
                raise RollbackRefusedError(
                    f"{full_name(namespace, target)}: maintenance has forgotten the changes of "
                    f"batch {batch_id} (changelog_days), and may have those of batch "
                    f"{others[-1].batch_id}, which came after it: what of these was there already "
                    "would be in no table; it cannot be undone any more"
                )


def _changelogs_written(ctx: Context, publications: list[Publication]) -> list[Table]:
    """Return the changelogs of the targets of these publications, in whichever namespace."""
    written = defaultdict(set)
    for p in publications:
        written[target_namespace(p.namespace)].add(p.table_name)
    return [
        ctx.catalog.load_table((space, name))
        for namespace, names in written.items()
        for space, name in tables_of(ctx.catalog, namespace)
        if is_changelog(space, name) and names & published_tables(target_of_changelog(name))
    ]
