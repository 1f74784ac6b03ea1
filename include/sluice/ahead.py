"""Some tables read for themselves: batches of files that stay free, or are loaded already.

Events that are in a table already count as duplicates, so files may be read for one table as often
as anybody likes: to fill a table that was added to `tables:`, before or after the files were loaded
for the others. Nothing is claimed; the next run takes a free file whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sluice import ledger as states
from sluice.context import Context
from sluice.land import Window, chunks, inspect_all, open_landing, selected
from sluice.leases import Lease
from sluice.manifest import Manifest, name_by_content
from sluice.tablechoice import only


def land_tables(
    ctx: Context,
    tables: Sequence[str],
    window: Window | None = None,
    until: datetime | None = None,
    files: list[str] | None = None,
    lease: Lease | None = None,
) -> list[str]:
    """Make batches of the files that are asked for, for these tables; returns the manifests' keys.

    Without a window and without files: of all that has landed. A batch of the same files and
    tables that is published is not made again. Raises ConfigError for a table that the pipeline
    does not list.
    """
    names = tuple(sorted(set(tables)))
    only(ctx.pipeline, names)
    store = open_landing(ctx)
    found = selected(ctx, store, window, until, files)
    made = []
    for chunk in chunks(ctx, found):
        looks = inspect_all(ctx, store, chunk, named=files is not None)
        whole = tuple(look.file for _, look in looks)
        # What landing rejected is told by the batch that takes the file.
        manifest = Manifest(ctx.pipeline.name, "", whole, tables=names)
        key = _record(ctx, replace(manifest, batch_id=name_by_content(manifest)), lease)
        made += [key] if key else []
    return made


def told_tables(manifest: Manifest) -> dict[str, list[str]]:
    """What the ledger keeps of a batch that is for some tables; nothing for any other."""
    return {"tables": list(manifest.tables)} if manifest.tables else {}


def _record(ctx: Context, manifest: Manifest, lease: Lease | None) -> str:
    row = ctx.ledger.batch(manifest.pipeline, manifest.batch_id)
    if row is not None and row.state == states.PUBLISHED:
        ctx.say(f"land: batch {manifest.batch_id} has read these files for these tables already")
        return ""
    key = ctx.files.write_manifest(manifest)
    if row is None or row.state == states.ROLLED_BACK:
        ctx.ledger.record_batch(
            manifest.pipeline, manifest.batch_id, states.LANDED, manifest=key, lease=lease,
            detail=told_tables(manifest),
        )  # fmt: skip
    listed = ", ".join(manifest.tables)
    ctx.say(f"land: batch {manifest.batch_id}, {len(manifest.files)} files for {listed} alone")
    return key
