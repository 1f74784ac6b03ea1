"""Undo a batch in all its tables, or in none, by moving `main` back; its files are held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from types import MappingProxyType

from pyiceberg.table import Table

from sluice.catalog.client import load_table
from sluice.catalog.snapshots import drop_tag, head, refuse_format_version
from sluice.catalog.table_rollback import columns_after, refuse_rollback, rollback_table
from sluice.counting import counted
from sluice.errors import LeaseHeldError, TerminalError
from sluice.faults import Point, reach
from sluice.ledger import states
from sluice.ledger.batches import Refuse
from sluice.ledger.details import KEEP_FILES_HELD, UNDOING, UndoOrder, of_undo
from sluice.ledger.leases import holder_in_words, this_holder
from sluice.ledger.refusals import require_lease
from sluice.ledger.rows import BatchRow, Publication, seq_of
from sluice.names import tag_name
from sluice.operations import comments
from sluice.operations.context import Context, known_batch
from sluice.operations.followed import refuse_if_followed
from sluice.operations.foreign_writes import advise_recovery
from sluice.operations.held_files import hold_files, to_hold, would_hold
from sluice.operations.holding import given_up, pipeline_lease
from sluice.operations.in_use import refuse_in_use, refuse_undoing_batches
from sluice.operations.published_batches import published_rows
from sluice.operations.rollback_mark import RollbackMark, changed_meanwhile, mark_of
from sluice.operations.staged_branches import drop_all_branches, staged_branches
from sluice.operations.upgraded import refuse_upgraded_tables
from sluice.operations.valid_publications import (
    Published,
    newest_first,
    publications,
    publications_of,
)
from sluice.result import moved_main

Orders = Mapping[str, UndoOrder]


def undo_batch(
    ctx: Context, batch_id: str, dry_run: bool = False, order: UndoOrder = KEEP_FILES_HELD
) -> list[str]:
    """Undo a batch: move the tables that it published back, and drop what it staged. Its files are
    held: they are not loaded again until `release`, or by `order` until the rollback ends.

    Return what was done, or with `dry_run` what would be. Raises RollbackRefusedError, before
    anything moves, if another writer wrote after the batch; FollowedError if that was a batch.
    """
    row, orders = known_batch(ctx, batch_id), {batch_id: order}
    if row.state == states.PUBLISHED:
        return _undo_published(ctx, [batch_id], orders, dry_run)
    if row.state == states.ROLLING_BACK:
        return complete_rollbacks(ctx, dry_run, orders)
    if row.state == states.ROLLED_BACK:
        return [_already(row), *_hold_again(ctx, row, dry_run)]
    _refuse_at_work(ctx, row)
    if row.state == states.PUBLISHING or publications(ctx, batch_id):
        return _undo_published(ctx, [batch_id], orders, dry_run)
    return _undo_staged(ctx, row, dry_run, orders)


def give_up(ctx: Context, batch_id: str) -> list[str]:
    """Drop what a failed batch staged; the next run loads it again. A batch that another run has
    published or is rolling back is left alone, and a half published one is left to be completed."""
    row = known_batch(ctx, batch_id)
    if row.state in (states.PUBLISHED, states.ROLLING_BACK):
        return [f"batch {batch_id} is {row.state}, by another run"]
    if row.state == states.ROLLED_BACK:
        return [_already(row)]
    if row.state == states.PUBLISHING:
        return [f"batch {batch_id} is half published: the next run completes it, or reconcile"]
    _refuse_at_work(ctx, row)
    _stop(ctx, row, states.FAILED)
    return drop_all_branches(ctx, batch_id) or _nothing_staged(row)


def _already(row: BatchRow) -> str:
    return f"batch {row.batch_id} is rolled back already"


def _refuse_at_work(ctx: Context, row: BatchRow) -> None:
    """Raise LeaseHeldError while another process works on the batch."""
    own = row.holder == this_holder()
    if row.state != states.LOADED and not own and not ctx.ledger.lease.has_lapsed(row):
        raise LeaseHeldError(
            f"batch {row.batch_id} is {row.state}, held by {holder_in_words(row.holder)}: stop "
            "that first"
        )


def _hold_again(ctx: Context, row: BatchRow, dry_run: bool) -> list[str]:
    """Hold the released files of a rolled back batch; a run that has claimed them finds
    its row changed."""
    files = to_hold(ctx, row.batch_id)
    if not files or dry_run:
        return [f"would hold: {counted(len(files), 'file')}"] if files else []
    undone = (states.ROLLED_BACK, _stop(ctx, row, states.ROLLED_BACK))

    def unchanged(now: BatchRow | None) -> bool:
        return now is not None and (now.state, now.attempt) == undone

    hold_files(ctx, row.batch_id, RollbackMark(ctx, row.batch_id, unchanged).require)
    return []


def complete_rollbacks(
    ctx: Context, dry_run: bool = False, orders: Orders = MappingProxyType({})
) -> list[str]:
    """Complete the rollbacks whose process died, as they were ordered, with what `orders` adds;
    raises as `undo_batch` does."""
    marked = publications_of(ctx, begun(ctx))
    published = [batch_id for batch_id, own in marked.items() if own]
    done = [
        line
        for row in (known_batch(ctx, b) for b in marked if b not in published)
        for line in _undo_staged(ctx, row, dry_run, orders)
    ]
    if published:
        done += _undo_published(ctx, published, orders, dry_run)
    return done


def begun(ctx: Context) -> list[str]:
    """Return the batches whose rollback has begun and not ended."""
    rows = ctx.ledger.batches.all()
    return [row.batch_id for row in rows if row.state == states.ROLLING_BACK]


def undo_batches_after(
    ctx: Context, batch_id: str, dry_run: bool = False, order: UndoOrder = KEEP_FILES_HELD
) -> list[str]:
    """Undo every batch that was published after this one, newest first; all or none. Rollbacks that
    had begun are completed as they were ordered.

    Raises RollbackRefusedError, before anything moves, when one of them cannot be undone.
    """
    newer = published_after(ctx, batch_id)
    if not newer:
        return [f"nothing was published after batch {batch_id}"]
    return _undo_published(ctx, newer, orders_for(ctx, newer, order), dry_run)


def orders_for(ctx: Context, batches: Iterable[str], order: UndoOrder) -> Orders:
    """Return the order for each of the batches whose rollback has not begun."""
    going = set(begun(ctx))
    return {batch: order for batch in batches if batch not in going}


def published_after(ctx: Context, batch_id: str) -> list[str]:
    """Return the batches whose rollback has begun, then those published after this one; raises
    TerminalError unless this one is published itself."""
    row = known_batch(ctx, batch_id)
    if row.state != states.PUBLISHED:
        raise TerminalError(
            f"batch {batch_id} of pipeline {ctx.pipeline.name} is {row.state}: name one that is "
            "published, to which the tables shall go back"
        )
    return begun(ctx) + [r.batch_id for r in published_rows(ctx) if r.seq > row.seq]


def _undo_published(
    ctx: Context, batches: list[str], orders: Orders, dry_run: bool = False
) -> list[str]:
    """Undo published batches, newest first. Everything is checked before waiting for the lease and
    again while holding it.

    If one may be half published, the branches are dropped first, so that nobody can publish more,
    and then the publications are read again.
    """
    refuse_upgraded_tables(ctx, batches)
    half_published = not ctx.ledger.batches.published().issuperset(batches)
    published, moves = _checked(ctx, batches)
    if dry_run:
        return _would(
            ctx, batches, moves + (staged_branches(ctx, *batches) if half_published else [])
        )
    with _lease(ctx, batches) as holds_lease:
        published, _ = _checked(ctx, batches)
        attempt = _begin(ctx, batches, orders, holds_lease)
        dropped = drop_all_branches(ctx, *batches) if half_published else []
        if half_published:
            published = newest_first(ctx, batches)
        done = [_undo_one(mark_of(ctx, b, attempt), own) for b, own in published.items()]
    return [line for lines in done for line in lines] + dropped


def _checked(ctx: Context, batches: list[str]) -> tuple[Published, list[str]]:
    """Return the publications of the batches and the moves of `main` that undo them; raises
    RollbackRefusedError if the batches may not be undone."""
    published = newest_first(ctx, batches)
    refuse_in_use(ctx, batches)
    refuse_undoing_batches(ctx, batches)
    refuse_if_followed(ctx, published)
    return published, _main_changes(ctx, published)


def _would(ctx: Context, batches: list[str], undone: list[str]) -> list[str]:
    return [*(f"would undo: {line}" for line in undone), would_hold(ctx, batches)]


@contextmanager
def _lease(ctx: Context, batches: list[str]) -> Iterator[Refuse]:
    """Hold the pipeline's lease, so that no load begins between check and undo, and no other
    process completes the same rollback; yield the check that the mark may be set. Raises
    LeaseHeldError."""
    if any(known_batch(ctx, batch_id).state == states.PUBLISHING for batch_id in batches):
        # Its publisher may have the lease; no other batch is loaded beside a half published one.
        yield partial(_require_halfway, ctx, batches)
        return
    with pipeline_lease(ctx, *batches) as attempt:
        yield partial(require_lease, attempt=attempt)


def _require_halfway(ctx: Context, batches: list[str], now: Mapping[str, BatchRow]) -> None:
    """Raise LeaseHeldError if one of the batches is published by now: others may have been loaded
    since."""
    for batch_id in batches:
        if batch_id in now and now[batch_id].state == states.PUBLISHED:
            raise LeaseHeldError(changed_meanwhile(ctx, batch_id))


def _begin(ctx: Context, batches: list[str], orders: Orders, holds_lease: Refuse) -> str:
    """Mark the batches as `rolling_back`, which stops publishers and a suspended rollback, and lets
    another process complete it after a crash; return the mark's attempt.

    Raises LeaseHeldError if, since the check, one was rolled back or began to delete the changes of
    others; or if `holds_lease` does, in the mark's own commit: another batch may have been loaded,
    compared with what goes.
    """
    attempt = given_up()
    gone_on = ctx.ledger.batches.mark_rolling_back(batches, attempt, _may_go, holds_lease, orders)
    if gone_on:
        raise LeaseHeldError(changed_meanwhile(ctx, gone_on))
    reach(Point.ROLLBACK_MARKED)
    return attempt


def _may_go(now: BatchRow) -> bool:
    return now.state != states.ROLLED_BACK and UNDOING not in now.details


@dataclass(frozen=True)
class _TableState:
    """`main` and the columns of a table."""

    head: int | None
    columns: tuple[str, ...]


def _main_changes(ctx: Context, published: Published) -> list[str]:
    """Describe the move of `main` of every table, batch after batch; raises RollbackRefusedError
    for the first table that may not go back."""
    load = cache(partial(load_table, ctx.catalog))
    tables: dict[tuple[str, str], _TableState] = {}
    moves = []
    for p in chain.from_iterable(published.values()):
        name = (p.namespace, p.table_name)
        before = tables.get(name) or _state_of(load(name))
        tables[name] = after = _state_after(ctx, load(name), before, p)
        main = moved_main(before.head, after.head)
        moves.append(f"batch {p.batch_id}: {p.full_name}: main {main}")
        gone = tuple(column for column in before.columns if column not in after.columns)
        moves += _columns_gone(p.full_name, gone)
    return moves


def _state_of(table: Table) -> _TableState:
    return _TableState(head(table), tuple(field.name for field in table.schema().fields))


def _state_after(ctx: Context, table: Table, before: _TableState, p: Publication) -> _TableState:
    """Return the state of a table once a publication is undone; raises RollbackRefusedError if it
    may not be."""
    refuse_format_version(ctx.catalog, table)
    with advise_recovery(ctx, p):
        refuse_rollback(table, before.head, p.staged, p.batch_id)
    if before.head == p.base_snapshot:
        return before
    return _TableState(p.base_snapshot, columns_after(table, p.staged))


def _columns_gone(table: str, columns: tuple[str, ...]) -> list[str]:
    """Say which columns go: others than the batch may have added some since."""
    return [f"{table}: columns that go: {', '.join(columns)}"] if columns else []


def _undo_one(mark: RollbackMark, published: list[Publication]) -> list[str]:
    done = []
    for p in published:
        with advise_recovery(mark.ctx, p):
            change = rollback_table(mark.ctx.catalog, p.staged, mark.batch_id)
        reach(Point.ROLLBACK_TABLE)
        done.append(str(change))
        done += _columns_gone(change.table, change.gone)
    return done + mark.close()


def finish_undone(ctx: Context, batch_id: str, order: UndoOrder) -> None:
    """Finish the rollback of a batch whose tables were folded again without it; do nothing if that
    is done.

    Raises TransientError if others keep interfering: the next reconcile goes on.
    """
    row = known_batch(ctx, batch_id)
    if row.state not in (states.PUBLISHED, states.ROLLING_BACK):
        return
    for p in publications(ctx, batch_id):
        drop_tag(ctx.catalog, p.namespace, p.table_name, tag_name(batch_id))
        reach(Point.PUBLISH_UNTAGGED)
    RollbackMark(ctx, batch_id, lambda now: seq_of(now) == row.seq, order).close()


def _undo_staged(ctx: Context, row: BatchRow, dry_run: bool, orders: Orders) -> list[str]:
    """Undo a batch that is in no table. If a table got it before its branches were dropped, after
    which nobody can publish it, it is undone as a published one."""
    refuse_upgraded_tables(ctx, [row.batch_id])
    if dry_run:
        state = f"batch {row.batch_id}, which is {row.state}"
        return _would(ctx, [row.batch_id], [state, *staged_branches(ctx, row.batch_id)])
    attempt = _stop(ctx, row, states.ROLLING_BACK, orders.get(row.batch_id))
    mark = mark_of(ctx, row.batch_id, attempt)
    reach(Point.ROLLBACK_MARKED)
    done = drop_all_branches(ctx, row.batch_id)
    if publications(ctx, row.batch_id):  # a publisher that stood still went on before that
        return _undo_published(ctx, [row.batch_id], orders) + done
    done += mark.forget_changes()
    mark.record_undone()
    if row.state == states.ROLLING_BACK:  # perhaps of a batch that was published
        comments.apply_comments(ctx)
    mark.end()
    return done or _nothing_staged(row)


def _nothing_staged(row: BatchRow) -> list[str]:
    return [f"batch {row.batch_id} had nothing staged; every table is as it was"]


def _stop(ctx: Context, row: BatchRow, state: str, order: UndoOrder | None = None) -> str:
    """Give the batch `state` and a new attempt id, so that the process that had it can no longer
    publish; return that id. A batch that is left `rolling_back` by a crash is completed later, as
    `order` says.

    Raises LeaseHeldError if the batch has changed since `row` was read.
    """
    attempt = given_up()
    stopped = ctx.ledger.batches.record(
        row.batch_id, state, attempt=attempt,
        replace_details=None if order is None else of_undo(row.details, order),
        expected=lambda now: now is None or (now.state, now.attempt) == (row.state, row.attempt),
    )  # fmt: skip
    if not stopped:
        raise LeaseHeldError(changed_meanwhile(ctx, row.batch_id))
    return attempt
