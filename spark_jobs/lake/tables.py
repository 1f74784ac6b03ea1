"""The lake's tables in Spark: their state, what a plan needs of them, branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sluice import names
from sluice.catalog.client import find_table, load_table
from sluice.catalog.dropped_columns import schema_of_published
from sluice.catalog.lineage import with_equal_rows
from sluice.catalog.listing import pipeline_tables
from sluice.catalog.snapshots import head, refuse_format_version
from sluice.catalog.table_rollback import restore_schema
from sluice.errors import PlanError, TransientError
from sluice.faults import Point, reach
from sluice.modes import APPEND, HISTORY
from sluice.result import StagedTable
from spark_jobs.lake.column_rewrite import AlteredTable, drop_wider, has_wider
from spark_jobs.lake.evolution import create, evolve, identify, retyped
from spark_jobs.lake.table_id import (
    TableId,
    changelog_id,
    events_id,
    history_id,
    target_id,
    tombstone_id,
)
from spark_jobs.lake.table_options import (
    COPY_ON_WRITE,
    MERGE_MODE,
    TableOptions,
    changelog_options,
    events_options,
    history_options,
    target_options,
    tombstone_options,
)
from spark_jobs.planning import column_history
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.replaced_columns import in_current_columns, is_own
from spark_jobs.planning.stored_types import refuse_unreadable_types
from spark_jobs.planning.table_columns import (
    NewColumn,
    changelog_columns,
    events_columns,
    history_columns,
    target_columns,
    tombstone_columns,
)
from spark_jobs.planning.type_changes import fixed_columns
from spark_jobs.quoting import literal, quoted

_TRIES: Final = 3
_LOST_RACES: Final = (AnalysisException, ValueError, NoSuchTableError)
"""Errors of Spark and pyiceberg for a table that is not as it was when it was read."""


@dataclass(frozen=True)
class Base:
    """The state on which a merge builds: the snapshot of `main` (None: no rows yet), the schema id
    before the batch, and an upper bound of the rows' positions (None: unknown)."""

    snapshot: int | None
    schema: int
    highest: str | None


