"""Batches for single tables: they read files that stay free, or that are loaded already.

Events that a table has already count as duplicates, so files may be read for one table any number
of times: to fill a table that was added to `tables:`, before or after the files were loaded for the
others. Nothing is claimed; the next run takes a free file for all tables.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from sluice.config.table_choice import only
from sluice.counting import counted
from sluice.escaping import shown
from sluice.landing.table_folders import content_of
from sluice.ledger import details, states
from sluice.ledger.claims import ContentKey, fresh_content, is_free, may_be_replaced
from sluice.ledger.leases import Lease
from sluice.ledger.rows import FileRow
from sluice.ledger.states import FILE_HELD, FILE_LOADED
from sluice.manifest import Manifest, SourceFile, name_by_content
from sluice.objects.store import ObjectStore, StoredObject, is_same_object
from sluice.operations.claim import Inspected, record_landed
from sluice.operations.context import Context, say_of_files
from sluice.operations.inspecting import Inspecting
from sluice.operations.loaded_files import arrivals, epochs_of_same_load, other_epoch
from sluice.operations.quiet_period import without_young
from sluice.operations.selection import Selection, open_landing, selected
from sluice.operations.unreadable_files import UnreadableFiles


class Unread(Enum):
    """Why a run for some tables does not read an object: a release, or a run for all tables, has to
    come first."""

    HELD = auto()
    CHANGED = auto()


@dataclass(frozen=True)
class KnownFiles:
    """What the ledger has of a pipeline's files.

    `rows`: the newest of each object, by key. `replaced_keys`: those whose loaded object a batch
    has replaced. `contents`: of what is claimed, loaded or held in the present load, by
    `content_key`; those of the batches of this run are added.
    """

    rows: Mapping[str, FileRow]
    replaced_keys: Container[str]
    contents: set[str]
    content_key: ContentKey

    def is_free(self, key: str) -> bool:
        """Whether no batch has the object."""
        return is_free(self.rows.get(key))

    def why_unread(self, found: StoredObject) -> Unread | None:
        """Return why a run may not read the object; None if it may.

        The object that replaced a loaded one is read only after it is loaded itself, at its own
        place and epoch. An object that may still have the bytes of the loaded one, as a copy in
        another landing place has, is compared when it is read.
        """
        row = self.rows.get(found.key)
        pending = row is not None and row.state != FILE_LOADED and found.key in self.replaced_keys
        if row is None or (is_free(row) and not pending):
            return None
        if row.state == FILE_HELD:
            return Unread.HELD
        if pending or (not is_same_object(found, row) and not _may_have_its_bytes(found, row)):
            return Unread.CHANGED
        return None

    def is_decided_by_bytes(self, found: StoredObject) -> bool:
        """Whether an object may still be left out when it is read: as a copy of another one, or
        with other bytes than were loaded."""
        row = self.rows.get(found.key)
        return row is None or is_free(row) or not is_same_object(found, row)

    def has_bytes_of(self, file: SourceFile) -> bool:
        """Whether a file has the bytes that were loaded under its name; True if none were."""
        row = self.rows.get(file.key)
        return row is None or not may_be_replaced(file, row) or file.sha256 == row.sha256

    def take_originals(self, files: tuple[SourceFile, ...]) -> tuple[SourceFile, ...]:
        """Return the files without copies of another object, as landing does, and count theirs
        among the known contents."""
        free = tuple(file for file in files if self.is_free(file.key))
        copies = set(free) - set(fresh_content(free, self.contents, self.content_key))
        return tuple(file for file in files if file not in copies)


def table_candidates(ctx: Context, selection: Selection) -> list[StoredObject]:
    """Return the objects that `land_tables` would read; the others are reported."""
    return _readable(ctx, open_landing(ctx), selection, known_files(ctx))


def land_tables(
    ctx: Context,
    selection: Selection,
    unreadable: UnreadableFiles,
    lease: Lease | None = None,
) -> list[str]:
    """Make batches of the selected files for the selected tables; return the manifests' keys.

    Without a window and without files, all landed files are read. No batch is made if one of the
    same files and tables is published. `unreadable` and `lease` are as for `land`. Raises
    ConfigError for a table that the pipeline does not list.
    """
    names = tuple(sorted(set(selection.tables)))
    only(ctx.pipeline, names)
    store = open_landing(ctx)
    known = known_files(ctx)
    found = _readable(ctx, store, selection, known)
    inspecting = Inspecting(ctx, store, bool(selection.files), unreadable)
    made = []
    for epoch, objects in _by_epoch(ctx, found, known):
        for inspected in inspecting.batches(objects):
            manifest = _batch(ctx, names, epoch, inspected, known)
            key = _record(ctx, manifest, lease)
            made += [key] if key else []
            left_out = {one.inspection.file for one in inspected} - set(manifest.files)
            _say_moved(ctx, store, left_out, known)
    unreadable.raise_if_store_is_away()
    return made


def known_files(ctx: Context) -> KnownFiles:
    """Return what the ledger has of the pipeline's files now."""
    files, content = ctx.ledger.files, content_of(ctx.pipeline)
    return KnownFiles(
        rows=files.known(),
        replaced_keys={row.object_key for row in files.replaced()},
        contents=files.known_contents(content, epochs=epochs_of_same_load(ctx, None)),
        content_key=content,
    )


