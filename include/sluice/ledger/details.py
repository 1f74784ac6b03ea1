"""The keys of `BatchRow.details`: what the ledger records of a batch besides its state.

They are stored, and programs see them under these names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sluice.manifest import Manifest, Reprocess
from sluice.result import BatchResult

READ: Final = "read"
APPLIED: Final = "applied"
QUARANTINED: Final = "quarantined"
NEWEST_SOURCE_TS: Final = "newest_source_ts"
SECONDS: Final = "seconds"
EPOCH: Final = "epoch"
ERROR: Final = "error"
# Set while a batch is loaded again of which some tables are published already.
HALF_PUBLISHED: Final = "half_published"
# The batches whose records this one decoded again, quarantined ones or those of transactions that
# it completed; and why.
REPROCESSED: Final = "reprocessed"
REASON: Final = "reason"
# The tables that the batch is limited to.
TABLES: Final = "tables"
# The batch that was published without the tables of this share.
SHARE_OF: Final = "share_of"
# The attempt at that batch which left the tables out; of an undone share, that which is published
# without them.
LEFT_OUT_BY: Final = "left_out_by"
# The batches that the batch undid, or the targets that it rebuilt.
UNDONE: Final = "undone"
REBUILT: Final = "rebuilt"
# The attempt at a batch that undoes others, once its tables are published: the undone batches'
# changes are deleted next.
UNDOING: Final = "taking_out"
# Set while a rollback is under way that releases the batch's files when it ends.
RELEASE: Final = "release"
ROLLED_BACK_BY: Final = "rolled_back_by"
RELEASED_BY: Final = "released_by"
REBUILT_BY: Final = "rebuilt_by"

_LONGEST_ERROR: Final = 2000
_UNDONE_AND_RELEASED: Final = "it was rolled back, and released since: the next run loads it again"


def failed(error: str) -> dict[str, str]:
    """Details of a failed batch: its error."""
    return {ERROR: error[:_LONGEST_ERROR]}


def of_published(result: BatchResult) -> dict[str, Any]:
    """Details of a published batch: rows, time and epoch."""
    newest = [t.newest_source_ts for t in result.tables if t.newest_source_ts]
    total = result.total
    return {
        READ: total.read,
        APPLIED: total.applied,
        QUARANTINED: total.quarantined,
        NEWEST_SOURCE_TS: max(newest, default=""),
        SECONDS: result.seconds,
        EPOCH: result.epoch,
    }


def of_reprocess(again: Reprocess | None) -> dict[str, Any]:
    """Details of a batch that reprocesses others; empty for a landed batch."""
    if again is None:
        return {}
    return {REPROCESSED: list(again.batches), REASON: again.reason}


def of_completed(completed: Sequence[str]) -> dict[str, list[str]]:
    """Details of a landed batch that completed transactions of other batches."""
    return {REPROCESSED: list(completed)} if completed else {}


def of_tables(manifest: Manifest) -> dict[str, list[str]]:
    """Details of a batch that is limited to some tables; empty for any other."""
    return {TABLES: list(manifest.tables)} if manifest.tables else {}


def of_share(manifest: Manifest) -> dict[str, str]:
    """Details of a share of another batch; empty for any other batch."""
    return {SHARE_OF: manifest.share_of} if manifest.share_of else {}


def left_out_by(attempt: str) -> dict[str, str]:
    """Details of a share: the attempt whose publication split it off."""
    return {LEFT_OUT_BY: attempt}


def of_released_share(details: Mapping[str, Any]) -> dict[str, Any]:
    """Details of a share that was undone and is to be loaded again: it waits as one that failed."""
    kept = (TABLES, SHARE_OF, LEFT_OUT_BY, ROLLED_BACK_BY, RELEASED_BY)
    return {key: details[key] for key in kept if key in details} | failed(_UNDONE_AND_RELEASED)


def of_rebuild(manifest: Manifest) -> dict[str, Any]:
    """Details of a rebuild: the targets and the user who asked for it, or the batches
    that it undoes."""
    if manifest.rebuild is None:
        return {}
    if manifest.rebuild.without:
        return {UNDONE: list(manifest.rebuild.without)}
    user = manifest.rebuild.user
    return {REBUILT: list(manifest.rebuild.targets)} | ({REBUILT_BY: user} if user else {})


def of_deleting_undone(attempt: str) -> dict[str, str]:
    """Details of an undoing batch whose tables are all published, but which is not yet recorded as
    published itself."""
    return {UNDOING: attempt}


@dataclass(frozen=True)
class UndoOrder:
    """Who asked for a rollback, if known, and whether the files are released when it ends."""

    user: str = ""
    release: bool = False


KEEP_FILES_HELD: Final = UndoOrder()


def order_of(manifest: Manifest, undone: str) -> UndoOrder:
    """Return what was ordered for a batch that another one, with this manifest, undoes."""
    again = manifest.rebuild
    return KEEP_FILES_HELD if again is None else UndoOrder(again.user, undone in again.release)


def of_undo(details: Mapping[str, Any], order: UndoOrder) -> dict[str, Any]:
    """Details of a batch whose rollback begins, or goes on and is to release the files too: what
    was ordered, so that whoever completes the rollback carries it out."""
    kept = {key: value for key, value in details.items() if key != RELEASED_BY}
    user = {ROLLED_BACK_BY: order.user} if order.user else {}
    return kept | user | ({RELEASE: True} if order.release else {})


def of_undone(details: Mapping[str, Any]) -> dict[str, Any]:
    """Details of a batch whose rollback, which has them, ends."""
    kept = {key: value for key, value in details.items() if key != RELEASE}
    user = details.get(ROLLED_BACK_BY)
    return kept | ({RELEASED_BY: user} if user and RELEASE in details else {})


def of_rollback_by(user: str, released: bool) -> dict[str, str]:
    """Details of a rollback: the user who asked for it, and whether the files were released."""
    return {ROLLED_BACK_BY: user} | ({RELEASED_BY: user} if released else {})
