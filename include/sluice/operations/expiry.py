"""Decide from metadata alone which snapshots and tags maintenance may remove.

The last `keep_tags` published batches can be rolled back one after the other, newest first. So the
snapshots that their publications name are kept, and with them every snapshot of `main` since the
oldest of these, since a rollback goes along them to see who wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from sluice.catalog.snapshots import head
from sluice.config.pipeline import Pipeline
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FINISHED, PUBLISHED
from sluice.names import tag_name


@dataclass(frozen=True)
class Retention:
    """The snapshots that must be kept, and the tags of batches beyond `keep_tags`."""

    snapshots: frozenset[int]
    stale_tags: frozenset[str]


@dataclass
class Retentions:
    """The retention of one pipeline, cached until the ledger changes.

    It does not change while maintenance holds the lease, which it gives back between two steps.
    """

    _ledger: PipelineLedger
    _pipeline: Pipeline
    _ledger_state: tuple[object, ...] = ()
    _cached: Retention = Retention(frozenset(), frozenset())

    def current(self) -> Retention:
        """Return which snapshots and tags may go according to the ledger as it is now."""
        written = self._ledger.publications.version()
        batches = self._ledger.batches.all()
        state = (written, *((row.batch_id, row.state) for row in batches))
        if state != self._ledger_state:
            self._cached = _retention(self._ledger, self._pipeline, batches)
            self._ledger_state = state
        return self._cached


def _retention(
    ledger: PipelineLedger, pipeline: Pipeline, batches: Sequence[BatchRow]
) -> Retention:
    """Read from the ledger which snapshots a rollback of the pipeline's last batches needs."""
    published = [row for row in batches if row.state == PUBLISHED]
    unfinished = [row for row in batches if row.state not in FINISHED]
    needed = [row.batch_id for row in (*published[: pipeline.keep_tags], *unfinished)]
    named = ledger.publications.of_batches(*needed)
    snapshots = {p.head_snapshot for p in named} | {p.base_snapshot for p in named}
    stale = (tag_name(row.batch_id) for row in published[pipeline.keep_tags :])
    return Retention(frozenset(s for s in snapshots if s is not None), frozenset(stale))


def published_before(ledger: PipelineLedger, moment: datetime) -> frozenset[str]:
    """Return the batches that were published before a moment."""
    return frozenset(
        row.batch_id
        for row in ledger.batches.all()
        if row.state == PUBLISHED and row.at is not None and row.at < moment
    )


def stale_tags(table: Table, promised: Retention) -> list[str]:
    """Return the table's tags of batches beyond `keep_tags`, but no tags that others made."""
    return sorted(promised.stale_tags.intersection(table.metadata.refs))


def expirable(
    table: Table, protected: Collection[int], before: datetime, *, dropped: Collection[str]
) -> list[int]:
    """Return the snapshots from before a moment that neither a branch, a tag nor a rollback needs.

    `dropped`: tags that count as gone already.
    """
    kept: set[int] = set(protected)
    for name, ref in table.metadata.refs.items():
        if name in dropped:
            continue
        kept.add(ref.snapshot_id)
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            kept |= _since_the_oldest(table, head(table, name), protected)
    limit = before.timestamp() * 1000
    return [
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot.snapshot_id not in kept and snapshot.timestamp_ms < limit
    ]


def _since_the_oldest(table: Table, snapshot: int | None, protected: Collection[int]) -> set[int]:
    """Return a branch's snapshots from its head back to the oldest protected one."""
    parents = {s.snapshot_id: s.parent_snapshot_id for s in table.metadata.snapshots}
    line: list[int] = []
    while snapshot in parents:
        line.append(snapshot)
        snapshot = parents[snapshot]
    oldest = max((at for at, found in enumerate(line) if found in protected), default=-1)
    return set(line[: oldest + 1])
