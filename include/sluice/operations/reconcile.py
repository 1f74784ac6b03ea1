"""Finish or undo what attempts that died left behind."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from functools import partial

from sluice.errors import FollowedError
from sluice.faults import Point, reach
from sluice.ledger import states
from sluice.ledger.leases import holder_in_words
from sluice.ledger.rows import BatchRow, may_land, seq_of
from sluice.manifest import Manifest
from sluice.operations.context import Context
from sluice.operations.empty_tables import drop_empty_tables
from sluice.operations.holding import is_held, taken_up
from sluice.operations.obsolete import why_obsolete
from sluice.operations.publish import publish
from sluice.operations.published_batches import unfinished_except_undone
from sluice.operations.rollback_advice import advise_rollback
from sluice.operations.staged_branches import drop_all_branches
from sluice.operations.undo import complete_rollbacks, undo_batch


def reconcile(ctx: Context, loads: Callable[[Manifest], bool] = lambda _: False) -> list[str]:
    """Finish or undo what attempts that died left; return the manifests of batches to load again.

    Publications and rollbacks that were under way are completed. Branches of failed attempts, and
    tables that were never published, are dropped. A batch whose lease another process holds is left
    alone. `loads`: whether the caller loads the batch at once; such a batch gets the caller's
    lease, so that of concurrent runs only one returns it.
    """
    again = _reconcile_batches(ctx, _complete_rollbacks(ctx), loads)
    newest = ctx.ledger.batches.all()[:1]
    if again or any(row.state == states.ROLLED_BACK for row in newest):
        for table in drop_empty_tables(ctx):
            ctx.say(
                f"reconcile: {table} is dropped: nothing of it is published, its batches failed or "
                "were rolled back"
            )
    return again


def _reconcile_batches(
    ctx: Context, rows: list[BatchRow], loads: Callable[[Manifest], bool]
) -> list[str]:
    """Finish or undo the batches, and drop what the drivers of the others staged; return the
    manifests of those to load again."""
    again: dict[str, str] = {}
    try:
        for row in rows:
            if (key := _reconcile_batch(ctx, row, loads)) is not None:
                again[row.batch_id] = key
    except BaseException:
        with suppress(Exception):  # it would hide why the batch failed
            _drop_staged(ctx, rows, again)
        raise
    _drop_staged(ctx, rows, again)
    return list(again.values())


def _drop_staged(ctx: Context, rows: list[BatchRow], again: Container[str]) -> None:
    """Drop what attempts that died staged of the batches that are loaded `again`, but for those
    that another process has by now: to go through all batches takes time.

    `rows`: from before; that of a batch that was taken up no longer shows that a driver had it.
    """
    batches = [row.batch_id for row in rows if row.attempt and row.batch_id in again]
    held = {r.batch_id for r in ctx.ledger.batches.all() if is_held(ctx, r)} if batches else set()
    drop_all_branches(ctx, *(batch_id for batch_id in batches if batch_id not in held))


def _reconcile_batch(ctx: Context, row: BatchRow, loads: Callable[[Manifest], bool]) -> str | None:
    """Finish or undo one batch; return its manifest if it is to be loaded again.

    Returns None if another process has it, or it is now finished or undone.
    """
    if not ctx.ledger.lease.has_lapsed(row):
        holder = holder_in_words(row.holder)
        ctx.say(f"reconcile: batch {row.batch_id} is {row.state}, held by {holder}")
        return None
    key = row.manifest or ctx.files.manifest_key(ctx.pipeline.name, row.batch_id)
    with advise_rollback(ctx, row.batch_id):
        if row.state == states.PUBLISHING:
            ctx.say(f"reconcile: completing the publication of batch {row.batch_id}")
            publish(ctx, key)
            return None
        manifest = ctx.files.read_manifest(key)
        why = why_obsolete(ctx, manifest)
    if why:
        ctx.say(f"reconcile: batch {row.batch_id} {why}")
        undo_batch(ctx, row.batch_id)
        return None
    record = _take_up if loads(manifest) else _record_landed
    if not record(ctx, row, key):
        ctx.say(f"reconcile: batch {row.batch_id} was taken up by another run")
        return None
    reach(Point.RECONCILE_TAKEN)
    return key


def _take_up(ctx: Context, row: BatchRow, key: str) -> bool:
    """Take the batch with this process's lease; return False if its row has changed since."""
    return ctx.ledger.batches.record(
        row.batch_id, states.LANDED, attempt=taken_up(), manifest=key,
        lease=ctx.lease, expected=partial(_is_unchanged, row),
    )  # fmt: skip


def _record_landed(ctx: Context, row: BatchRow, key: str) -> bool:
    """Record a batch that was never recorded, or not since its files were released; return False if
    its row has changed since.

    A batch that failed or died keeps its row, which shows since when.
    """
    recorded = ctx.ledger.batches.record(
        row.batch_id, states.LANDED, manifest=key,
        expected=lambda now: may_land(now) and _is_unchanged(row, now),
    )  # fmt: skip
    return recorded or _is_unchanged(row, ctx.ledger.batches.get(row.batch_id))


def _is_unchanged(row: BatchRow, now: BatchRow | None) -> bool:
    return seq_of(now) == row.seq


def _complete_rollbacks(ctx: Context) -> list[BatchRow]:
    """Complete interrupted rollbacks; return the batches that are unfinished then."""
    rows = unfinished_except_undone(ctx)
    begun = [row.batch_id for row in rows if row.state == states.ROLLING_BACK]
    if not begun:
        return rows
    ctx.say(f"reconcile: completing the rollback of {', '.join(begun)}")
    try:
        complete_rollbacks(ctx)
    except FollowedError as followed:
        fold = f"sluice rollback {ctx.pipeline.name} --batch {begun[0]}"
        raise FollowedError(
            f"{followed}: fold its keys again without what goes ({fold})"
        ) from followed
    return unfinished_except_undone(ctx)
