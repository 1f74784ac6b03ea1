"""Batches that hold back events of open transactions, and the batch that completes them.

A batch that brings the end of a transaction also decodes the files again that have its other
events, and counts as the reprocess of the batches that landed these: they are published together
and undone together. None of this is in its manifest, since each attempt determines it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sluice.ledger import quarantine
from sluice.manifest import Manifest
from sluice.operations.context import Context
from sluice.operations.loaded_files import epoch_of
from sluice.operations.quarantined import Unresolved, unresolved
from sluice.operations.reprocess import quarantined_files_of, reread_manifest

REASON: Final = "transaction_open"


@dataclass(frozen=True)
class HoldingBack:
    """A published batch that holds back events of open transactions.

    `transactions`: one entry for each event held back, so an id may repeat.
    """

    unresolved: Unresolved
    transactions: tuple[str, ...]


def holding_back(ctx: Context) -> list[HoldingBack]:
    """Return the published batches that hold events back, oldest first."""
    published = unresolved(ctx)
    if not published:
        return []
    batches = [one.batch_id for one in published]
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for batch, detail in quarantine.details(ctx.catalog, ctx.pipeline.name, batches, REASON):
        ids[batch].append(detail)
    return [HoldingBack(one, tuple(ids[one.batch_id])) for one in published if one.batch_id in ids]


def with_completed(ctx: Context, manifest: Manifest, ended: Iterable[HoldingBack]) -> Manifest:
    """Return the manifest with the files of the batches whose transactions have `ended` added.

    Batches of another epoch, or for other tables, are left to a reprocess. Raises TerminalError
    naming a file that is gone or changed.
    """
    epoch = epoch_of(ctx, manifest.epoch)
    batches = [(quarantined_files_of(ctx, one.unresolved), len(one.transactions)) for one in ended]
    alike = [(one, held) for one, held in batches if one.group_key == (epoch, manifest.tables)]
    if not alike:
        return manifest
    bad = sum(one.unresolved.records - held for one, held in alike)
    again = reread_manifest(ctx, [one for one, _ in alike])
    return replace(
        manifest,
        files=(*manifest.files, *again.files),
        rejects=(*manifest.rejects, *again.rejects),
        reprocess=None if again.reprocess is None else replace(again.reprocess, records=bad),
    )
