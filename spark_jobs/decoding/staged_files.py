"""Staged files that a driver makes: of damaged landed files, and where the staged one is gone.

Landing only walks the frames of a container, since decoding it in Python would cost more than the
load. A damaged value inside an intact frame therefore shows up first when Spark reads it. The
batch's containers are then decoded once: undecodable records become rejects of landing, and Spark
reads the rest from a staged file.

A staged file is kept while a batch in the ledger may read it. A landing that staged a file before
claiming it may find that gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from sluice.containers import datums
from sluice.landing.inspection import Inspection
from sluice.landing.reading import Reading, reading_of
from sluice.manifest import LandingReject, Manifest, SourceFile
from sluice.objects.originals import OTHER_BYTES, refuse_replaced, replaced
from sluice.operations.context import Context
from sluice.operations.inspecting import Inspecting
from sluice.operations.selection import open_landing

_UNREAD: Final = "FAILED_READ_FILE"
"""Spark's error class for any failure to read a file, by the store or by the bytes."""


def is_of_a_file(error: Exception) -> bool:
    """Whether Spark failed because it could not read a file."""
    return _UNREAD in str(error)


def without_damage(ctx: Context, manifest: Manifest, prefix: str) -> Manifest | None:
    """Return the manifest with damaged records among its rejects; None if nothing is damaged.

    The intact records are staged below `prefix`.
    """
    typed = {f.key for f in manifest.files if datums.is_container(f)}
    thorough = replace(reading_of(ctx.pipeline), thorough=True)
    known = set(manifest.rejects)
    inspections = _inspected(ctx, manifest, typed, prefix, thorough)
    found = {key: one for key, one in inspections.items() if set(one.rejects) - known}
    return _with(manifest, found) if found else None


def with_staged_files(ctx: Context, manifest: Manifest, prefix: str) -> Manifest:
    """Return the manifest with new staged files, below `prefix`, in place of those that are gone.

    Raises TerminalError if such a file is gone too, or differs from the landed bytes.
    """
    lost = _lost(ctx, manifest, prefix)
    if not lost:
        return manifest
    landed = tuple(replace(file, staged=False) for file in lost)
    refuse_replaced(ctx.pipeline, replace(manifest, files=landed))
    keys = {file.key for file in lost}
    return _with(manifest, _inspected(ctx, manifest, keys, prefix, reading_of(ctx.pipeline)))


def _lost(ctx: Context, manifest: Manifest, prefix: str) -> list[SourceFile]:
    own = ctx.files.store.url(prefix)
    staged = [file for file in manifest.files if file.staged and not file.url.startswith(own)]
    there = ctx.files.staged_there(ctx.pipeline.name) if staged else set()
    return [f for f in staged if ctx.files.staged_key(ctx.pipeline.name, f) not in there]


def _inspected(
    ctx: Context, manifest: Manifest, keys: Collection[str], prefix: str, reading: Reading
) -> dict[str, Inspection]:
    """Inspect some of the batch's files again; raise TerminalError for one whose bytes differ."""
    store = open_landing(ctx)
    listed = [o for o in store.list(ctx.pipeline.landing.pattern) if o.key in keys]
    seen = Inspecting(ctx, store, named=True, prefix=prefix, reading=reading).all(listed)
    inspections = {one.inspection.file.key: one.inspection for one in seen}
    landed = {file.key: file.sha256 for file in manifest.files}
    if others := sorted(key for key, one in inspections.items() if one.file.sha256 != landed[key]):
        raise replaced(ctx.pipeline, manifest, [f"{key} {OTHER_BYTES}" for key in others])
    return inspections


def _with(manifest: Manifest, found: Mapping[str, Inspection]) -> Manifest:
    """Return the manifest with the results of a second inspection.

    A batch that does not claim its files leaves their rejects to the batch that does.
    """
    files = [_in_place_of(f, found[f.key].file) if f.key in found else f for f in manifest.files]
    if not manifest.reports_rejects:
        return replace(manifest, files=tuple(files))
    rejects: Iterable[LandingReject] = (
        *(reject for reject in manifest.rejects if reject.key not in found),
        *(reject for one in found.values() for reject in one.rejects),
    )
    return replace(manifest, files=tuple(files), rejects=tuple(rejects))


def _in_place_of(file: SourceFile, staged: SourceFile) -> SourceFile:
    """Return the landed file with the location and format of its staged file."""
    return replace(
        file,
        url=staged.url,
        staged=staged.staged,
        container=staged.container,
        avro_schema=staged.avro_schema,
    )
