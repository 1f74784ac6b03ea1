"""Publications: what each batch did to each table; recorded as intended first, then as done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from pyiceberg.expressions import And
from pyiceberg.table import Table

from sluice.catalog.expressions import among, equals
from sluice.ledger.appends import LedgerTables
from sluice.ledger.arrow_rows import publications_of, publications_since_undo, still_newest
from sluice.ledger.filters import of_batches, of_pipeline
from sluice.ledger.rows import Publication
from sluice.ledger.tables import PUBLICATIONS, Row


@dataclass
class Publications:
    """The publications of one pipeline's batches."""

    _tables: LedgerTables
    _pipeline: str
    _clock: Callable[[], datetime]

    def record(self, rows: Iterable[Publication]) -> None:
        """Write intended or completed publications of a batch's tables, in one commit.

        A row that was read from the ledger (`seq`) is written only while it is the newest one.
        """
        given = list(rows)

        def decide(table: Table) -> tuple[list[Row], None]:
            read = {row.batch_id for row in given if row.seq}
            new = still_newest(given, self._tables.scan(table, of_batches(read))) if read else given
            return [asdict(replace(row, at=self._clock())) for row in new], None

        self._tables.append(PUBLICATIONS, decide)

    def version(self) -> int | None:
        """Return a number that changes whenever any pipeline's publications are written; None if
        none ever were."""
        table = self._tables.find(PUBLICATIONS)
        snapshot = None if table is None else table.current_snapshot()
        return None if snapshot is None else snapshot.snapshot_id

    def of_batches(self, *batch_ids: str) -> list[Publication]:
        """Return the newest row of each table of each batch."""
        where = And(of_pipeline(self._pipeline), of_batches(batch_ids))
        return publications_of(self._tables.read(PUBLICATIONS, where))

    def batches_of(self, namespace: str, table_name: str) -> set[str]:
        """Return the batches that have a publication of the table, in whatever state."""
        named = And(equals("namespace", namespace), equals("table_name", table_name))
        where = And(of_pipeline(self._pipeline), named)
        rows = self._tables.read(PUBLICATIONS, where, ("batch_id",))
        return set(rows["batch_id"].to_pylist())

    def since_undo(self, batch_id: str) -> list[list[Publication]]:
        """Return the batch's publications and intents of each table since it was last undone there,
        newest first."""
        where = And(of_pipeline(self._pipeline), of_batches([batch_id]))
        return publications_since_undo(self._tables.read(PUBLICATIONS, where))

    def built_on(self, snapshots: Iterable[int]) -> set[str]:
        """Return the batches that have a publication onto one of the snapshots, in whatever state.

        They are few of all that a pipeline ever published.
        """
        where = And(of_pipeline(self._pipeline), among("base_snapshot", snapshots))
        rows = self._tables.read(PUBLICATIONS, where, ("batch_id",))
        return set(rows["batch_id"].to_pylist())
