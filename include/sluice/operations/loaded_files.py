"""Where the events of loaded files are: at which epoch, and where in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.config.epochs import MAX_EPOCH
from sluice.ledger.rows import FileRow
from sluice.operations.context import Context


def epoch_of(ctx: Context, epoch: int | None) -> int:
    """The epoch of a batch: what its manifest fixes, or else the pipeline's own."""
    return ctx.pipeline.epoch if epoch is None else epoch


def of_one_load(ctx: Context, epoch: int | None) -> range | None:
    """The epochs in which the same bytes are the same events as at this one: a full load that takes
    the place of all before it may repeat any file of what it replaces. None, all of them, where
    there is no such load: nobody has to look which file was loaded at which epoch."""
    begun = [one.epoch for one in ctx.pipeline.full_loads]
    if not begun:
        return None
    at = epoch_of(ctx, epoch)
    first = max((e for e in begun if e <= at), default=0)
    return range(first, min((e for e in begun if e > at), default=MAX_EPOCH + 1))


def told_apart(ctx: Context, epoch: int | None) -> int | None:
    """An epoch where it is not the pipeline's own, or else None."""
    return None if epoch == ctx.pipeline.epoch else epoch


def arrivals(ctx: Context, rows: Iterable[FileRow]) -> dict[tuple[str, str], str]:
    """The place of each file of the batches that these rows are of, by batch and key."""
    batches = sorted({row.batch_id for row in rows})
    keys = {batch: ctx.files.manifest_key(ctx.pipeline.name, batch) for batch in batches}
    return {
        (batch, file.key): file.arrival
        for batch, key in keys.items()
        for file in ctx.files.read_manifest(key).files
    }
