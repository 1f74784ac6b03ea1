"""Whether an unpublished batch is obsolete: a batch that it depends on was undone
since it was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sluice.errors import RollbackRefusedError
from sluice.ledger import states
from sluice.manifest import Manifest, Reprocess
from sluice.objects.originals import differing
from sluice.operations.context import Context
from sluice.operations.in_use import refuse_in_use
from sluice.operations.published_batches import must_complete, present_batches
from sluice.operations.quarantined import resolutions
from sluice.operations.selection import refuse_missing_folder

_UNDONE: Final = frozenset({states.ROLLING_BACK, states.ROLLED_BACK})


def why_obsolete(ctx: Context, manifest: Manifest) -> str:
    """Return why an unpublished batch must not be loaded any more; "" if it may be.

    Loaded later, it would bring back records that an operator removed, or count some twice.
    """
    return next(_reasons(ctx, manifest), "")


def _reasons(ctx: Context, manifest: Manifest) -> Iterator[str]:
    if manifest.rebuild is not None:
        yield from _undone_or_in_use(ctx, manifest.batch_id, manifest.undone)
    elif manifest.share_of:
        row = ctx.ledger.batches.get(manifest.share_of)
        if row is not None and row.state in _UNDONE:
            yield f"is a share of {manifest.share_of}, which is rolled back"
    elif manifest.reprocess is not None:
        yield from _repeated(ctx, manifest.batch_id, manifest.reprocess)
    elif manifest.tables:
        yield from _files_undone(ctx, manifest)


def _undone_or_in_use(ctx: Context, own: str, without: tuple[str, ...]) -> Iterator[str]:
    """Yield a reason if a batch to undo is gone already, or other batches depend on it by now.

    A batch that undoes others may be loaded long after it was requested. One that has begun to
    delete their changes is always completed: the batches that are gone, it undid itself.
    """
    row = ctx.ledger.batches.get(own)
    if row is not None and must_complete(ctx, row):
        return
    if gone := set(without) - present_batches(ctx):
        yield f"was to undo {', '.join(sorted(gone))}, which is done"
    elif without:
        try:
            refuse_in_use(ctx, [*without, own])
        except RollbackRefusedError as refused:
            yield f"was to undo {', '.join(without)}, and {refused}"


def _repeated(ctx: Context, own: str, again: Reprocess) -> Iterator[str]:
    """Yield a reason for each batch whose records were undone, or reprocessed by another batch.

    Two batches that read the same records again would count them twice in a table without a key.
    """
    rows = ctx.ledger.batches.all()
    undone = {row.batch_id for row in rows if row.state in _UNDONE}
    resolved = resolutions(rows)
    for batch_id in again.batches:
        if batch_id in undone:
            yield f"reads records of {batch_id}, which is rolled back"
        elif resolved.get(batch_id, own) != own:
            yield f"reads records of {batch_id}, which {resolved[batch_id]} has resolved"


def _files_undone(ctx: Context, manifest: Manifest) -> Iterator[str]:
    """Yield a reason for each file that was rolled back since another batch read it too.

    A released file is read again as long as it is what it was: an operator may have deleted it, or
    put the right one in its place, and what landing staged of it is still there.
    """
    files = {file.key: file for file in manifest.files}
    rows = ctx.ledger.files.of_keys(files)
    for row in rows:
        if row.state == states.FILE_HELD:
            yield f"reads files of {row.batch_id}, which is rolled back"
        elif row.state != states.FILE_RELEASED and row.sha256 != files[row.object_key].sha256:
            yield f"reads other bytes of {row.object_key} than batch {row.batch_id}"
    released = [files[row.object_key] for row in rows if row.state == states.FILE_RELEASED]
    if not released:
        return
    refuse_missing_folder(ctx)  # else each of its files would count as deleted
    if wrong := differing(ctx.pipeline, released):
        yield f"reads files that were rolled back and released: {'; '.join(wrong[:5])}"
