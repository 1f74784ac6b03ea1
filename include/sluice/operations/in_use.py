"""Refusals to undo a batch on which a batch under way, or another published one, depends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sluice.errors import FollowedError, RollbackRefusedError
from sluice.ledger import states, transactions
from sluice.ledger.changelogs import files_of
from sluice.ledger.details import SHARE_OF, TABLES, UNDONE
from sluice.ledger.rows import BatchRow
from sluice.operations.context import Context, known_batch
from sluice.operations.pipeline_tables import changelogs
from sluice.operations.published_batches import followers, must_complete, published_rows
from sluice.operations.quarantined import resolutions
from sluice.operations.valid_publications import publications

_IN_PROGRESS: Final = (states.LOADING, states.LOADED, states.PUBLISHING)


def refuse_in_use(ctx: Context, batches: list[str]) -> None:
    """Raise RollbackRefusedError if a batch under way, or a published one, depends on one
    of the batches."""
    _refuse_in_progress(ctx, batches)
    _refuse_if_reprocessed(ctx, batches)
    _refuse_if_split_off(ctx, batches)
    _refuse_if_ended_transactions(ctx, batches)
    _refuse_if_files_reread(ctx, batches)


def _refuse_in_progress(ctx: Context, batches: list[str]) -> None:
    """Raise RollbackRefusedError while another batch is loading, loaded, publishing or half way.

    It skipped events that were late, or that the tables had from the batches to undo. After the
    undo no table would have them.
    """
    rows = ctx.ledger.unfinished()
    taken = {b for row in rows if row.batch_id in batches for b in row.details.get(UNDONE, ())}
    for row in (row for row in rows if row.batch_id not in taken):
        if row.batch_id not in batches and (row.state in _IN_PROGRESS or row.halfway):
            raise RollbackRefusedError(
                f"batch {row.batch_id} of {ctx.pipeline.name} is {row.state}, compared with "
                f"batches to be undone: {_end_of(ctx, row)}, and try again"
            )


def _end_of(ctx: Context, row: BatchRow) -> str:
    """Return what the operator can do to end a batch under way."""
    if row.state == states.ROLLING_BACK or must_complete(ctx, row):
        return f"let it be completed ({_completed_by(row)})"
    undo = f"sluice rollback {ctx.pipeline.name} --batch {row.batch_id}"
    return f"let it end (sluice run, or its DAG run), or give it up ({undo})"


def _refuse_if_reprocessed(ctx: Context, batches: list[str]) -> None:
    """Raise RollbackRefusedError if a later batch reprocessed one of the batches.

    It counted what its predecessor had changed as duplicates. After the undo no table would have
    it.
    """
    resolved = resolutions(ctx.ledger.batches.all())
    for batch_id in batches:
        later = resolved.get(batch_id)
        if later is not None and later not in batches:
            raise RollbackRefusedError(
                f"batch {later} reprocessed batch {batch_id}, and has its changes too: roll that "
                f"back first (sluice rollback {ctx.pipeline.name} --batch {later})"
            )


def _refuse_if_split_off(ctx: Context, batches: list[str]) -> None:
    """Raise RollbackRefusedError if a published batch has a table that one of the batches was
    published without.

    The undo would hold the files of that table too.
    """
    for row in ctx.ledger.batches.all():
        origin = row.details.get(SHARE_OF)
        if row.state == states.PUBLISHED and origin in batches and row.batch_id not in batches:
            raise RollbackRefusedError(
                f"batch {row.batch_id} has what {origin} was published without: roll that back "
                f"first (sluice rollback {ctx.pipeline.name} --batch {row.batch_id})"
            )


def _refuse_if_ended_transactions(ctx: Context, batches: list[str]) -> None:
    """Raise RollbackRefusedError if a later batch has changes of a transaction whose end one of the
    batches brought.

    With `on_open_transaction: hold` the end is why these changes were loaded.
    """
    if not ctx.pipeline.holds_transactions or not batches:
        return
    ended, rows = transactions.by_batch(ctx.catalog, ctx.pipeline.name), published_rows(ctx)
    for batch_id in batches:
        for later in followers(rows, batch_id, batches):
            if ended[batch_id] & ended[later.batch_id]:
                raise RollbackRefusedError(
                    f"batch {later.batch_id} has changes of transactions whose end batch "
                    f"{batch_id} brought: roll that back first (sluice rollback "
                    f"{ctx.pipeline.name} --batch {later.batch_id})"
                )


def _refuse_if_files_reread(ctx: Context, batches: list[str]) -> None:
    """Raise RollbackRefusedError if a run for single tables read files of one of the batches too,
    before the batch or after it.

    After the undo their events would still be in these tables.
    """
    rows = published_rows(ctx)
    again = [
        row for row in rows
        if row.details.get(TABLES) and SHARE_OF not in row.details and row.batch_id not in batches
    ]  # fmt: skip
    if not again:
        return
    files = _files_loaded(ctx, {row.batch_id for row in rows}.intersection(batches))
    for other in again:
        read = {file.key for file in ctx.files.read_manifest(other.manifest).files}
        shared = next((batch_id for batch_id, keys in files.items() if keys & read), None)
        if shared is not None and _has_anything(ctx, other.batch_id):
            raise RollbackRefusedError(
                f"batch {other.batch_id} read files of {shared} too, for "
                f"{', '.join(other.details[TABLES])} alone: roll that back first (sluice "
                f"rollback {ctx.pipeline.name} --batch {other.batch_id})"
            )


def _files_loaded(ctx: Context, batches: Iterable[str]) -> dict[str, set[str]]:
    """Return the keys of the files that each batch loaded, those included that a later batch
    replaced."""
    rows = ctx.ledger.files.replaced()
    return {
        batch_id: {row.object_key for row in ctx.ledger.files.of_batch(batch_id)}
        | {row.object_key for row in rows if row.batch_id == batch_id}
        for batch_id in sorted(batches)
    }


def _has_anything(ctx: Context, batch_id: str) -> bool:
    """Whether a batch brought changes or rows to any table, expired changes included."""
    logs = changelogs(ctx).values()
    return any(files_of(log, batch_id) for log in logs) or bool(publications(ctx, batch_id))


def refuse_undoing_batches(ctx: Context, batches: list[str]) -> None:
    """Refuse to undo a batch that itself undoes others.

    Raises FollowedError if it is published: the snapshots before it have the undone rows. Raises
    RollbackRefusedError if it has begun to delete the undone changes: it can only be completed. One
    that is only half published may be undone.
    """
    for batch_id in batches:
        row = known_batch(ctx, batch_id)
        undone = ", ".join(row.details.get(UNDONE, ()))
        if undone and row.state == states.PUBLISHED:
            raise FollowedError(f"batch {batch_id} undid {undone}")
        if must_complete(ctx, row):
            raise RollbackRefusedError(
                f"batch {batch_id} of {ctx.pipeline.name} is undoing {undone}: that can "
                f"only be completed ({_completed_by(row)})"
            )


def _completed_by(row: BatchRow) -> str:
    """Return the command that completes a batch."""
    return f"sluice {'reconcile' if row.state in states.HALFWAY else 'run'} {row.pipeline}"
