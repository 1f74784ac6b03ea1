"""Copies: objects with the bytes of others, which are read once and then known by their checksum in
the ledger.

Every run decides again whether a copy is left out, because the file that it repeats may have been
released since, or be of an epoch before the last full load. The ledger's row only saves reading it.
"""

from __future__ import annotations

from sluice.counting import counted
from sluice.landing.table_folders import content_of
from sluice.objects.store import StoredObject, is_same_object
from sluice.operations.context import Context
from sluice.operations.loaded_files import epochs_of_same_load


def without_copies(
    ctx: Context, objects: list[StoredObject], epoch: int | None
) -> list[StoredObject]:
    """Return the objects that a claim at the epoch may win: known copies only if no other file has
    their bytes any more."""
    copies = ctx.ledger.files.copies() if objects else {}
    same = [o for o in objects if o.key in copies and is_same_object(o, copies[o.key])]
    if not same:
        return objects
    content, of_load = content_of(ctx.pipeline), epochs_of_same_load(ctx, epoch)
    checksums = {copies[o.key].sha256 for o in same}
    loaded = ctx.ledger.files.known_contents(content, epochs=of_load, among=checksums)
    left_out = {o.key for o in same if content(o.key, copies[o.key].sha256) in loaded}
    if left_out:
        files = counted(len(left_out), "file")
        ctx.say(f"land: left out unread: {files} with the bytes of others")
    return [o for o in objects if o.key not in left_out]
