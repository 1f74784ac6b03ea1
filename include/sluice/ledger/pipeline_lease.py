"""The lease of a pipeline: only its owner loads, publishes, undoes or maintains.

It is held in the row of a batch, or in a row of its own for maintenance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from pyiceberg.table import Table

from sluice.errors import LeaseHeldError
from sluice.ledger import states
from sluice.ledger.appends import LedgerTables
from sluice.ledger.batches import Batches
from sluice.ledger.details import HALF_PUBLISHED, UNDONE
from sluice.ledger.leases import Lease, is_dead, leased
from sluice.ledger.refusals import (
    fence_lapsed,
    lost_batch_message,
    refuse_closed,
    refuse_halfway,
    refuse_held,
)
from sluice.ledger.rows import BatchRow
from sluice.ledger.tables import BATCHES, Row


@dataclass
class PipelineLease:
    """The lease of one pipeline."""

    _tables: LedgerTables
    _pipeline: str
    _batches: Batches
    _clock: Callable[[], datetime]

    def acquire(
        self,
        batch_id: str,
        attempt: str,
        lease: Lease,
        is_half_published: Callable[[], bool] = lambda: False,
        undone: Collection[str] = (),
        expected: Callable[[BatchRow | None], bool] = lambda _: True,
    ) -> None:
        """Set the batch to `loading` under this attempt, and give it the pipeline's lease.

        `is_half_published()`: whether any table has the batch; called only for a batch in
        `publishing`, and recorded until all tables have it or none. `undone`: batches that this one
        undoes; they may be half rolled back. `expected`: whether the batch's row is still what the
        caller read.

        Raises LeaseHeldError if another batch has the lease; if another one is half published or
        half rolled back, since the list of published batches does not have its changes; if this
        batch is closed; or if `expected` rejects its row, since a later attempt has it.
        """

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches.at(table)
            refuse_held(batches.values(), batch_id, self.has_lapsed)
            refuse_halfway(batches.values(), {batch_id, *undone})
            known = batches.get(batch_id)
            old = known or BatchRow(self._pipeline, batch_id, attempt, states.LOADING)
            refuse_closed(old, attempt)
            if not expected(known):
                raise LeaseHeldError(lost_batch_message(self._pipeline, batch_id, attempt, old))
            row = replace(old, state=states.LOADING, attempt=attempt)
            if old.state == states.PUBLISHING and is_half_published():
                row = row.with_details(row.details | {HALF_PUBLISHED: True})
            return self._taken(batches, row, lease), None

        self._tables.append(BATCHES, decide)

    def acquire_for_maintenance(self, attempt: str, lease: Lease, *undone: str) -> None:
        """Take the lease under the batch id MAINTENANCE, for maintenance or a rollback.

        Raises LeaseHeldError if a batch or another maintenance has it, or if a batch that is not in
        `undone` is half published or half rolled back.
        """

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches.at(table)
            refuse_held(batches.values(), "", self.has_lapsed)
            refuse_halfway(batches.values(), undone)
            row = BatchRow(self._pipeline, states.MAINTENANCE, attempt, states.MAINTAINING)
            return self._taken(batches, row, lease), None

        self._tables.append(BATCHES, decide)

    def renew(self, batch_id: str, attempt: str, lease: Lease) -> None:
        """Extend the lease. Raises LeaseHeldError if another attempt or batch took it, the batch is
        closed, or it is loaded and another one is halfway: it must not be published beside that."""

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches.at(table)
            refuse_held(batches.values(), batch_id, self.has_lapsed)
            old = batches.get(batch_id)
            if old is None or old.attempt != attempt:
                raise LeaseHeldError(lost_batch_message(self._pipeline, batch_id, attempt, old))
            refuse_closed(old, attempt)
            if old.state == states.LOADED:
                refuse_halfway(batches.values(), {batch_id, *old.details.get(UNDONE, ())})
            return self._taken(batches, old, lease), None

        self._tables.append(BATCHES, decide)

    def release(self, batch_id: str, attempt: str) -> None:
        """Give the lease back, unless another attempt has taken it."""

        def decide(table: Table) -> tuple[list[Row], None]:
            old = self._batches.at(table).get(batch_id)
            if old is None or old.attempt != attempt or not old.holder:
                return [], None
            return [asdict(replace(old.without_lease(), at=self._clock()))], None

        self._tables.append(BATCHES, decide)

    def has_lapsed(self, row: BatchRow) -> bool:
        """Whether no process holds the batch: the lease was never taken, has expired, or its
        holder is dead."""
        until = row.lease_until
        return not row.holder or until is None or until <= self._clock() or is_dead(row.holder)

    def _taken(self, batches: Mapping[str, BatchRow], row: BatchRow, lease: Lease) -> list[Row]:
        others = fence_lapsed(batches.values(), row.batch_id)
        return [*map(asdict, others), asdict(leased(row, lease, self._clock()))]
