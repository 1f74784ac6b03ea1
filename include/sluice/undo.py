"""rollback: a batch undone in all its tables, or not at all, and what is left of it released."""

from __future__ import annotations

from pyiceberg.exceptions import NoSuchNamespaceError

from sluice import ledger as states
from sluice.context import Context
from sluice.errors import LeaseHeld, RollbackRefused, TerminalError
from sluice.ledger import BatchRow, Publication
from sluice.ledger_tables import equals
from sluice.names import BATCH_ID, branch_name, changelog_namespace
from sluice.snapshots import drop_branches, refuse_followed, restore_schema, rollback_table


def rollback(ctx: Context, batch_id: str, hold: bool = False) -> list[str]:
    """Undo a batch: what it published goes back, what it staged is dropped.

    `hold` keeps the files of an unpublished batch from being loaded again (those of a published
    one are always held) until `release`. Returns what was done. Raises RollbackRefused, before
    anything moves, when somebody wrote after the batch.
    """
    row = ctx.ledger.batch(ctx.pipeline.name, batch_id)
    if row is None:
        raise TerminalError(f"pipeline {ctx.pipeline.name} has no batch {batch_id}")
    if row.state == states.ROLLED_BACK:
        return [f"batch {batch_id} is rolled back already"]
    if row.state == states.PUBLISHED:
        return _undo_published(ctx, batch_id)
    if not ctx.ledger.has_lapsed(row) and row.state != states.LOADED:
        raise LeaseHeld(f"batch {batch_id} is {row.state}, held by {row.holder}: stop that first")
    return _undo_staged(ctx, row, hold)


def _undo_published(ctx: Context, batch_id: str) -> list[str]:
    published = [
        p
        for p in ctx.ledger.publications(ctx.pipeline.name, batch_id)
        if p.state in (states.PUBLISHED, states.INTENT)
    ]
    _refuse_if_followed(ctx, batch_id, published)
    # Behind maintenance the next batch's base is no batch's head: look at every table itself.
    for p in published:
        table = ctx.catalog.load_table((p.namespace, p.table_name))
        refuse_followed(table, p.head_snapshot, p.base_snapshot, batch_id)
    done = []
    for p in published:
        moved = rollback_table(
            ctx.catalog, p.namespace, p.table_name, p.head_snapshot, p.base_snapshot,
            p.base_schema, batch_id,
        )  # fmt: skip
        done.append(f"{moved.table}: main {moved.before} → {moved.after}")
    done += _forget_changes(ctx, batch_id)
    ctx.ledger.record_publications(
        Publication(**{**vars(p), "state": states.ROLLED_BACK}) for p in published
    )
    _end(ctx, batch_id, states.FILE_HELD)
    return done


def _refuse_if_followed(ctx: Context, batch_id: str, published: list[Publication]) -> None:
    mine = {(p.namespace, p.table_name): p for p in published}
    for row in ctx.ledger.batches(ctx.pipeline.name):
        if row.batch_id == batch_id:
            continue
        for p in ctx.ledger.publications(ctx.pipeline.name, row.batch_id):
            own = mine.get((p.namespace, p.table_name))
            if (
                p.state == states.PUBLISHED
                and own is not None
                and p.base_snapshot == own.head_snapshot
            ):
                raise RollbackRefused(
                    f"batch {row.batch_id} wrote {p.namespace}.{p.table_name} after batch "
                    f"{batch_id}: roll that back first (sluice rollback {ctx.pipeline.name} "
                    f"--batch {row.batch_id})"
                )


def _undo_staged(ctx: Context, row: BatchRow, hold: bool) -> list[str]:
    done = drop_all_branches(ctx, row.batch_id)
    for p in ctx.ledger.publications(ctx.pipeline.name, row.batch_id):
        if p.base_schema is not None and restore_schema(
            ctx.catalog, p.namespace, p.table_name, p.base_schema
        ):
            done.append(f"{p.namespace}.{p.table_name}: schema {p.base_schema} is current again")
    if hold:
        done += _forget_changes(ctx, row.batch_id)
        _end(ctx, row.batch_id, states.FILE_HELD)
    else:
        ctx.ledger.record_batch(ctx.pipeline.name, row.batch_id, states.FAILED)
    return done or [f"batch {row.batch_id} had nothing staged; every table is as it was"]


def _forget_changes(ctx: Context, batch_id: str) -> list[str]:
    done = []
    for namespace, name in _tables(ctx):
        table = ctx.catalog.load_table((namespace, name))
        if table.spec().fields and table.spec().fields[0].name == BATCH_ID:
            mine = equals(BATCH_ID, batch_id)
            if next(iter(table.scan(row_filter=mine).plan_files()), None) is not None:
                table.delete(mine)
                done.append(f"{namespace}.{name}: changes of the batch removed")
    return done


def _end(ctx: Context, batch_id: str, files: str) -> None:
    ctx.ledger.mark_files(ctx.pipeline.name, batch_id, files)
    ctx.ledger.record_batch(ctx.pipeline.name, batch_id, states.ROLLED_BACK)


def release(ctx: Context, batch_id: str) -> int:
    """Let the files of a rolled back batch be landed again; returns how many."""
    return ctx.ledger.mark_files(ctx.pipeline.name, batch_id, states.FILE_RELEASED)


def drop_all_branches(ctx: Context, batch_id: str) -> list[str]:
    """Drop what every attempt of the batch staged; returns what was there."""
    prefix = branch_name(batch_id, "")
    dropped = []
    for namespace, name in _tables(ctx):
        for branch in drop_branches(ctx.catalog, namespace, name, prefix):
            dropped.append(f"{namespace}.{name}: branch {branch} dropped")
    ctx.files.forget_scratch(ctx.pipeline.name, batch_id)
    return dropped


def _tables(ctx: Context) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for namespace in (ctx.pipeline.namespace, changelog_namespace(ctx.pipeline.namespace)):
        try:
            found += [(namespace, ident[-1]) for ident in ctx.catalog.list_tables(namespace)]
        except NoSuchNamespaceError:
            continue
    return sorted(found)