class Lake:
    """Creates, evolves and branches tables; Spark writes, pyiceberg reads the metadata.

    `beside_others()`: whether another driver of the pipeline may be at work.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        pipeline: str,
        beside_others: Callable[[], bool] = lambda: False,
    ) -> None:
        self.spark = spark
        self.catalog = catalog
        self.pipeline = pipeline
        self._beside_others = beside_others
        self.schemas_before: dict[TableId, int] = {}
        self.schemas_after: dict[TableId, int] = {}
        self._heads_before: dict[TableId, int | None] = {}

    def load(self, table: TableId) -> Table | None:
        """Return the table's current metadata, None if the table does not exist."""
        return find_table(self.catalog, table.namespace, table.name)

    def columns(self, table: TableId) -> dict[str, str] | None:
        """Return the names and Spark types of the stored columns; None if the table does not exist.

        Columns that a change of type has set aside are left out. Raises PlanError if the table has
        columns that Spark cannot read.
        """
        return self._columns(table, self.load(table))

    def _columns(self, table: TableId, loaded: Table | None) -> dict[str, str] | None:
        """Do what `columns` does, for a table whose metadata is read already (`loaded`)."""
        if loaded is None:
            return None
        refuse_unreadable_types(loaded)
        self.spark.catalog.refreshTable(table.sql())
        fields = self.spark.table(table.sql()).schema
        return {f.name: f.dataType.simpleString() for f in fields if not is_own(f.name)}

    def fixed_columns(self, table: TableId, key: Sequence[str]) -> set[str]:
        """Return the `fixed_columns` of a table, which may not exist."""
        loaded = self.load(table)
        return {*key} if loaded is None else fixed_columns(loaded, key)

    def partition_fields(self, table: TableId) -> set[str]:
        """Return the names of the table's partition fields, former ones included."""
        loaded = self.load(table)
        specs = () if loaded is None else loaded.specs().values()
        return {field.name for spec in specs for field in spec.fields}

    def key(self, table: TableId) -> tuple[str, ...] | None:
        """Return the target's stored key; raises PlanError unless the target is the pipeline's."""
        loaded = self.load(table)
        if loaded is None:
            return None
        owner = loaded.properties.get(names.PROP_PIPELINE)
        if owner != self.pipeline:
            renamed = "; was this one renamed? give it back that name" if owner else ""
            raise PlanError(
                f"{table.full_name} belongs to {owner or 'somebody else'}, "
                f"not to pipeline {self.pipeline}{renamed}"
            )
        if (target := names.owner_target(loaded.properties)) is not None:
            raise PlanError(
                f"{table.full_name} holds the history or the events of {target}: "
                "take a `table_name` that tells them apart, or another `namespace` for one of them"
            )
        return names.key_of(loaded.properties)

    def own_tables(self, namespace: str, at_most: int) -> list[Table]:
        """Return the pipeline's targets in a namespace; none if there are more than `at_most`."""
        listed = pipeline_tables(self.catalog, namespace)
        beside = {other for _, name in listed for other in names.mode_tables(name)}
        targets = [n for n in listed if n[0] == namespace and n[1] not in beside]
        if len(targets) > at_most:
            return []
        tables = [load_table(self.catalog, name) for name in targets]
        return [t for t in tables if t.properties.get(names.PROP_PIPELINE) == self.pipeline]

    def property(self, table: TableId, name: str) -> str | None:
        """Return a property of a table, None if it is not set."""
        loaded = self.load(table)
        return None if loaded is None else loaded.properties.get(name)

    def write_mode(self, table: TableId) -> str | None:
        """Return how a MERGE writes to a table, which anybody may have changed since it was
        created; None if the table does not exist."""
        loaded = self.load(table)
        return None if loaded is None else loaded.properties.get(MERGE_MODE, COPY_ON_WRITE).lower()

    def floor(self, table: TableId) -> str | None:
        """Return the position up to which maintenance may have deleted a target's changes; None if
        it deleted none.

        The target's changelog has the same floor.
        """
        return self.property(table, names.PROP_FLOOR)

    def column_history(self, target: TableId) -> ColumnHistory:
        """Return the defaults and renames with which a target's published rows were written."""
        return column_history.read(self.property(target, names.PROP_DEFAULTS))

    def set_property(self, table: TableId, name: str, value: str) -> None:
        """Set a property of a table unless it has the value already."""
        if self.property(table, name) != value:
            pair = f"{literal(name)} = {literal(value)}"
            self.spark.sql(f"ALTER TABLE {table.sql()} SET TBLPROPERTIES ({pair})")
            reach(Point.TABLE_PROPERTY)

    def ensure_namespaces(self, namespace: str) -> None:
        """Create the namespaces of targets and changelogs, before tables are loaded in parallel."""
        for name in (namespace, names.changelog_namespace(namespace)):
            self.catalog.create_namespace_if_not_exists(name)

    def ensure(self, plan: TablePlan) -> bool:
        """Create missing tables, add new columns, widen types; return whether the target is new."""
        owner = self.pipeline
        created = self._ensure(target_id(plan), target_columns(plan), target_options(plan, owner))
        self._ensure(changelog_id(plan), changelog_columns(plan), changelog_options(plan, owner))
        self._ensure(tombstone_id(plan), tombstone_columns(plan), tombstone_options(plan, owner))
        if plan.history:
            self._refuse_foreign(plan, HISTORY, history_id(plan), names.PROP_HISTORY_OF)
            self._ensure(history_id(plan), history_columns(plan), history_options(plan, owner))
        if plan.append:
            self._refuse_foreign(plan, APPEND, events_id(plan), names.PROP_EVENTS_OF)
            self._ensure(events_id(plan), events_columns(plan), events_options(plan, owner))
        return created

    def _refuse_foreign(self, plan: TablePlan, mode: str, table: TableId, mark: str) -> None:
        loaded = self.load(table)
        if loaded is None:
            return
        marks = (names.PROP_PIPELINE, mark)
        if tuple(loaded.properties.get(mark) for mark in marks) != (self.pipeline, plan.name):
            raise PlanError(
                f"{plan.name}: what mode {mode} makes would go to {table.full_name}, which is "
                f"another table; take {mode} out of its `modes`, or choose another `table_name`"
            )

    def _ensure(self, table: TableId, columns: Sequence[NewColumn], options: TableOptions) -> bool:
        """Create or evolve a table; return whether it is new. If another driver, which needs no
        lease for it, has changed the table meanwhile, look again."""
        lost: Exception | None = None
        for _ in range(_TRIES):
            seen = self.load(table)
            try:
                return self._create_or_evolve(table, seen, columns, options)
            except _LOST_RACES as error:
                if _schema_id(self.load(table)) == _schema_id(seen):
                    raise
                lost = error
        raise TransientError(
            f"{table.full_name}: other batches changed the table meanwhile; run again"
        ) from lost

    def _create_or_evolve(
        self,
        table: TableId,
        seen: Table | None,
        columns: Sequence[NewColumn],
        options: TableOptions,
    ) -> bool:
        existing = self._columns(table, seen)
        if existing is None:
            create(self.spark, table, columns, options)
            return True
        loaded = self.load(table)
        if loaded is not None:
            refuse_format_version(self.catalog, loaded)
            if has_wider(loaded) and retyped(columns, existing):
                self._drop_wider(table)
                loaded = load_table(self.catalog, table.identifier)
            if options.identifier and not loaded.schema().identifier_field_ids:
                identify(self.spark, table, options)
                loaded = load_table(self.catalog, table.identifier)
            self.schemas_before.setdefault(table, loaded.metadata.current_schema_id)
            self._heads_before.setdefault(table, head(loaded))
        altered = AlteredTable(self.spark, self.catalog, table)
        evolve(altered, columns, existing, options.rewrites)
        reach(Point.LOAD_EVOLVED)
        evolved = self.load(table)
        if evolved is not None:
            self.schemas_after[table] = evolved.metadata.current_schema_id
        return False

    def _drop_wider(self, table: TableId) -> None:
        """Drop what a killed driver left of a change of types; raise TransientError if it may be
        that of one that is at work, which would begin again, and do the same to this one."""
        if self._beside_others():
            raise TransientError(
                f"{table.full_name}: another batch may be changing the type of a column; run again"
            )
        drop_wider(self.catalog, table)

    def restore_schemas(self) -> list[str]:
        """Remove the columns that this session added; return the tables' names.

        Nothing is removed if any of the tables has changed since: another batch may have filled the
        columns. Targets go last: plans are made from a target's columns, so no other table may have
        columns that its target lacks.
        """
        restored: list[str] = []
        if any(self._has_moved(table) for table in self.schemas_before):
            return restored
        for table, before in reversed(self.schemas_before.items()):
            after, now = self.schemas_after.get(table), self.load(table)
            if after in (None, before) or now is None:
                continue
            if now.metadata.current_schema_id != after:
                continue
            if restore_schema(self.catalog, table.namespace, table.name, before):
                reach(Point.LOAD_RESTORED)
                restored.append(table.full_name)
        return restored

    def _has_moved(self, table: TableId) -> bool:
        """Whether `main` has moved; not for a changelog, which every load moves."""
        if names.is_changelog(table.namespace, table.name):
            return False
        loaded = self.load(table)
        return loaded is None or head(loaded) != self._heads_before.get(table)

    def base(self, table: TableId) -> Base:
        """Return `main` of a table as it is now, as the base of a merge."""
        loaded = self.load(table)
        if loaded is None:
            raise PlanError(
                f"{table.full_name} was dropped while its batch was loading: run again, which "
                "makes it anew or says how to rebuild it"
            )
        main, schema = head(loaded), self._schema_before(table, loaded)
        highest = "" if main is None else loaded.properties.get(names.PROP_HIGHEST)
        return Base(main, schema, highest)

    def _schema_before(self, table: TableId, loaded: Table) -> int:
        """Return the schema that a rollback restores: the one that this session found, or that of a
        batch published since.

        Commits of maintenance and for rewritten types are not batches.
        """
        now, main = loaded.metadata.current_schema_id, head(loaded)
        past = list(with_equal_rows(loaded, main))
        if main is None or self._heads_before.get(table, main) in past:
            return self.schemas_before.get(table, now)
        newest = loaded.snapshot_by_id(past[-1])
        if newest is None or newest.schema_id is None:
            return now
        return schema_of_published(loaded, newest.schema_id)

    def rows(self, table: TableId, snapshot: int | None) -> DataFrame | None:
        """Return a snapshot's rows, in the current columns that the snapshot has; None
        without a snapshot."""
        if snapshot is None:
            return None
        rows = self.spark.read.option("versionAsOf", snapshot).table(table.sql())
        loaded = self.load(table)
        if loaded is None:
            return rows
        history = column_history.read(loaded.properties.get(names.PROP_DEFAULTS))
        return in_current_columns(rows, loaded, snapshot, history.absent)

    def branch(self, table: TableId, branch: str, base: Base) -> None:
        """Create the branch at the base."""
        version = "" if base.snapshot is None else f" AS OF VERSION {base.snapshot}"
        self.spark.sql(f"ALTER TABLE {table.sql()} CREATE BRANCH {quoted(branch)}{version}")
        self.spark.catalog.refreshTable(table.sql())

    def staged(self, table: TableId, branch: str, base: Base, highest: str | None) -> StagedTable:
        """Describe for publish a table that the batch wrote on `branch`.

        Raises TransientError if another run has dropped the branch meanwhile.
        """
        loaded = self.load(table)
        if loaded is None or branch not in loaded.metadata.refs:
            raise TransientError(f"{table.full_name}: branch {branch} is gone; run again")
        return StagedTable(
            table.namespace,
            table.name,
            branch,
            base.snapshot,
            loaded.metadata.refs[branch].snapshot_id,
            base.schema,
            highest=highest,
        )


def _schema_id(table: Table | None) -> int | None:
    return None if table is None else table.metadata.current_schema_id
