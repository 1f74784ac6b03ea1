"""Whether a batch still has a point, when what it was built on is undone since it was made."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.ledger import ledger as states
from sluice.ledger.rows import CLOSED
from sluice.manifest import Manifest
from sluice.operations.context import Context
from sluice.operations.deadletters import resolutions


def pointless(ctx: Context, manifest: Manifest) -> str:
    """Why a batch that is not published must not be loaded, in words; empty where it may be.

    A batch that reads or undoes what another one brought is undone with it: loaded later, it would
    bring back what an operator took out.
    """
    return next(_reasons(ctx, manifest), "")


def _reasons(ctx: Context, manifest: Manifest) -> Iterator[str]:
    if manifest.rebuild is not None:
        gone = set(manifest.rebuild.without) - ctx.ledger.published_batches(ctx.pipeline.name)
        if gone:
            yield f"was to undo {', '.join(sorted(gone))}, which is done"
    elif manifest.share_of:
        yield from (f"is a share of {told}" for told in _undone(ctx, manifest.share_of))
    elif manifest.reprocess is not None:
        for batch_id in manifest.reprocess.batches:
            yield from (f"reads records of {told}" for told in _undone(ctx, batch_id))
        yield from _resolved(ctx, manifest)
    elif manifest.tables:
        yield from _held(ctx, manifest)


def _undone(ctx: Context, batch_id: str) -> Iterator[str]:
    row = ctx.ledger.batch(ctx.pipeline.name, batch_id)
    if row is not None and row.state in CLOSED - {states.PUBLISHED}:
        yield f"{batch_id}, which is rolled back"


def _resolved(ctx: Context, manifest: Manifest) -> Iterator[str]:
    """Two that read the same records again would count them twice, where a table has no key."""
    resolved = resolutions(ctx.ledger.batches(ctx.pipeline.name))
    for batch_id in manifest.reprocess.batches if manifest.reprocess is not None else ():
        if resolved.get(batch_id, manifest.batch_id) != manifest.batch_id:
            yield f"reads records of {batch_id}, which {resolved[batch_id]} has resolved"


def _held(ctx: Context, manifest: Manifest) -> Iterator[str]:
    known = ctx.ledger.known_files(ctx.pipeline.name)
    for file in manifest.files:
        if file.key in known and known[file.key].state == states.FILE_HELD:
            yield f"reads files of {known[file.key].batch_id}, which is rolled back"
