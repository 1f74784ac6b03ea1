"""Which tables have a batch's rows, and whether the batch may be taken out of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Final

from pyiceberg.table import Table

from sluice.catalog.client import find_table
from sluice.catalog.lineage import ancestors
from sluice.catalog.snapshots import head, tables_of
from sluice.errors import FollowedError, RollbackRefusedError, TerminalError
from sluice.ledger import rows as states
from sluice.ledger import transactions
from sluice.ledger.changelogs import batches_in, changelogs_of, files_of
from sluice.ledger.details import SHARE_OF, TABLES, TAKING_OUT, UNDONE
from sluice.ledger.rename_log import ColumnStatement, recorded, tables_named_in
from sluice.ledger.rows import BatchRow, Publication
from sluice.names import (
    PROP_FLOOR,
    PROP_SOURCE,
    full_name,
    is_changelog,
    published_tables,
    target_namespace,
    target_of_changelog,
)
from sluice.operations.context import Context
from sluice.operations.quarantined import resolutions

_ON_THE_WAY: Final = (states.LOADING, states.LOADED, states.PUBLISHING)


def known_batch(ctx: Context, batch_id: str) -> BatchRow:
    """Return the ledger's row of a batch; raises TerminalError for an unknown one, and for the row
    under which maintenance holds the lease."""
    row = ctx.ledger.batches.get(batch_id)
    if row is None or batch_id == states.MAINTENANCE:
        raise TerminalError(f"pipeline {ctx.pipeline.name} has no batch {batch_id}")
    return row


@contextmanager
def advise_rollback(ctx: Context, batch_id: str) -> Iterator[None]:
    """Add to an error that another try would not mend how to go on without the batch."""
    try:
        yield
    except TerminalError as error:
        if type(error) is not TerminalError:  # its subclasses have advice of their own
            raise
        way = f"to get on without it: sluice rollback {ctx.pipeline.name} --batch {batch_id}"
        raise TerminalError(f"batch {batch_id} is not published: {error}; {way}") from error


def publications(ctx: Context, batch_id: str) -> list[Publication]:
    """Return the batch's publication of each table that still exists: the newest one that is
    recorded as published or, if only its intent is recorded, that `main` is built on."""
    counted = (
        next((p for p in rows if p.state == states.PUBLISHED or came_to_main(ctx, p)), None)
        for rows in ctx.ledger.publications.since_undo(batch_id)
        if find_table(ctx.catalog, rows[0].namespace, rows[0].table_name) is not None
    )
    return [publication for publication in counted if publication is not None]


def is_here(ctx: Context, p: Publication) -> bool:
    """Whether the table is in the pipeline's present namespace, and not in one that it left."""
    return target_namespace(p.namespace) == ctx.pipeline.namespace


def came_to_main(ctx: Context, p: Publication) -> bool:
    """Whether `main` of the table is, or is built on, the snapshot that the attempt staged."""
    table = find_table(ctx.catalog, p.namespace, p.table_name)
    return table is not None and p.head_snapshot in ancestors(table, head(table))


def unfinished(ctx: Context) -> list[BatchRow]:
    """Return the unfinished batches without those that one of them takes out."""
    rows = ctx.ledger.unfinished()
    taken = {batch for row in rows for batch in row.details.get(UNDONE, ())}
    return [row for row in rows if row.batch_id not in taken]


def refuse_in_use(ctx: Context, batches: list[str]) -> None:
    """Raise RollbackRefusedError if a batch under way, or a reprocess, depends on one of the
    batches.
    """
    _refuse_on_the_way(ctx, batches)
    _refuse_if_repeated(ctx, batches)
    _refuse_if_shared(ctx, batches)
    _refuse_if_leant_on(ctx, batches)
    _refuse_if_read_again(ctx, batches)


def _refuse_on_the_way(ctx: Context, batches: list[str]) -> None:
    """A batch under way does not stage events that are late, or stored already: without the batch
    that it was compared with, these would be in no table."""
    rows = ctx.ledger.unfinished()
    taken = {b for row in rows if row.batch_id in batches for b in row.details.get(UNDONE, ())}
    for row in (row for row in rows if row.batch_id not in taken):
        if row.batch_id not in batches and (row.state in _ON_THE_WAY or row.halfway):
            raise RollbackRefusedError(
                f"batch {row.batch_id} of {ctx.pipeline.name} is {row.state}, compared with what "
                f"shall be undone: {_end_of(ctx, row)}, and try again"
            )


def _end_of(ctx: Context, row: BatchRow) -> str:
    """Say how a batch under way can be ended."""
    if row.state == states.ROLLING_BACK or only_goes_on(ctx, row):
        return f"let it be completed ({_completed_by(row)})"
    undo = f"sluice rollback {ctx.pipeline.name} --batch {row.batch_id}"
    return f"let it end (sluice run, or its DAG run), or give it up ({undo})"


