"""land: choose the files of a run, write them into manifests and claim them in the ledger.

A scheduled run takes every file before the end of its interval that the ledger does not know; a
window takes exactly its hours. If the files exceed a batch's limits, there are several batches, so
none is left over.
"""

from __future__ import annotations

from sluice.ledger.claims import is_free, may_be_replaced
from sluice.ledger.leases import Lease
from sluice.ledger.rows import FileRow
from sluice.objects.store import ObjectStore, StoredObject
from sluice.operations.changed import LoadableGroup, grouped
from sluice.operations.claim import claim
from sluice.operations.context import Context, say_of_files
from sluice.operations.inspecting import Inspecting
from sluice.operations.quiet_period import without_young
from sluice.operations.selection import EVERYTHING, Selection, open_landing, selected
from sluice.operations.unreadable_files import UnreadableFiles


def land(
    ctx: Context,
    selection: Selection,
    unreadable: UnreadableFiles,
    lease: Lease | None = None,
) -> list[str]:
    """Claim the files to load; return the manifests' keys, [] if nothing has landed.

    Objects that replaced loaded ones get batches of their own. `unreadable`: collects the files
    that cannot be read; if the store fails for all files, its error is raised. `lease`: taken for a
    caller that loads the batches at once, so that no other run takes them for abandoned.

    A file that is still being written, or that the store fails to return, is left to the next run;
    if it was requested by name, UnstableFileError or TransientError is raised. One that changed
    within `landing.quiet_seconds` is left too, unless it was requested by name.
    """
    store = open_landing(ctx)
    inspecting = Inspecting(ctx, store, bool(selection.files), unreadable)
    keys = []
    for group in loadable_groups(ctx, store, selection):
        for inspected in inspecting.batches(group.objects):
            key = claim(ctx, group.placed(inspected), lease, group.epoch, group.replaced)
            keys += [key] if key else []
    unreadable.raise_if_store_is_away()
    return keys


def candidates(ctx: Context, selection: Selection = EVERYTHING) -> list[StoredObject]:
    """Return the objects that `land` would read now, without known copies of other files."""
    groups = loadable_groups(ctx, open_landing(ctx), selection)
    return [one for group in groups for one in group.objects]


def loadable_groups(ctx: Context, store: ObjectStore, selection: Selection) -> list[LoadableGroup]:
    """Group the selected objects that no batch has and, with `changed`, those that replaced loaded
    ones."""
    taken, changes = [], []
    published = ctx.ledger.batches.published() if selection.changed else set()
    left, known = ctx.ledger.files.unclaimed_or_changed(selected(ctx, store, selection))
    for found in without_young(ctx, selection, left):
        row = known.get(found.key)
        if row is None or is_free(row):
            taken.append(found)
            continue
        take = row.batch_id in published and may_be_replaced(found, row)
        changes.append(_changed_message(ctx, found, row, take))
        taken += [found] if take else []
    say_of_files(ctx, changes)
    return grouped(ctx, taken, known)


def _changed_message(ctx: Context, found: StoredObject, row: FileRow, take: bool) -> str:
    """Return the message about an object that differs from the ledger's; `take`: whether this
    run loads it."""
    if not may_be_replaced(found, row):
        return (
            f"land: {found.key} has changed since batch {row.batch_id} took it; "
            "it is not loaded again unless its batch is rolled back and released"
        )
    way = "it is taken too" if take else f"to load it: sluice run {ctx.pipeline.name} --changed"
    return f"land: {found.key} has changed since batch {row.batch_id} loaded it; {way}"
