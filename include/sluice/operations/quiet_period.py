"""Files that changed a moment ago: their writer may only have paused, so a later run takes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sluice.counting import counted
from sluice.escaping import shown
from sluice.ledger.claims import is_free
from sluice.ledger.rows import FileRow
from sluice.objects.store import StoredObject
from sluice.operations.context import Context
from sluice.operations.selection import Selection


def without_young(
    ctx: Context,
    selection: Selection,
    objects: list[StoredObject],
    known: Mapping[str, FileRow] | None = None,
) -> list[StoredObject]:
    """Return the objects without the young ones, which are reported; `known` as for `young`."""
    found = young(ctx, selection, objects, known)
    if found:
        ctx.say(f"land: {young_in_words(ctx, found)}: left to a later run")
    left_out = {one.key for one in found}
    return [one for one in objects if one.key not in left_out]


def young(
    ctx: Context,
    selection: Selection,
    objects: list[StoredObject],
    known: Mapping[str, FileRow] | None = None,
) -> list[StoredObject]:
    """Return the objects that changed less than `landing.quiet_seconds` ago; none if they were
    requested by name.

    A run for some tables leaves only those to a later run that this would take: the others it reads
    as they were loaded. `known`: the ledger's files, if they have been read. A time may be wrong,
    and far in the future: such an object would never be taken.
    """
    if selection.files:
        return []
    now, period = datetime.now(UTC), timedelta(seconds=ctx.pipeline.landing.quiet_seconds)
    found = [one for one in objects if abs(now - one.modified) < period]
    if not (found and selection.tables):
        return found
    rows = ctx.ledger.files.known() if known is None else known
    return [one for one in found if is_free(rows.get(one.key))]


def young_in_words(ctx: Context, objects: list[StoredObject]) -> str:
    """Describe young objects."""
    return (
        f"{counted(len(objects), 'file')}, such as {shown(objects[0].key)}, changed less than "
        f"{ctx.pipeline.landing.quiet_seconds} s ago (landing.quiet_seconds)"
    )
