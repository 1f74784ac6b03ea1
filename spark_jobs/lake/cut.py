"""A consistent cut of a pipeline's tables: the published batches and the head of each `main`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from sluice import names
from sluice.catalog.client import find_table
from sluice.catalog.gap_property import has_gap_at
from sluice.catalog.lineage import ancestors, foreign
from sluice.catalog.snapshots import head
from sluice.errors import TransientError, no_table
from sluice.ledger.changelogs import changelogs_of
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.refusals import completed_by
from sluice.ledger.rows import BatchRow
from spark_jobs.lake.table_id import TableId, changelog_of, tombstones_of_target
from spark_jobs.planning import column_history
from spark_jobs.planning.column_history import ColumnHistory

_TRIES: Final = 5
_PAUSE_SECONDS: Final = 2.0
_FOREIGN_AT_MOST: Final = 5


@dataclass(frozen=True)
class TargetTables:
    """A target, its changelog and its tombstones; `key` is empty for a table without one.

    `history` and `events`: the tables of its modes, None if they do not exist.
    """

    target: TableId
    changelog: TableId
    tombstones: TableId
    key: tuple[str, ...]
    history: TableId | None
    events: TableId | None

    @property
    def all(self) -> list[TableId]:
        """Every table of the target."""
        beside = [t for t in (self.history, self.events) if t is not None]
        return [self.target, self.changelog, self.tombstones, *beside]


@dataclass(frozen=True)
class Cut:
    """The published batches, and the snapshot of every `main` (None: the table has no rows).

    Dropped tables have no entry. Two cuts are equal if targets and tombstones are the same.
    """

    published: tuple[str, ...]
    heads: dict[TableId, int | None] = field(compare=False)
    compared: tuple[tuple[TableId, int | None], ...]
    tables: dict[TableId, Table] = field(compare=False, default_factory=dict)

    def floor(self, target: TableId) -> str | None:
        """The position up to which maintenance may have deleted changes; None if it
        deleted none."""
        return self._property(target, names.PROP_FLOOR)

    def column_history(self, target: TableId) -> ColumnHistory:
        """The defaults and renames with which a target's rows were written."""
        return column_history.read(self._property(target, names.PROP_DEFAULTS))

    def has_no_gap(self, table: TableId | None) -> bool:
        """Whether a table of a mode exists and has every published change."""
        head = None if table is None else self.heads.get(table)
        return table is not None and head is not None and not has_gap_at(self.tables[table], head)

    def _property(self, table: TableId, name: str) -> str | None:
        loaded = self.tables.get(table)
        return None if loaded is None else loaded.properties.get(name)

    def foreign(self, table: TableId) -> tuple[str, ...]:
        """The newest snapshots of `main` that neither a batch nor maintenance wrote."""
        loaded = self.tables.get(table)
        if loaded is None:
            return ()
        snapshots = foreign(loaded, ancestors(loaded, self.heads[table]))
        return tuple(snapshots[:_FOREIGN_AT_MOST])


@dataclass(frozen=True)
class Cutter:
    """Reads a pipeline's tables, and its batches in the ledger, in one consistent state."""

    catalog: Catalog
    ledger: PipelineLedger
    namespace: str

    def tables(self, only: str | None) -> list[TargetTables]:
        """Return the pipeline's tables; raises TerminalError for an unknown `only`.

        They are listed by their changelogs, so that a dropped target is noticed.
        """
        logs = changelogs_of(self.catalog, self.ledger.pipeline, self.namespace)
        listed = [self._of(target, logs[target]) for target in sorted(logs)]
        chosen = [t for t in listed if only in (None, t.target.name, t.target.full_name)]
        if only is not None and not chosen:
            raise no_table(self.ledger.pipeline, only, (t.target.full_name for t in listed))
        return chosen

    def _of(self, target: str, changelog: Table) -> TargetTables:
        table = TableId(self.namespace, target)
        return TargetTables(
            table,
            changelog_of(table),
            tombstones_of_target(table),
            names.key_of(changelog.properties),
            self._beside(target, names.history_table(target)),
            self._beside(target, names.events_table(target)),
        )

    def _beside(self, target: str, name: str) -> TableId | None:
        table = TableId(self.namespace, name)
        loaded = self._load(table)
        owner = None if loaded is None else names.owner_target(loaded.properties)
        return table if owner == TableId(self.namespace, target).full_name else None

    def cut(self, targets: Iterable[TargetTables]) -> Cut:
        """Return the state of the tables between two publications.

        Raises TransientError while a batch is being published.
        """
        listed = list(targets)
        for _ in range(_TRIES):
            before, publishing = self._now(listed), self._halfway()
            if not publishing and self._now(listed) == before:
                return before
            time.sleep(_PAUSE_SECONDS)
        raise TransientError(
            f"pipeline {self.ledger.pipeline}: batches are being published "
            f"({', '.join(r.batch_id for r in publishing) or 'one after the other'}); verify again "
            f"afterwards{_if_nothing_runs(publishing)}"
        )

    def _halfway(self) -> list[BatchRow]:
        return [row for row in self.ledger.batches.all() if row.halfway]

    def _now(self, targets: list[TargetTables]) -> Cut:
        # Batches before tables: the changelogs then hold the changes of every batch listed.
        published = tuple(sorted(self.ledger.batches.published()))
        tables = {t: loaded for t in _all(targets) if (loaded := self._load(t)) is not None}
        heads = {table: head(loaded) for table, loaded in tables.items()}
        changelogs = {one.changelog for one in targets}
        compared = tuple((t, h) for t, h in heads.items() if t not in changelogs)
        return Cut(published, heads, compared, tables)

    def _load(self, table: TableId) -> Table | None:
        return find_table(self.catalog, table.namespace, table.name)


def _if_nothing_runs(halfway: list[BatchRow]) -> str:
    ways = dict.fromkeys(completed_by(row) for row in halfway)
    return f". If nothing runs, complete what was interrupted: {'; '.join(ways)}" if ways else ""


def _all(targets: list[TargetTables]) -> list[TableId]:
    return [table for one in targets for table in one.all]
