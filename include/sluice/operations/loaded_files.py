"""The epoch of loaded files, and their place in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.config.epochs import MAX_EPOCH
from sluice.ledger.details import EPOCH
from sluice.ledger.rows import FileRow
from sluice.operations.context import Context


def epoch_of(ctx: Context, epoch: int | None) -> int:
    """Return the epoch of a batch: the one in its manifest, or else the pipeline's own."""
    return ctx.pipeline.epoch if epoch is None else epoch


def epochs_of_same_load(ctx: Context, epoch: int | None) -> range | None:
    """Return the epochs in which the same bytes are the same events as at this one; None for all
    epochs.

    A full load replaces everything before it, and may repeat any file of an earlier epoch. If the
    pipeline has no such load, the epochs of loaded files need not be looked up.
    """
    begun = [one.epoch for one in ctx.pipeline.full_loads]
    if not begun:
        return None
    at = epoch_of(ctx, epoch)
    first = max((e for e in begun if e <= at), default=0)
    return range(first, min((e for e in begun if e > at), default=MAX_EPOCH + 1))


def other_epoch(ctx: Context, epoch: int | None) -> int | None:
    """Return an epoch unless it is the pipeline's own; else None."""
    return None if epoch == ctx.pipeline.epoch else epoch


def at_another_epoch(ctx: Context, batch_id: str) -> str:
    """Return a message if the files of an undone batch will be loaded at another epoch than before;
    "" if not.

    Changed files keep the epoch of the files that they replace.
    """
    row = ctx.ledger.batches.get(batch_id)
    before = None if row is None else row.details.get(EPOCH)
    keys = {file.object_key for file in ctx.ledger.files.of_batch(batch_id)}
    if before in (None, ctx.pipeline.epoch) or ctx.ledger.files.replaced(keys):
        return ""
    return (
        f"batch {batch_id} was loaded at epoch {before}, and the next run loads its files at epoch "
        f"{ctx.pipeline.epoch}, above all that older epochs brought"
    )


def arrivals(ctx: Context, rows: Iterable[FileRow]) -> dict[tuple[str, str], str]:
    """Return by batch and key the places, in the order of arrival, of all files of these
    rows' batches."""
    return {
        (batch, file.key): file.arrival
        for batch in sorted({row.batch_id for row in rows})
        for file in ctx.files.manifest_of(ctx.pipeline.name, batch).files
    }
