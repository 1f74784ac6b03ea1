"""The batches of a pipeline: the row of a batch with the highest `seq` is its current state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from pyiceberg.table import Table

from sluice.ledger import states
from sluice.ledger.appends import LedgerTables
from sluice.ledger.arrow_rows import latest, where_in
from sluice.ledger.details import EPOCH, ERROR, HALF_PUBLISHED, UndoOrder, of_undo
from sluice.ledger.filters import of_pipeline
from sluice.ledger.leases import Lease, leased
from sluice.ledger.rows import BatchRow
from sluice.ledger.tables import BATCHES, Row

Refuse = Callable[[Mapping[str, BatchRow]], None]


@dataclass
class Batches:
    """The batches of one pipeline."""

    _tables: LedgerTables
    _pipeline: str
    _clock: Callable[[], datetime]

    def record(
        self,
        batch_id: str,
        state: str,
        *,
        attempt: str = "",
        manifest: str = "",
        lease: Lease | None = None,
        replace_details: Mapping[str, Any] | None = None,
        add_details: Mapping[str, Any] | None = None,
        expected: Callable[[BatchRow | None], bool] = lambda _: True,
        refuse: Refuse = lambda _: None,
    ) -> bool:
        """Write a batch's new state; arguments left out keep their values. A state in AT_REST ends
        the lease.

        Returns whether it was written: it is not if `expected` rejects the current row. `refuse`
        gets all rows of the pipeline before the commit, and raises if they do not allow it.
        """

        def decide(table: Table) -> tuple[list[Row], bool]:
            known = self.at(table)
            refuse(known)
            old = known.get(batch_id)
            if not expected(old):
                return [], False
            before, now = old or BatchRow(self._pipeline, batch_id, attempt, state), self._clock()
            kept = before.details if replace_details is None else replace_details
            row = replace(
                before, state=state, at=now,
                attempt=attempt or before.attempt, manifest=manifest or before.manifest,
            ).with_details(_details_in(state, {**kept, **(add_details or {})}))  # fmt: skip
            if lease is not None:
                row = leased(row, lease, now)
            elif state in states.AT_REST:
                row = row.without_lease()
            return [asdict(row)], True

        return self._tables.append(BATCHES, decide)

    def mark_rolling_back(
        self,
        batch_ids: Collection[str],
        attempt: str,
        expected: Callable[[BatchRow], bool],
        refuse: Refuse,
        orders: Mapping[str, UndoOrder],
    ) -> str:
        """Set the batches to `rolling_back` under this attempt, all in one commit, so that a
        process that dies leaves all of them marked or none. They get one `seq`, which says nothing
        about their order.

        If a batch is unknown, or `expected` rejects its current row, nothing is written and its id
        is returned; else "". `refuse`: as for `record`. `orders`: what is ordered anew for some of
        the batches; the others keep what was.
        """

        def decide(table: Table) -> tuple[list[Row], str]:
            known = self.at(table)
            refuse(known)
            rejected = next((b for b in batch_ids if b not in known or not expected(known[b])), "")
            if rejected:
                return [], rejected
            rows = (_ordered(known[b], orders.get(b)).without_lease() for b in batch_ids)
            mark = {"state": states.ROLLING_BACK, "attempt": attempt, "at": self._clock()}
            return [asdict(row) | mark for row in rows], ""

        return self._tables.append(BATCHES, decide)

    def keep_waiting(self, batch_ids: Iterable[str]) -> None:
        """Write the rows of landed batches that no process holds again: a new time in `at` shows
        that they wait behind others and are not abandoned."""

        def decide(table: Table) -> tuple[list[Row], None]:
            known = self.at(table)
            rows = [known[batch] for batch in batch_ids if batch in known]
            waiting = [row for row in rows if row.state == states.LANDED and not row.holder]
            return [asdict(replace(row, at=self._clock())) for row in waiting], None

        self._tables.append(BATCHES, decide)

    def renew_landed(self, lease: Lease, is_own: Callable[[BatchRow], bool]) -> None:
        """Renew the leases of the batches that are the caller's, all in one commit: however many
        there are, it takes less time than a lease lasts."""

        def decide(table: Table) -> tuple[list[Row], None]:
            own, now = filter(is_own, self.at(table).values()), self._clock()
            return [asdict(leased(row, lease, now)) for row in own], None

        self._tables.append(BATCHES, decide)

    def get(self, batch_id: str) -> BatchRow | None:
        """Return the batch's current row, or None."""
        rows = self._tables.read(BATCHES, of_pipeline(self._pipeline))
        return latest(BatchRow, where_in(rows, "batch_id", [batch_id]), "batch_id").get(batch_id)

    def all(self) -> list[BatchRow]:
        """Return the batches, the one that changed last first."""
        rows = self._tables.read(BATCHES, of_pipeline(self._pipeline))
        known = latest(BatchRow, rows, "batch_id").values()
        batches = (row for row in known if row.batch_id != states.MAINTENANCE)
        return sorted(batches, key=lambda row: row.seq, reverse=True)

    def published(self) -> set[str]:
        """Return the batches whose rows are in the tables."""
        return {row.batch_id for row in self.all() if row.state == states.PUBLISHED}

    def epochs(self) -> dict[str, int | None]:
        """Return the epoch that each batch was loaded at; None if it is unknown."""
        return {row.batch_id: row.details.get(EPOCH) for row in self.all()}

    def at(self, table: Table) -> dict[str, BatchRow]:
        """Return the batches in the table object's own snapshot, with the row under which
        maintenance holds the lease."""
        rows = self._tables.scan(table, of_pipeline(self._pipeline))
        return latest(BatchRow, rows, "batch_id")


def _details_in(state: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details without what is over in this state: a publication, or a failed try."""
    over = {HALF_PUBLISHED} if state in states.FINISHED else set()
    over |= {ERROR} if state == states.LANDED else set()
    return {key: value for key, value in details.items() if key not in over}


def _ordered(row: BatchRow, order: UndoOrder | None) -> BatchRow:
    return row if order is None else row.with_details(of_undo(row.details, order))
