"""verify --source: compare targets with the tables of the database from which their events come.

The source's rows are the expected ones. A target is compared as published or, with a watermark, in
the state that its changelog gives for that source time. Values are compared as text in one
spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.config.collations import source_name
from sluice.config.live_source import POSTGRES, LiveSource
from sluice.config.pipeline import Pipeline
from sluice.errors import TerminalError
from sluice.ledger.changelogs import stored_sources
from sluice.source_names import is_reserved, stored_name
from sluice.verification import TableReport, Verification
from spark_jobs.lake.cut import Cut, Cutter, TargetTables
from spark_jobs.lake.rows_at_cut import changes_at, has_partial_changes, live_rows_at
from spark_jobs.planning.key_names import KeyNames
from spark_jobs.planning.renames_known import names_at_source, published
from spark_jobs.quoting import quoted
from spark_jobs.verifying.begun import Begun
from spark_jobs.verifying.comparison import compared
from spark_jobs.verifying.differences import Layout
from spark_jobs.verifying.mariadb import Mariadb
from spark_jobs.verifying.postgres import Postgres
from spark_jobs.verifying.recompute import recompute, rows_of
from spark_jobs.verifying.source_database import LiveColumn, SourceDatabase, SourceTable
from spark_jobs.verifying.texts import comparable, spelled_source, spelled_target


def verify_source(
    spark: SparkSession, cutter: Cutter, pipeline: Pipeline, source: LiveSource, only: str | None
) -> Verification:
    """Compare every table of a pipeline, or one, with the source's table.

    Raises TerminalError if the source has none of the tables, or one cannot be compared, and
    TransientError while a batch is being published.
    """
    begun = Begun(cutter.ledger.pipeline)
    database, targets = _database(spark, source.address), cutter.tables(only)
    cut = cutter.cut(targets)
    where = (pipeline.name, pipeline.namespace)
    statements = published(cutter.catalog, pipeline.name)
    stored = cache(lambda: stored_sources(cutter.catalog, *where).values())
    names_at = partial(names_at_source, pipeline, statements, stored)
    sides = [_Side(spark, cut, tables, database, source, names_at) for tables in targets]
    compared_sides = [side for side in sides if side.table is not None]
    if not compared_sides:
        listed = ", ".join(side.source for side in sides) or "no table is loaded yet"
        raise TerminalError(
            f"{source.shown} has none of the tables of {cutter.ledger.pipeline}: {listed}"
        )
    reports = [side.report() for side in compared_sides]
    notes = [note for side in sides for note in side.notes]
    return begun.report(cut, reports, notes, source.shown)


def _database(spark: SparkSession, address: str) -> SourceDatabase:
    known = Postgres if address.startswith(POSTGRES) else Mariadb
    return known(spark, address)


@dataclass(frozen=True)
class _Shared:
    """The columns to compare; those of `key` identify a row, or all columns if the key is empty."""

    columns: Sequence[LiveColumn]
    key: tuple[str, ...]

    @property
    def layout(self) -> Layout:
        values = tuple(c.name for c in self.columns if c.name not in self.key)
        return Layout(self.key, values) if self.key else Layout(values, ())


class _Side:
    """One target and its table at the source; `notes` go into the report."""

    def __init__(
        self,
        spark: SparkSession,
        cut: Cut,
        tables: TargetTables,
        database: SourceDatabase,
        requested: LiveSource,
        names_at: Callable[[str, tuple[str, ...]], KeyNames],
    ) -> None:
        self.spark, self.cut, self.tables, self.database = spark, cut, tables, database
        self.requested, self.notes, self.names_at = requested, list[str](), names_at
        changelog = cut.tables[tables.changelog]
        self.source = changelog.properties.get(names.PROP_SOURCE, tables.target.name)
        self.table: SourceTable | None = database.table(self.source)
        if self.table is None:
            self._note(f"not compared, the source has no table {self.source}")

    def report(self) -> TableReport:
        assert self.table is not None
        held = self._held()
        shared = self._shared(self._columns(self.table), held)
        types = {f.name: f.dataType for f in held.schema}
        rows = self.database.rows(self.table, shared.columns)
        named = [(F.col(quoted(c.name)), c, types[c.name]) for c in shared.columns]
        wanted = rows.select(*(spelled_source(*each).alias(each[1].name) for each in named))
        found = held.select(*(spelled_target(*each).alias(each[1].name) for each in named))
        return TableReport(
            target=self.tables.target.full_name,
            key=self.tables.key,
            rows=compared(self.tables.target, self.cut, wanted, found, shared.layout),
            tombstones=None,
            foreign=self.cut.foreign(self.tables.target),
        )

    def _columns(self, table: SourceTable) -> list[LiveColumn]:
        """Return the source's columns by the names that they have in the target."""
        of_key = self.names_at(self.source, self.tables.key)
        columns = ((c, stored_name(c.name)) for c in self.database.columns(table))
        return [replace(c, name=of_key.get(name.lower(), name)) for c, name in columns]

    def _held(self) -> DataFrame:
        changes = changes_at(self.spark, self.cut, self.tables)
        until = self.requested.watermark
        if until is not None:
            self._refuse_expired()
            later = F.col(names.SOURCE_TS) > F.lit(until)
            changes = changes.where(~F.coalesce(later, F.lit(False)))
        self._note_newest(changes)
        if until is None:
            return live_rows_at(self.spark, self.cut, self.tables, changes)
        data = [c for c in changes.columns if c not in names.RESERVED_COLUMNS]
        return rows_of(
            recompute(changes, self.tables.key, data, has_partial_changes(changes, self.tables))
        )

    def _refuse_expired(self) -> None:
        floor = self.cut.floor(self.tables.target) if self.tables.key else None
        if floor is not None:
            raise TerminalError(
                f"{self.tables.target.full_name}: maintenance has forgotten its changes up to "
                f"{floor}, so what it was at a watermark cannot be told; verify without --watermark"
            )

    def _note_newest(self, changes: DataFrame) -> None:
        """Note the newest event that is compared, by position and by time."""
        newest = changes.agg(
            F.max(names.POSITION).alias("position"),
            F.max(names.SOURCE_TS).cast("string").alias("at"),
        ).collect()[0]
        at = f", made at {newest['at']} UTC" if newest["at"] else ""
        there = f"the event at {newest['position']}{at}" if newest["position"] else "no event"
        self._note(f"compared up to {there}")

    def _shared(self, columns: Sequence[LiveColumn], held: DataFrame) -> _Shared:
        types = {f.name: f.dataType for f in held.schema}
        shared = [c for c in columns if c.name in types and comparable(c, types[c.name])]
        shared_names = {c.name for c in shared}
        key = tuple(map(source_name, self.tables.key))
        missing = [k for k in key if k not in shared_names]
        if missing or not shared:
            raise TerminalError(
                f"{self.tables.target.full_name} cannot be compared with {self.source}: no common "
                f"spelling of {', '.join(missing) or 'any column'}"
            )
        reasons = _excluded_columns(columns, types)
        if unlike := [f"{n} ({why})" for n, why in reasons.items() if n not in shared_names]:
            self._note(f"columns not compared: {', '.join(unlike)}")
        return _Shared(shared, key)

    def _note(self, text: str) -> None:
        self.notes.append(f"{self.tables.target.full_name}: {text}")


def _excluded_columns(columns: Sequence[LiveColumn], held: Collection[str]) -> dict[str, str]:
    """Return why each column of either side is left out, if it is."""
    at_source = {c.name: c.kind if c.name in held else "not in the target" for c in columns}
    own = (name for name in held if not is_reserved(name) and name not in at_source)
    return at_source | dict.fromkeys(own, "not at the source")
