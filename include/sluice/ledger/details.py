"""What the ledger tells of a batch beside its state: every key of `BatchRow.details`.

They are stored, and shown to programs as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sluice.manifest import Manifest, Reprocess

READ: Final = "read"
APPLIED: Final = "applied"
QUARANTINED: Final = "quarantined"
NEWEST_SOURCE_TS: Final = "newest_source_ts"
SECONDS: Final = "seconds"
EPOCH: Final = "epoch"
ERROR: Final = "error"
# What is told of a batch that is loaded again with a part of its tables published.
HALF_PUBLISHED: Final = "half_published"
# The batches whose quarantined records it decoded again, and why.
REPROCESSED: Final = "reprocessed"
REASON: Final = "reason"
# The tables that a batch is for alone.
TABLES: Final = "tables"
# The batch that was published without these tables.
SHARE_OF: Final = "share_of"
# The attempt of that batch which left them out.
LEFT_OUT_BY: Final = "left_out_by"
# The batches that it took out of the tables, or the targets that it made again.
UNDONE: Final = "undone"
REBUILT: Final = "rebuilt"
# The attempt of a batch that undoes others which published all of its tables: it takes them out.
TAKING_OUT: Final = "taking_out"
ROLLED_BACK_BY: Final = "rolled_back_by"
RELEASED_BY: Final = "released_by"

_LONGEST_ERROR: Final = 2000


def failed(error: str) -> dict[str, str]:
    """Why a batch failed, or what it is a share of was published without it."""
    return {ERROR: error[:_LONGEST_ERROR]}


def of_reprocess(again: Reprocess | None) -> dict[str, Any]:
    """What is told of a reprocess; nothing for a batch that landed."""
    if again is None:
        return {}
    return {REPROCESSED: list(again.batches), REASON: again.reason}


def of_completed(completed: Sequence[str]) -> dict[str, list[str]]:
    """The same of the batches whose transactions one that landed has completed."""
    return {REPROCESSED: list(completed)} if completed else {}


def of_tables(manifest: Manifest) -> dict[str, list[str]]:
    """What is told of a batch that is for some tables; nothing for any other."""
    return {TABLES: list(manifest.tables)} if manifest.tables else {}


def of_share(manifest: Manifest) -> dict[str, str]:
    """What is told of a share beside its tables; nothing for any other batch."""
    return {SHARE_OF: manifest.share_of} if manifest.share_of else {}


def left_out_by(attempt: str) -> dict[str, str]:
    """What a share tells of the publication that made it, which may be completed later."""
    return {LEFT_OUT_BY: attempt}


def of_rebuild(manifest: Manifest) -> dict[str, list[str]]:
    """What is told of a batch that made targets again: which, or without which batches."""
    if manifest.rebuild is None:
        return {}
    if manifest.rebuild.without:
        return {UNDONE: list(manifest.rebuild.without)}
    return {REBUILT: list(manifest.rebuild.targets)}


def taking_out(attempt: str) -> dict[str, str]:
    """What a batch that undoes others tells from when its tables are complete until it is
    published."""
    return {TAKING_OUT: attempt}


def undone_by(user: str, released: bool) -> dict[str, str]:
    """Who had a batch undone, and its files released."""
    return {ROLLED_BACK_BY: user} | ({RELEASED_BY: user} if released else {})