def _refuse_if_repeated(ctx: Context, batches: list[str]) -> None:
    """A reprocess counts what its batch changed as duplicate: that would be in no table."""
    resolved = resolutions(ctx.ledger.batches.all())
    for batch_id in batches:
        later = resolved.get(batch_id)
        if later is not None and later not in batches:
            raise RollbackRefusedError(
                f"batch {later} reprocessed batch {batch_id}, and has its changes too: roll that "
                f"back first (sluice rollback {ctx.pipeline.name} --batch {later})"
            )


def _refuse_if_shared(ctx: Context, batches: list[str]) -> None:
    """Undoing a batch holds its files, also for the table that it was published without."""
    for row in ctx.ledger.batches.all():
        origin = row.details.get(SHARE_OF)
        if row.state == states.PUBLISHED and origin in batches and row.batch_id not in batches:
            raise RollbackRefusedError(
                f"batch {row.batch_id} has what {origin} was published without: roll that back "
                f"first (sluice rollback {ctx.pipeline.name} --batch {row.batch_id})"
            )


def _refuse_if_leant_on(ctx: Context, batches: list[str]) -> None:
    """If events of open transactions are held back, a later batch's events may be in the tables
    only because an earlier batch brought the end of their transaction."""
    if not ctx.pipeline.holds_transactions or not batches:
        return
    ended, rows = transactions.by_batch(ctx.catalog, ctx.pipeline.name), _published(ctx)
    for batch_id in batches:
        for later in _followers(rows, batch_id, batches):
            if ended[batch_id] & ended[later.batch_id]:
                raise RollbackRefusedError(
                    f"batch {later.batch_id} has changes of transactions whose end batch "
                    f"{batch_id} brought: roll that back first (sluice rollback "
                    f"{ctx.pipeline.name} --batch {later.batch_id})"
                )


def _refuse_if_read_again(ctx: Context, batches: list[str]) -> None:
    """A run for single tables reads loaded files a second time: with the first batch undone, their
    events would still be in these tables."""
    rows = _published(ctx)
    again = [r for r in rows if r.details.get(TABLES) and SHARE_OF not in r.details]
    replaced = ctx.ledger.files.replaced() if again else []
    for batch_id in batches if again else ():
        own = ctx.ledger.files.of_batch(batch_id)
        own += [row for row in replaced if row.batch_id == batch_id]
        files = {row.object_key for row in own}
        for later in (r for r in _followers(rows, batch_id, batches) if r in again):
            read = {file.key for file in ctx.files.read_manifest(later.manifest).files}
            if files & read and _has_anything(ctx, later.batch_id):
                raise RollbackRefusedError(
                    f"batch {later.batch_id} read files of {batch_id} again, for "
                    f"{', '.join(later.details[TABLES])} alone: roll that back first (sluice "
                    f"rollback {ctx.pipeline.name} --batch {later.batch_id})"
                )


def _has_anything(ctx: Context, batch_id: str) -> bool:
    """Whether a batch brought changes or rows to any table, forgotten changes included."""
    logs = changelogs(ctx).values()
    return any(files_of(log, batch_id) for log in logs) or bool(publications(ctx, batch_id))


def _published(ctx: Context) -> list[BatchRow]:
    return [r for r in ctx.ledger.batches.all() if r.state == states.PUBLISHED]


def _followers(rows: list[BatchRow], batch_id: str, undone: Container[str]) -> list[BatchRow]:
    """Return the published batches after one that are not undone; none if it is not published."""
    since = next((r.seq for r in rows if r.batch_id == batch_id), None)
    return [r for r in rows if since is not None and r.seq > since and r.batch_id not in undone]


def refuse_refolded(ctx: Context, batches: list[str]) -> None:
    """Raise FollowedError for a published batch that took others out: `main` from before it has
    their rows. Raise RollbackRefusedError for one that has begun to take them out, for what would
    bring them back is gone in part. One that is only half published may be undone."""
    for batch_id in batches:
        row = known_batch(ctx, batch_id)
        undone = ", ".join(row.details.get(UNDONE, ()))
        if undone and row.state == states.PUBLISHED:
            raise FollowedError(f"batch {batch_id} took out {undone}")
        if only_goes_on(ctx, row):
            raise RollbackRefusedError(
                f"batch {batch_id} of {ctx.pipeline.name} is taking out {undone}: that is "
                f"completed, and not undone ({_completed_by(row)})"
            )


def only_goes_on(ctx: Context, row: BatchRow) -> bool:
    """Whether a batch that undoes others has begun to take them out and is not finished."""
    undone = row.details.get(UNDONE)
    if not undone or not row.halfway:
        return False
    return bool(set(undone) - not_gone(ctx)) or TAKING_OUT in row.details


def not_gone(ctx: Context) -> set[str]:
    """Return the batches that are published, or whose rollback is not finished."""
    rows = ctx.ledger.batches.all()
    return {r.batch_id for r in rows if r.state in (states.PUBLISHED, states.ROLLING_BACK)}


