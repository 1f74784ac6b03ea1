"""claim: a batch's manifest, its files in the ledger, and the batch itself, by one run alone."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, replace

from sluice.faults import Point, reach
from sluice.landing.landed import Inspection
from sluice.landing.table_folders import content_of
from sluice.ledger import rows as states
from sluice.ledger.leases import Lease
from sluice.ledger.rows import FileRow, landed_anew, seq_of
from sluice.manifest import LandingReject, Manifest, SourceFile, name_batch, name_by_content
from sluice.objects.store import StoredObject
from sluice.operations.context import Context
from sluice.operations.loaded_files import of_one_load
from sluice.operations.sweep import forget_copies, left_to_maintenance


@dataclass(frozen=True)
class Inspected:
    """An object that has landed, and what a look into it told."""

    object: StoredObject
    look: Inspection


def claim(
    ctx: Context,
    inspected: list[Inspected],
    lease: Lease | None,
    epoch: int | None = None,
    replaced: Container[FileRow] = (),
) -> str:
    """Make a batch of the files that nobody has; returns its manifest's key, "" where none is left
    or another run has taken the batch up.

    `replaced`: what the ledger has of objects whose place others may take, as it was seen; they
    were loaded at `epoch`.
    """
    if not inspected:
        return ""
    reach(Point.LAND_STAGED)
    rejects = {one.look.file.key: one.look.rejects for one in inspected}
    files = tuple(one.look.file for one in inspected)
    seen: dict[str, int] = {}

    def fix(won: tuple[SourceFile, ...]) -> str:
        rejected = tuple(r for f in won for r in rejects[f.key])
        manifest = _write_manifest(ctx, won, rejected, epoch)
        seen[manifest.batch_id] = seq_of(ctx.ledger.batch(ctx.pipeline.name, manifest.batch_id))
        reach(Point.LAND_MANIFEST)
        return manifest.batch_id

    batch_id, won = ctx.ledger.claim_files(
        ctx.pipeline.name, files, fix,
        once_by=content_of(ctx.pipeline), epochs=of_one_load(ctx, epoch),
        modified={one.object.key: one.object.modified for one in inspected}, replaced=replaced,
    )  # fmt: skip
    reach(Point.LAND_CLAIMED)
    _leave(ctx, set(files) - set(won))
    return _record(ctx, batch_id, won, seen[batch_id], lease) if batch_id else ""


def _leave(ctx: Context, files: Collection[SourceFile]) -> None:
    """Say which files are not this batch's, and remove the copies that nobody needs of them."""
    for file in files:
        ctx.say(f"land: {file.key} is taken already, or the same bytes as another file")
    with left_to_maintenance("land", ctx.say):
        forget_copies(ctx.files, ctx.ledger, ctx.pipeline.name, files)


def _write_manifest(
    ctx: Context,
    files: tuple[SourceFile, ...],
    rejects: tuple[LandingReject, ...],
    epoch: int | None,
) -> Manifest:
    name = ctx.pipeline.name
    manifest = Manifest(name, name_batch(name, files), files, rejects, epoch=epoch)
    if not ctx.files.fix_manifest(manifest):
        # The same objects, released and read in another way: what was fixed then is not theirs.
        manifest = replace(manifest, batch_id=name_by_content(manifest))
        ctx.files.write_manifest(manifest)
    return manifest


def _record(
    ctx: Context, batch_id: str, won: tuple[SourceFile, ...], seen: int, lease: Lease | None
) -> str:
    """Say that the batch is landed, unless it was taken up since it was `seen`: one that took long
    after its claim looks dead."""
    key = ctx.files.manifest_key(ctx.pipeline.name, batch_id)
    mine = ctx.ledger.record_batch(
        ctx.pipeline.name, batch_id, states.LANDED, manifest=key, lease=lease,
        expected=lambda now: landed_anew(now) and seq_of(now) == seen,
    )  # fmt: skip
    reach(Point.LAND_RECORDED)
    if not mine:
        ctx.say(f"land: batch {batch_id} was taken up by another run")
        return ""
    ctx.say(f"land: batch {batch_id}, {len(won)} files, {sum(f.size for f in won):,} bytes")
    return key
