"""Batches that hold back events of open transactions, and the batch that completes them.

A batch that brings the end of a transaction decodes the files again that hold its other events,
beside its own, and is the reprocess of the batches that landed them: published together, undone
together. Nothing of that is in its manifest: each attempt looks anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from pyiceberg.expressions import And, In

from sluice.context import Context
from sluice.deadletters import unresolved
from sluice.ledger_tables import QUARANTINE, LedgerTables, equals
from sluice.manifest import Manifest
from sluice.reprocess import read_again, take

REASON: Final = "transaction_open"


def waiting(ctx: Context) -> dict[str, list[str]]:
    """The transactions of which published batches hold events back, by batch, once for an event."""
    batches = [held.batch_id for held in unresolved(ctx)]
    if not batches:
        return {}
    mine = And(equals("pipeline", ctx.pipeline.name), equals("reason", REASON))
    where = And(mine, In("batch_id", batches))  # type: ignore[call-arg]
    rows = LedgerTables(ctx.catalog).read(QUARANTINE, where, ("batch_id", "detail"))
    found: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows.to_pylist():
        found[row["batch_id"]].append(row["detail"])
    return dict(found)


def completed(
    ctx: Context, manifest: Manifest, ended: Collection[str], held: Mapping[str, Collection[str]]
) -> Manifest:
    """The manifest with the files of the batches that have `ended` transactions beside its own.

    `held`: as `waiting` tells. Batches of another epoch, or for other tables, are left to a
    reprocess. Raises TerminalError naming a file that is gone or changed.
    """
    epoch = ctx.pipeline.epoch if manifest.epoch is None else manifest.epoch
    found = (take(ctx, one) for one in unresolved(ctx) if one.batch_id in ended)
    taken = [one for one in found if one.alike == (epoch, manifest.tables)]
    if not taken:
        return manifest
    again = read_again(ctx, taken)
    waits = sum(len(held[one.held.batch_id]) for one in taken)
    bad = sum(one.held.records for one in taken) - waits
    return replace(
        manifest,
        files=(*manifest.files, *again.files),
        rejects=(*manifest.rejects, *again.rejects),
        reprocess=None if again.reprocess is None else replace(again.reprocess, records=bad),
    )