def _completed_by(row: BatchRow) -> str:
    return f"sluice {'reconcile' if row.state in states.HALFWAY else 'run'} {row.pipeline}"


def refuse_if_followed(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """Raise FollowedError if a batch that stays is built on, or was compared with, one of these.

    RollbackRefusedError if maintenance has forgotten whether one was."""
    own = {
        (p.namespace, p.table_name, p.head_snapshot): p.batch_id
        for publications in published.values()
        for p in publications
    }
    others = {row.batch_id for row in _published(ctx)} - published.keys()
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
    rows = _published(ctx)
    for batch_id in (batch for batch, own in published.items() if own):
        for later in _followers(rows, batch_id, published):
            if undone := later.details.get(UNDONE):
                did = f"took out {', '.join(undone)} after batch {batch_id}"
                raise FollowedError(f"batch {later.batch_id} {did}")


def _refuse_if_compared(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """A later batch whose changes were all late, or stored already, wrote nothing; without the
    batch that it was compared with they would be in no table."""
    rows = _published(ctx)
    for batch_id, publications in published.items():
        others = _followers(rows, batch_id, published)
        for log in _changelogs_written(ctx, publications) if others else ():
            for other in others:
                if files_of(log, other.batch_id):
                    where = ".".join(log.name()[-2:])
                    did = f"has changes in {where}, which were compared with {batch_id}"
                    raise FollowedError(f"batch {other.batch_id} {did}")


def _refuse_if_silent(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """A batch may have events of a table and write nothing to it, as one of duplicates or of DDL
    alone: what others wrote since is right only with it."""
    rows, statements = _published(ctx), recorded(ctx.catalog, ctx.pipeline.name)
    followed = {batch: _followers(rows, batch, published) for batch in published}
    logs = changelogs(ctx) if any(followed.values()) else {}
    for batch_id, others in followed.items():
        written = {p.table_name for p in published[batch_id]}
        own = [one for one in statements if one.batch_id == batch_id]
        renamed = tables_renamed(ctx, own, logs)
        for target, log in logs.items() if others else ():
            silent = not written & published_tables(target)
            if silent and (log.properties.get(PROP_SOURCE) in renamed or files_of(log, batch_id)):
                raise FollowedError(
                    f"batch {others[0].batch_id} came after batch {batch_id}, which tells of "
                    f"{target} and wrote nothing of it"
                )


def _refuse_if_forgotten(ctx: Context, published: dict[str, list[Publication]]) -> None:
    """If maintenance has forgotten the changes of a batch, it may have forgotten those of a later
    one that was compared with it. The oldest go first: while any are left, all later ones are."""
    rows = _published(ctx)
    for batch_id, publications in published.items():
        others = _followers(rows, batch_id, published)
        for log in _changelogs_written(ctx, publications) if others else ():
            namespace, target = target_of(log)
            if not has_floor(ctx, namespace, target) or files_of(log, batch_id):
                continue
            if batches_in(log).isdisjoint(_until(rows, batch_id)):
                raise RollbackRefusedError(
                    f"{full_name(namespace, target)}: maintenance has forgotten the changes of "
                    f"batch {batch_id} (changelog_days), and may have those of batch "
                    f"{others[-1].batch_id}, which came after it: what of these was there already "
                    "would be in no table; it cannot be undone any more"
                )


def _until(rows: list[BatchRow], batch_id: str) -> list[str]:
    """Return the published batches up to this one."""
    until = next((r.seq for r in rows if r.batch_id == batch_id), 0)
    return [r.batch_id for r in rows if r.seq <= until]


def has_floor(ctx: Context, namespace: str, target: str) -> bool:
    """Whether maintenance has ever forgotten changes of a target."""
    table = find_table(ctx.catalog, namespace, target)
    return table is not None and PROP_FLOOR in table.properties


def target_of(changelog: Table) -> tuple[str, str]:
    """Return namespace and name of a changelog's target."""
    namespace, name = changelog.name()[-2:]
    return target_namespace(namespace), target_of_changelog(name)


def tables_renamed(
    ctx: Context, statements: list[ColumnStatement], logs: dict[str, Table]
) -> frozenset[str]:
    """Return the source tables of these changelogs that the statements rename columns of."""
    sources = [log.properties.get(PROP_SOURCE, target) for target, log in logs.items()]
    return tables_named_in(statements, sources, ctx.pipeline.format)


def changelogs(ctx: Context) -> dict[str, Table]:
    """Return the changelogs of the pipeline by their targets' names."""
    return changelogs_of(ctx.catalog, ctx.pipeline.name, ctx.pipeline.namespace)


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


def tables(ctx: Context) -> list[tuple[str, str]]:
    """Return all tables of the pipeline's two namespaces."""
    return tables_of(ctx.catalog, ctx.pipeline.namespace)
