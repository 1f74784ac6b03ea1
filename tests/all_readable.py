"""land, for tests whose files can all be read: what the stage leaves out is an error."""

from __future__ import annotations

from sluice.ledger.leases import Lease
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.selection import EVERYTHING, Selection
from sluice.operations.unreadable_files import UnreadableFiles, files_left_out


def land(
    context: Context, selection: Selection = EVERYTHING, lease: Lease | None = None
) -> list[str]:
    """Claim the files to load; return the manifests' keys."""
    unreadable = UnreadableFiles()
    return _whole(context, stages.land(context, selection, unreadable, lease), unreadable)


def land_tables(context: Context, selection: Selection) -> list[str]:
    """Make batches for the selection's tables; return the manifests' keys."""
    unreadable = UnreadableFiles()
    return _whole(context, stages.land_tables(context, selection, unreadable), unreadable)


def _whole(context: Context, manifests: list[str], unreadable: UnreadableFiles) -> list[str]:
    if error := files_left_out(context.pipeline.name, unreadable):
        raise error
    return manifests
