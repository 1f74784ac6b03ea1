"""Copies of landed files that a driver makes for itself: of one with a damaged place, and of one
whose staged copy is gone.

Landing walks containers along their frames, for to decode them in Python would cost more than the
load. So a damaged value inside a whole frame shows first when Spark reads it. Then the batch's
containers are decoded once: what cannot be is a reject of landing, the rest is read from a copy.

A staged copy is there for as long as a batch that the ledger knows may read it. A landing that
made it before it had claimed the file may find it gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from sluice.containers import datums
from sluice.landing.landed import Inspection
from sluice.landing.reading import Reading, reading_of
from sluice.manifest import LandingReject, Manifest, SourceFile
from sluice.objects.originals import OTHER_BYTES, refuse_replaced, replaced
from sluice.operations.context import Context
from sluice.operations.land import inspect_all
from sluice.operations.selection import open_landing

_UNREAD: Final = "FAILED_READ_FILE"
"""Spark's error class for whatever ends the reading of a file, be it the store or the bytes."""


def is_of_a_file(error: Exception) -> bool:
    """Whether Spark ended for a file that it could not read."""
    return _UNREAD in str(error)


def without_damage(ctx: Context, manifest: Manifest, prefix: str) -> Manifest | None:
    """The manifest with the damaged places of its files among its rejects; None where none is.

    Copies of what is whole go below `prefix`.
    """
    typed = {f.key for f in manifest.files if datums.is_container(f)}
    thorough = replace(reading_of(ctx.pipeline), thorough=True)
    known = set(manifest.rejects)
    looks = _looked_into(ctx, manifest, typed, prefix, thorough)
    found = {key: look for key, look in looks.items() if set(look.rejects) - known}
    return _with(manifest, found) if found else None


def with_copies(ctx: Context, manifest: Manifest, prefix: str) -> Manifest:
    """The manifest with the copies below `prefix` of the files whose staged copy is gone.

    Raises TerminalError where such a file has other bytes than landed, or is gone too.
    """
    lost = _lost(ctx, manifest, prefix)
    if not lost:
        return manifest
    landed = tuple(replace(file, staged=False) for file in lost)
    refuse_replaced(ctx.pipeline, replace(manifest, files=landed))
    keys = {file.key for file in lost}
    return _with(manifest, _looked_into(ctx, manifest, keys, prefix, reading_of(ctx.pipeline)))


def _lost(ctx: Context, manifest: Manifest, prefix: str) -> list[SourceFile]:
    own = ctx.files.store.url(prefix)
    staged = [file for file in manifest.files if file.staged and not file.url.startswith(own)]
    there = ctx.files.copies_there(ctx.pipeline.name) if staged else set()
    return [f for f in staged if ctx.files.staged_key(ctx.pipeline.name, f) not in there]


def _looked_into(
    ctx: Context, manifest: Manifest, keys: Collection[str], prefix: str, reading: Reading
) -> dict[str, Inspection]:
    """Another look into some of the batch's files; raises TerminalError for one of other bytes."""
    store = open_landing(ctx)
    listed = [o for o in store.list(ctx.pipeline.landing.pattern) if o.key in keys]
    seen = inspect_all(ctx, store, listed, named=True, prefix=prefix, reading=reading)
    looks = {one.look.file.key: one.look for one in seen}
    landed = {file.key: file.sha256 for file in manifest.files}
    if others := sorted(key for key, look in looks.items() if look.file.sha256 != landed[key]):
        raise replaced(ctx.pipeline, manifest, [f"{key} {OTHER_BYTES}" for key in others])
    return looks


def _with(manifest: Manifest, found: Mapping[str, Inspection]) -> Manifest:
    """The manifest with what another look into some of its files found; the rejects are left to
    the batch that takes the files where this one takes none."""
    files = [_in_place_of(f, found[f.key].file) if f.key in found else f for f in manifest.files]
    if not manifest.tells_rejects:
        return replace(manifest, files=tuple(files))
    rejects: Iterable[LandingReject] = (
        *(reject for reject in manifest.rejects if reject.key not in found),
        *(reject for look in found.values() for reject in look.rejects),
    )
    return replace(manifest, files=tuple(files), rejects=tuple(rejects))


def _in_place_of(file: SourceFile, copy: SourceFile) -> SourceFile:
    """As landed, but for what is read of it."""
    return replace(
        file,
        url=copy.url,
        staged=copy.staged,
        container=copy.container,
        avro_schema=copy.avro_schema,
    )
