"""The ledger: files, batches and publications, in Iceberg tables of their own.

The tables are append-only: the row with the highest `seq` is the current state. All writes are
compare-and-set on the table (see `appends.py`), so two runs never both win a claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from sluice.ledger import states
from sluice.ledger.appends import LedgerTables
from sluice.ledger.batches import Batches
from sluice.ledger.files import Files
from sluice.ledger.pipeline_lease import PipelineLease
from sluice.ledger.publications import Publications
from sluice.ledger.rows import BatchRow, may_land
from sluice.ledger.tables import BATCHES, FILES, PUBLICATIONS, QUARANTINE

_NOW: Final = partial(datetime.now, UTC)


class Ledger:
    """The ledger of all pipelines of one lake. Its tables are created when they are written."""

    def __init__(self, catalog: Catalog, clock: Callable[[], datetime] = _NOW) -> None:
        self._tables = LedgerTables(catalog)
        self._clock = clock
        self._batches: Table | None = None

    def uuid(self) -> str:
        """Return the UUID of the table of batches, by which the lake is known; "" without one."""
        batches = self._found_batches()
        return "" if batches is None else str(batches.metadata.table_uuid)

    def folder(self) -> str:
        """Return the address of the folder that has the table of batches; "" without one."""
        batches = self._found_batches()
        return "" if batches is None else batches.location().rpartition("/")[0]

    def _found_batches(self) -> Table | None:
        """Return the table of batches as it was when it was found; its UUID and place stay."""
        if self._batches is None:
            self._batches = self._tables.find(BATCHES)
        return self._batches

    def ensure(self) -> None:
        """Create missing tables; others (renames, comments …) follow on first use."""
        for name in (FILES, PUBLICATIONS, QUARANTINE):
            self._tables.open(name)
        if not self.uuid():
            self._tables.open(BATCHES)

    def pipelines(self) -> set[str]:
        """Return the names of the pipelines that have batches, or were maintained."""
        rows = self._tables.read(BATCHES, AlwaysTrue(), ("pipeline",))
        return set(rows["pipeline"].to_pylist())

    def of(self, pipeline: str) -> PipelineLedger:
        """Return the part of one pipeline."""
        return PipelineLedger(self._tables, pipeline, self._clock)


class PipelineLedger:
    """The ledger of one pipeline: its files, batches, lease and publications."""

    def __init__(self, tables: LedgerTables, pipeline: str, clock: Callable[[], datetime]) -> None:
        self.pipeline = pipeline
        self._clock = clock
        self.batches = Batches(tables, pipeline, clock)
        self.files = Files(tables, pipeline, self.batches, clock)
        self.lease = PipelineLease(tables, pipeline, self.batches, clock)
        self.publications = Publications(tables, pipeline, clock)

    def unfinished(self) -> list[BatchRow]:
        """Return the batches that are neither published nor rolled back: first those that are
        halfway, since nothing else can be loaded before these are complete, then the others, oldest
        first; see `with_claims`."""
        rows = (row for row in self.with_claims() if row.state not in states.FINISHED)
        return sorted(rows, key=lambda row: (not row.halfway, row.at or self._clock()))

    def with_claims(self) -> list[BatchRow]:
        """Return all batches: first those that the ledger has not recorded, then the others, the
        one that changed last first.

        A batch also counts as `landed` if its files are claimed but it was not recorded (landing
        died), or if it was rolled back and its released files are claimed again.
        """
        recorded = {row.batch_id: row for row in self.batches.all()}
        unrecorded: dict[str, BatchRow] = {}
        for file in self.files.claimed():
            known = recorded.get(file.batch_id)
            if known is None:
                row = BatchRow(self.pipeline, file.batch_id, "", states.LANDED, at=file.at)
                unrecorded.setdefault(file.batch_id, row)
            elif may_land(known):
                landed = replace(known, state=states.LANDED, at=file.at)
                recorded[file.batch_id] = landed
        return [*unrecorded.values(), *recorded.values()]
