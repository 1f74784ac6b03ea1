"""Some tables read for themselves: batches of files that stay free, or are loaded already.

Events that are in a table already count as duplicates, so files may be read for one table as often
as anybody likes: to fill a table that was added to `tables:`, before or after the files were loaded
for the others. Nothing is claimed; the next run takes a free file whole.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from sluice.config.table_choice import only
from sluice.landing.table_folders import content_of
from sluice.ledger import details
from sluice.ledger import rows as states
from sluice.ledger.claims import Content, fresh_content, is_free, is_replaced, may_be_replaced
from sluice.ledger.leases import Lease
from sluice.ledger.rows import FILE_HELD, FILE_LOADED, FileRow, landed_anew
from sluice.manifest import Manifest, SourceFile, name_by_content
from sluice.objects.store import StoredObject
from sluice.operations.claim import Inspected
from sluice.operations.context import Context
from sluice.operations.denied import Denied, files_left_out
from sluice.operations.land import batches_of
from sluice.operations.loaded_files import arrivals, of_one_load, told_apart
from sluice.operations.selection import EVERYTHING, Selection, open_landing, selected


def land_tables(
    ctx: Context,
    tables: Sequence[str],
    asked: Selection = EVERYTHING,
    lease: Lease | None = None,
    denied: Denied | None = None,
) -> list[str]:
    """Make batches of the files that are asked for, for these tables; returns the manifests' keys.

    Without a window and without files: of all that has landed. A batch of the same files and
    tables that is published is not made again. `denied`: as for `land`. Raises ConfigError for a
    table that the pipeline does not list.
    """
    names = tuple(sorted(set(tables)))
    only(ctx.pipeline, names)
    store = open_landing(ctx)
    known = ctx.ledger.known_files(ctx.pipeline.name)
    before = {row.object_key for row in ctx.ledger.replaced_files(ctx.pipeline.name)}
    found = [o for o in selected(ctx, store, asked) if _may_be_read(ctx, o, known, before)]
    seen = ctx.ledger.known_contents(
        ctx.pipeline.name, content_of(ctx.pipeline), of_one_load(ctx, None)
    )
    refused = Denied() if denied is None else denied
    made = []
    for epoch, objects in _by_epoch(ctx, found, known):
        for looks in batches_of(ctx, store, objects, bool(asked.files), refused):
            key = _record(ctx, _batch(ctx, names, epoch, looks, known, seen), lease)
            made += [key] if key else []
    refused.refuse_silence()
    if denied is None and (error := files_left_out(ctx.pipeline.name, refused)):
        raise error
    return made


def _batch(
    ctx: Context,
    names: tuple[str, ...],
    epoch: int | None,
    looks: list[Inspected],
    known: Mapping[str, FileRow],
    seen: set[str],
) -> Manifest:
    """The batch of some files, for the tables `names` alone: into other targets it is another."""
    same = [one.look.file for one in looks if _has_its_bytes(ctx, one.look.file, known)]
    whole = _at_their_places(ctx, same, known)
    files = _originals(whole, known, seen, content_of(ctx.pipeline))
    # What landing rejected is told by the batch that takes the file.
    manifest = Manifest(ctx.pipeline.name, "", files, tables=names, epoch=epoch)
    into = (ctx.pipeline.namespace, ctx.pipeline.table_name)
    return replace(manifest, batch_id=name_by_content(manifest, *into))


def _may_be_read(
    ctx: Context, found: StoredObject, known: Mapping[str, FileRow], before: Container[str]
) -> bool:
    """Not what is held, nor what was replaced since it was loaded: no run reads that.

    `before`: the keys whose loaded object another one has the place of: that is read once it is
    loaded itself, at the place and the epoch that it has then. One that may have the bytes of the
    loaded one still, as a copy in another landing place has, is asked for them when it is read.
    """
    row = known.get(found.key)
    pending = row is not None and row.state != FILE_LOADED and found.key in before
    if row is None or (is_free(row) and not pending):
        return True
    if pending or (is_replaced(found, row) and not _may_have_its_bytes(found, row)):
        _say_changed(ctx, row)
        return False
    if row.state == FILE_HELD:
        ctx.say(f"land: {found.key} of batch {row.batch_id} is held: it is not read")
        return False
    return True


def _may_have_its_bytes(found: StoredObject, row: FileRow) -> bool:
    return row.state == FILE_LOADED and found.size == row.size


def _has_its_bytes(ctx: Context, file: SourceFile, known: Mapping[str, FileRow]) -> bool:
    """Whether a file of a loaded one's name brings what was loaded."""
    row = known.get(file.key)
    if row is None or not may_be_replaced(file, row) or file.sha256 == row.sha256:
        return True
    _say_changed(ctx, row)
    return False


def _say_changed(ctx: Context, row: FileRow) -> None:
    ctx.say(
        f"land: {row.object_key} of batch {row.batch_id} has changed since it was loaded: it is "
        f"not read before it is loaded itself (sluice run {ctx.pipeline.name} --changed)"
    )


def _by_epoch(
    ctx: Context, found: list[StoredObject], known: Mapping[str, FileRow]
) -> Iterator[tuple[int | None, list[StoredObject]]]:
    """Files that are loaded keep the epoch that their events have; None: the pipeline's own."""
    at = ctx.ledger.epochs(ctx.pipeline.name)
    groups: dict[int | None, list[StoredObject]] = {}
    for one in found:
        row = known.get(one.key)
        epoch = None if row is None or row.state != FILE_LOADED else at.get(row.batch_id)
        groups.setdefault(told_apart(ctx, epoch), []).append(one)
    yield from groups.items()


def _at_their_places(
    ctx: Context, files: list[SourceFile], known: Mapping[str, FileRow]
) -> tuple[SourceFile, ...]:
    """Files that are loaded keep the place in the order of arrival that their events have."""
    keys = {file.key for file in files}
    rows = [row for key, row in known.items() if key in keys and row.state == FILE_LOADED]
    told, batches = arrivals(ctx, rows), {row.object_key: row.batch_id for row in rows}
    places = {key: told.get((batch, key), "") for key, batch in batches.items()}
    return tuple(replace(f, arrival=places.get(f.key) or f.arrival) for f in files)


def _originals(
    files: tuple[SourceFile, ...], known: Mapping[str, FileRow], seen: set[str], content: Content
) -> tuple[SourceFile, ...]:
    """Without those that bring the bytes of another object, as when they are landed."""
    free = tuple(file for file in files if is_free(known.get(file.key)))
    copies = set(free) - set(fresh_content(free, seen, content))
    return tuple(file for file in files if file not in copies)


def _record(ctx: Context, manifest: Manifest, lease: Lease | None) -> str:
    if not manifest.files:
        return ""
    row = ctx.ledger.batch(manifest.pipeline, manifest.batch_id)
    if row is not None and row.state == states.PUBLISHED:
        ctx.say(f"land: batch {manifest.batch_id} has read these files for these tables already")
        return ""
    key = ctx.files.write_manifest(manifest)
    ctx.ledger.record_batch(
        manifest.pipeline, manifest.batch_id, states.LANDED, manifest=key, lease=lease,
        replace_details=details.of_tables(manifest), expected=landed_anew,
    )  # fmt: skip
    listed = ", ".join(manifest.tables)
    ctx.say(f"land: batch {manifest.batch_id}, {len(manifest.files)} files for {listed} alone")
    return key
