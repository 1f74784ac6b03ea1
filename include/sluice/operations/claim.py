"""Claims: only one run gets a batch's files, and writes its manifest and its row in the ledger."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.counting import counted
from sluice.faults import Point, reach
from sluice.landing.inspection import Inspection
from sluice.landing.table_folders import content_of
from sluice.ledger import states
from sluice.ledger.claims import Claim, ClaimRequest
from sluice.ledger.leases import Lease
from sluice.ledger.rows import FileRow, may_land, seq_of
from sluice.manifest import LandingReject, Manifest, SourceFile, name_batch, name_by_content
from sluice.objects.store import StoredObject
from sluice.operations.context import Context
from sluice.operations.loaded_files import epochs_of_same_load
from sluice.operations.sweep import defer_to_maintenance, delete_staged


@dataclass(frozen=True)
class Inspected:
    """A landed object and the result of its inspection."""

    object: StoredObject
    inspection: Inspection


def claim(
    ctx: Context,
    inspected: list[Inspected],
    lease: Lease | None,
    epoch: int | None,
    replaced: Container[FileRow],
) -> str:
    """Make a batch of the files that no batch has, and return its manifest's key; "" if no file is
    left, or another run has taken the batch up.

    `replaced`: the ledger's rows of loaded objects that these files may replace, as they were read;
    those objects were loaded at `epoch`.
    """
    if not inspected:
        return ""
    reach(Point.LAND_STAGED)
    files = tuple(one.inspection.file for one in inspected)
    rejects = {one.inspection.file.key: one.inspection.rejects for one in inspected}
    manifests = _Manifests(ctx, rejects, epoch)
    request = ClaimRequest(
        files,
        manifests.write_and_name,
        content_key=content_of(ctx.pipeline),
        epochs=epochs_of_same_load(ctx, epoch),
        modified={one.object.key: one.object.modified for one in inspected},
        replaced=replaced,
    )
    claimed = ctx.ledger.files.claim(request)
    reach(Point.LAND_CLAIMED)
    _drop_unclaimed(ctx, set(files) - set(claimed.files))
    return _record(ctx, claimed, manifests.seqs[claimed.batch_id], lease) if claimed.files else ""


def record_landed(
    ctx: Context, manifest: Manifest, details: Mapping[str, Any], lease: Lease | None
) -> str:
    """Record that a batch which claims no files is landed; return its manifest's key.

    A batch that the ledger has stays as it is, unless it is rolled back.
    """
    key = ctx.files.write_manifest(manifest)
    reach(Point.LAND_MANIFEST)
    ctx.ledger.batches.record(
        manifest.batch_id, states.LANDED, manifest=key, lease=lease,
        replace_details=details, expected=may_land,
    )  # fmt: skip
    reach(Point.LAND_RECORDED)
    return key


def _drop_unclaimed(ctx: Context, files: Collection[SourceFile]) -> None:
    """Report the files that the batch did not get, and remove their staged files if no
    batch needs them."""
    for file in files:
        ctx.say(f"land: {file.key} is taken already, or the same bytes as another file")
    with defer_to_maintenance("land", ctx.say):
        delete_staged(ctx.files, ctx.ledger, files)


@dataclass(frozen=True)
class _Manifests:
    """Writes the manifest of a claim before each try to commit it; `seqs`: the `seq` that the row
    of each batch so named had then."""

    ctx: Context
    rejects: Mapping[str, tuple[LandingReject, ...]]
    epoch: int | None
    seqs: dict[str, int] = field(default_factory=dict)

    def write_and_name(self, won: tuple[SourceFile, ...]) -> str:
        manifest = self._write(won)
        self.seqs[manifest.batch_id] = seq_of(self.ctx.ledger.batches.get(manifest.batch_id))
        reach(Point.LAND_MANIFEST)
        return manifest.batch_id

    def _write(self, files: tuple[SourceFile, ...]) -> Manifest:
        name, rejects = self.ctx.pipeline.name, tuple(r for f in files for r in self.rejects[f.key])
        manifest = Manifest(name, name_batch(name, files), files, rejects, epoch=self.epoch)
        if not self.ctx.files.put_manifest(manifest):
            # The same objects were released, and are inspected with other options now: the earlier
            # manifest does not apply, so the new one gets another name.
            manifest = replace(manifest, batch_id=name_by_content(manifest))
            self.ctx.files.write_manifest(manifest)
        return manifest


def _record(ctx: Context, claimed: Claim, seq: int, lease: Lease | None) -> str:
    """Record that the batch is landed; return its manifest's key, or "" if its row changed since it
    had this `seq`.

    If this run took long after its claim, another one may have taken the batch up as abandoned.
    """
    batch_id, won = claimed
    key = ctx.files.manifest_key(ctx.pipeline.name, batch_id)
    landed = ctx.ledger.batches.record(
        batch_id, states.LANDED, manifest=key, lease=lease,
        expected=lambda now: may_land(now) and seq_of(now) == seq,
    )  # fmt: skip
    reach(Point.LAND_RECORDED)
    if not landed:
        ctx.say(f"land: batch {batch_id} was taken up by another run")
        return ""
    ctx.say(
        f"land: batch {batch_id}, {counted(len(won), 'file')}, {sum(f.size for f in won):,} bytes"
    )
    return key
