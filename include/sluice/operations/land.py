"""land: choose the files of a run, write them into manifests and claim them in the ledger.

A scheduled run takes every file before the end of its interval that the ledger does not know; a
window takes exactly its hours. If the files exceed a batch's limits, there are several batches, so
none is left over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC
from functools import partial
from itertools import islice
from typing import Final

from sluice.bounds import rejects_of_a_batch
from sluice.errors import SluiceError
from sluice.escaping import shown
from sluice.landing.inspection import Inspection, Inspector
from sluice.landing.reading import Reading, reading_of
from sluice.ledger.claims import is_free, may_be_replaced
from sluice.ledger.leases import Lease
from sluice.ledger.rows import FileRow
from sluice.ledger.states import FILE_CLAIMED
from sluice.objects.store import ObjectStore, StoredObject
from sluice.operations.ceilings import within_ceilings
from sluice.operations.changed import Group, grouped
from sluice.operations.claim import Inspected, claim
from sluice.operations.context import Context, say_of_files
from sluice.operations.selection import EVERYTHING, Selection, landed, open_landing, selected
from sluice.operations.unreadable_files import (
    UnreadableFiles,
    files_left_out,
    inspect_or_skip,
    with_retries,
)

INSPECTED_AT_ONCE: Final = 4
MOST_COUNTED: Final = 1000
UNREADABLE: Final = "unreadable_file"


def land(
    ctx: Context,
    selection: Selection = EVERYTHING,
    lease: Lease | None = None,
    unreadable: UnreadableFiles | None = None,
    changed: bool = False,
) -> list[str]:
    """Claim the files to load; return the manifests' keys, [] if nothing has landed.

    `changed`: also load objects that replaced loaded ones, in batches of their own. `lease`: taken
    for a caller that loads the batches at once, so that no other run takes them for abandoned.
    `unreadable`: collects the files that cannot be read; without it FilesLeftOutError or
    FilesUnreadError is raised for them once the others are claimed. If the store fails for all
    files, its error is raised.

    A file that is still being written, or that the store fails to return, is left to the next run;
    if it was requested by name, UnstableFileError or TransientError is raised.
    """
    store = open_landing(ctx)
    refused = UnreadableFiles() if unreadable is None else unreadable
    keys = []
    for group in to_take(ctx, selected(ctx, store, selection), changed):
        for inspected in batches_of(ctx, store, group.objects, bool(selection.files), refused):
            key = claim(ctx, group.placed(inspected), lease, group.epoch, group.replaced)
            keys += [key] if key else []
    refused.raise_if_store_is_away()
    if unreadable is None and (error := files_left_out(ctx.pipeline.name, refused)):
        raise error
    return keys


def candidates(
    ctx: Context, selection: Selection = EVERYTHING, changed: bool = False
) -> list[StoredObject]:
    """Return the objects that `land` would read now, without known copies of other files."""
    groups = to_take(ctx, landed(ctx, selection), changed)
    return [one for group in groups for one in group.objects]


def why_nothing(ctx: Context, selection: Selection = EVERYTHING) -> str:
    """Return why a run, for all landed files or for the selected ones, found nothing to load."""
    landing = ctx.pipeline.landing
    found = landed(ctx, selection)
    if selection.window and not found:
        return (
            f"no file in {landing.url} has an hour in the window that was asked for (UTC): that of "
            "dt=…/hr=… in its name, else of its last change"
        )
    if selection.until and not found and (later := landed(ctx)):
        return (
            f"all {len(later)} files in {landing.url}, such as {shown(later[0].key)}, have an hour "
            f"from {selection.until.astimezone(UTC):%Y-%m-%dT%H:%MZ} on"
        )
    if not found:
        return f"no file in {landing.url} matches {landing.pattern}; {_others(ctx)}"
    left = [*_held(ctx, found if selection.explicit else None), *_replaced(ctx, found)]
    if left:
        others = "that was asked for" if selection.explicit else f"of {landing.url}"
        return f"{', '.join(left)}, and every other one {others} is in the ledger already"
    if selection.explicit:
        return f"the {len(found)} files that were asked for are in the ledger already"
    return f"every landed file of {landing.url} is in the ledger already"


def _others(ctx: Context) -> str:
    """Describe the files of a landing folder of which none matches the pattern."""
    count, first = 0, ""
    for found in islice(open_landing(ctx).list(), MOST_COUNTED):
        count, first = count + 1, min(first or found.key, found.key)
    if not count:
        return "the folder is empty (names that begin with . or _ are skipped)"
    number = f"at least {count}" if count == MOST_COUNTED else str(count)
    are = "other file is" if count == 1 else "other files are"
    return f"{number} {are} there, such as {shown(first)}"


def _held(ctx: Context, requested: list[StoredObject] | None) -> Iterator[str]:
    """Describe the files whose batch was rolled back, among the requested ones or all."""
    keys = None if requested is None else {one.key for one in requested}
    rows = ctx.ledger.files.held()
    if held := sorted({row.batch_id for row in rows if keys is None or row.object_key in keys}):
        command = (
            f"sluice release {ctx.pipeline.name} --batch {held[0] if len(held) == 1 else 'ID'}"
        )
        yield f"files of {', '.join(held)} are held ({command})"


def _replaced(ctx: Context, found: list[StoredObject]) -> Iterator[str]:
    """Describe the objects that replaced loaded ones, or those of a batch under way."""
    found, known = ctx.ledger.files.unclaimed_or_changed(found)
    states = [(o.key, known[o.key].state) for o in found if o.key in known]
    if claimed := [key for key, state in states if state == FILE_CLAIMED]:
        yield (
            f"{len(claimed)} files, such as {shown(claimed[0])}, have changed since a batch that "
            f"is not published took them (sluice status {ctx.pipeline.name})"
        )
    keys = [o.key for o in found if o.key in known and may_be_replaced(o, known[o.key])]
    if keys:
        yield (
            f"{len(keys)} files, such as {shown(keys[0])}, have changed since files of their names "
            f"were loaded, and are left alone (sluice run {ctx.pipeline.name} --changed; where "
            "landing.url is another place now: docs/operations.md, Landing in another place)"
        )


def to_take(ctx: Context, objects: list[StoredObject], changed: bool) -> list[Group]:
    """Group the objects that no batch has and, with `changed`, those that replaced loaded ones."""
    taken, changes = [], []
    published = ctx.ledger.batches.published() if changed else set()
    left, known = ctx.ledger.files.unclaimed_or_changed(objects)
    for found in left:
        row = known.get(found.key)
        if row is None or is_free(row):
            taken.append(found)
            continue
        take = row.batch_id in published and may_be_replaced(found, row)
        changes.append(_changed(ctx, found, row, take))
        taken += [found] if take else []
    say_of_files(ctx, changes)
    return grouped(ctx, taken, known)


def _changed(ctx: Context, found: StoredObject, row: FileRow, take: bool) -> str:
    """Return the message about an object that differs from the ledger's; `take`: whether this
    run loads it."""
    if not may_be_replaced(found, row):
        return (
            f"land: {found.key} has changed since batch {row.batch_id} took it; "
            "it is not loaded again unless its batch is rolled back and released"
        )
    way = "it is taken too" if take else f"to load it: sluice run {ctx.pipeline.name} --changed"
    return f"land: {found.key} has changed since batch {row.batch_id} loaded it; {way}"


def chunks(ctx: Context, objects: list[StoredObject]) -> Iterator[list[StoredObject]]:
    """Split objects, by hour and name, into lists within the limits on count and bytes; a single
    object may exceed the latter."""
    chunk: list[StoredObject] = []
    size = 0
    for found in sorted(objects, key=lambda o: (o.hour, o.key)):
        full = len(chunk) >= ctx.pipeline.max_files_per_batch
        if chunk and (full or size + found.size > ctx.pipeline.max_bytes_per_batch):
            yield chunk
            chunk, size = [], 0
        chunk.append(found)
        size += found.size
    if chunk:
        yield chunk


def batches_of(
    ctx: Context,
    store: ObjectStore,
    objects: list[StoredObject],
    named: bool,
    unreadable: UnreadableFiles,
) -> Iterator[list[Inspected]]:
    """Inspect the objects as `inspect_all` does; yield one list for each batch."""
    for chunk in chunks(ctx, objects):
        inspected = _inspections(ctx, store, chunk, named, unreadable)
        most = rejects_of_a_batch(ctx.pipeline.max_bad_records)
        yield from within_ceilings(inspected, most, ctx.pipeline.max_bytes_per_batch)


def inspect_all(
    ctx: Context,
    store: ObjectStore,
    objects: list[StoredObject],
    named: bool,
    prefix: str = "",
    reading: Reading | None = None,
    unreadable: UnreadableFiles | None = None,
) -> list[Inspected]:
    """Inspect the objects, without those that are left out (see `inspect_or_skip`). Without
    `unreadable` none is left out, and an object that cannot be read raises.

    Staged files are written below `prefix`, by default where those of batches are; `reading`
    defaults to the pipeline's.
    """
    inspected = _inspections(ctx, store, objects, named, unreadable, prefix, reading)
    most = rejects_of_a_batch(ctx.pipeline.max_bad_records)
    return [one for some in within_ceilings(inspected, most) for one in some]


def _inspections(
    ctx: Context,
    store: ObjectStore,
    objects: list[StoredObject],
    named: bool,
    unreadable: UnreadableFiles | None,
    prefix: str = "",
    reading: Reading | None = None,
) -> Iterator[Inspected]:
    inspector = Inspector(
        store,
        ctx.files.store,
        prefix or ctx.files.staging_prefix(ctx.pipeline.name),
        reading or reading_of(ctx.pipeline),
    )

    def look(found: StoredObject) -> Inspection | None:
        whole = partial(_inspected, ctx, inspector, found)
        if unreadable is None:
            return with_retries(whole, UnreadableFiles())
        return inspect_or_skip(ctx.say, found.key, whole, named, unreadable)

    for found, inspection in zip(objects, _in_turn(look, objects), strict=True):
        if inspection is not None:
            yield Inspected(found, inspection)


def _in_turn(
    look: Callable[[StoredObject], Inspection | None], objects: list[StoredObject]
) -> Iterator[Inspection | None]:
    """Inspect several objects at a time, and yield the results in order; few wait
    behind a slow one."""
    with ThreadPoolExecutor(INSPECTED_AT_ONCE) as pool:
        begun: deque[Future[Inspection | None]] = deque()
        for found in objects:
            begun.append(pool.submit(look, found))
            if len(begun) >= 2 * INSPECTED_AT_ONCE:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _inspected(ctx: Context, inspector: Inspector, found: StoredObject) -> Inspection:
    """Inspect one object.

    A file that breaks the inspection in an unforeseen way becomes one reject, so that the others
    can still land.
    """
    try:
        return inspector.inspect(found)
    except (SluiceError, OSError, MemoryError):
        raise
    except Exception as error:
        reason = f"{UNREADABLE}: {type(error).__name__}"
        ctx.say(
            f"land: pipeline {ctx.pipeline.name}: {found.key} goes into quarantine as a whole "
            f"({reason}: {error})"
        )
        return inspector.reject(found, reason)