def _batch(
    ctx: Context,
    names: tuple[str, ...],
    epoch: int | None,
    inspected: list[Inspected],
    known: KnownFiles,
) -> Manifest:
    """Return the manifest of some files for the tables `names`; its id depends on the targets."""
    landed = [one.inspection.file for one in inspected]
    same = [file for file in landed if known.has_bytes_of(file)]
    other = (file for file in landed if not known.has_bytes_of(file))
    say_of_files(ctx, (_changed_message(ctx, known.rows[file.key]) for file in other))
    files = known.take_originals(_at_their_places(ctx, same, known))
    # Without rejects: the batch that claims the file reports them.
    manifest = Manifest(ctx.pipeline.name, "", files, tables=names, epoch=epoch)
    into = (ctx.pipeline.namespace, ctx.pipeline.table_name)
    return replace(manifest, batch_id=name_by_content(manifest, *into))


def _readable(
    ctx: Context, store: ObjectStore, selection: Selection, known: KnownFiles
) -> list[StoredObject]:
    """Return the selected objects that a run may read; the others are reported."""
    objects = without_young(ctx, selection, selected(ctx, store, selection), known.rows)
    unread = {one.key: why for one in objects if (why := known.why_unread(one))}
    say_of_files(ctx, (_message(ctx, known.rows[key], why) for key, why in unread.items()))
    return [one for one in objects if one.key not in unread]


def _may_have_its_bytes(found: StoredObject, row: FileRow) -> bool:
    return row.state == FILE_LOADED and found.size == row.size


def _message(ctx: Context, row: FileRow, why: Unread) -> str:
    if why is Unread.HELD:
        return f"land: {row.object_key} of batch {row.batch_id} is held: it is not read"
    return _changed_message(ctx, row)


def _changed_message(ctx: Context, row: FileRow) -> str:
    return (
        f"land: {row.object_key} of batch {row.batch_id} has changed since it was loaded: it is "
        f"not read before it is loaded itself (sluice run {ctx.pipeline.name} --changed)"
    )


def _by_epoch(
    ctx: Context, found: list[StoredObject], known: KnownFiles
) -> Iterator[tuple[int | None, list[StoredObject]]]:
    """Group objects by epoch: a loaded file keeps that of its batch; None is the pipeline's own."""
    at = ctx.ledger.batches.epochs()
    groups: dict[int | None, list[StoredObject]] = {}
    for one in found:
        row = known.rows.get(one.key)
        epoch = None if row is None or row.state != FILE_LOADED else at.get(row.batch_id)
        groups.setdefault(other_epoch(ctx, epoch), []).append(one)
    yield from groups.items()


def _at_their_places(
    ctx: Context, files: list[SourceFile], known: KnownFiles
) -> tuple[SourceFile, ...]:
    """Return the files; loaded ones keep their place in the order of arrival."""
    keys = {file.key for file in files}
    rows = [row for key, row in known.rows.items() if key in keys and row.state == FILE_LOADED]
    stored, batches = arrivals(ctx, rows), {row.object_key: row.batch_id for row in rows}
    places = {key: stored.get((batch, key), "") for key, batch in batches.items()}
    return tuple(replace(f, arrival=places.get(f.key) or f.arrival) for f in files)


def _say_moved(
    ctx: Context, store: ObjectStore, left_out: Collection[SourceFile], known: KnownFiles
) -> None:
    """Report copies of loaded files that are gone, as after a move inside the landing folder."""
    content = known.content_key
    copies = [file for file in left_out if known.is_free(file.key)]
    listed = {one.key for one in store.list(ctx.pipeline.landing.pattern)} if copies else set()
    gone = (r for r in known.rows.values() if r.state == FILE_LOADED and r.object_key not in listed)
    names = {content(row.object_key, row.sha256): row.object_key for row in gone if copies}
    before = {f.key: names[c] for f in copies if (c := content(f.key, f.sha256)) in names}
    if before:
        moved = min(before)
        ctx.say(
            f"land: not read: {counted(len(before), 'file')}, such as {shown(moved)}, with the "
            f"bytes of loaded files that are gone, such as {shown(before[moved])}: where they were "
            "moved, move them back for this run"
        )


def _record(ctx: Context, manifest: Manifest, lease: Lease | None) -> str:
    if not manifest.files:
        return ""
    row = ctx.ledger.batches.get(manifest.batch_id)
    if row is not None and row.state == states.PUBLISHED:
        ctx.say(f"land: batch {manifest.batch_id} has read these files for these tables already")
        return ""
    key = record_landed(ctx, manifest, details.of_tables(manifest), lease)
    listed = ", ".join(manifest.tables)
    files = counted(len(manifest.files), "file")
    ctx.say(f"land: batch {manifest.batch_id}, {files} for {listed} alone")
    return key
