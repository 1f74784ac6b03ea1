"""Files that landing took for whole and that Spark cannot read: looked into to the last record.

Landing walks containers along their frames, for to decode them in Python would cost more than the
load. So a damaged value inside a whole frame shows first when Spark reads it. Then the batch's
containers are decoded once: what cannot be is a reject of landing, the rest is read from a copy.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from sluice.containers import datums
from sluice.landing.reading import reading_of
from sluice.manifest import LandingReject, Manifest, SourceFile
from sluice.operations.context import open_context
from sluice.operations.land import inspect_all
from sluice.operations.selection import open_landing

_UNREAD: Final = "FAILED_READ_FILE"
"""Spark's error class for whatever ends the reading of a file, be it the store or the bytes."""


def is_of_a_file(error: Exception) -> bool:
    """Whether Spark ended for a file that it could not read."""
    return _UNREAD in str(error)


def without_damage(project: Path, manifest: Manifest, prefix: str) -> Manifest | None:
    """The manifest with the damaged places of its files among its rejects; None where none is.

    Copies of what is whole go below `prefix`.
    """
    typed = {f.key for f in manifest.files if datums.is_container(f)}
    ctx = open_context(project, manifest.pipeline)
    store = open_landing(ctx)
    listed = [o for o in store.list(ctx.pipeline.landing.pattern) if o.key in typed]
    reading = replace(reading_of(ctx.pipeline), thorough=True)
    seen = inspect_all(ctx, store, listed, named=True, prefix=prefix, reading=reading)
    known = set(manifest.rejects)
    found = {one.look.file.key: one.look for one in seen if set(one.look.rejects) - known}
    if not found:
        return None
    files = [_in_place_of(f, found[f.key].file) if f.key in found else f for f in manifest.files]
    rejects: list[LandingReject] = [r for r in manifest.rejects if r.key not in found]
    rejects += [reject for look in found.values() for reject in look.rejects]
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
