"""The lake's tables from Spark: names, creation, additive evolution, branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from sluice import names
from sluice.coltypes import parse_type
from sluice.errors import PlanError
from sluice.partitions import Partition
from sluice.result import StagedTable
from sluice.snapshots import head, restore_schema
from spark_jobs import told
from spark_jobs.canonical import literal, quoted
from spark_jobs.plan import TablePlan
from spark_jobs.told import Told

_CHANGELOG_TYPES = {
    names.OP: "string", names.POSITION: "string", names.SOURCE_TS: "timestamp",
    names.BATCH_ID: "string", names.TX_ID: "string", names.EVENT_ID: "string",
    names.ABSENT: "array<string>", names.COUNTED: "boolean", names.ORIGIN_FILE: "string",
    names.ORIGIN_RECORD: "bigint",
}  # fmt: skip
_HISTORY_TYPES = {
    names.VALID_FROM: "timestamp", names.VALID_TO: "timestamp", names.IS_CURRENT: "boolean",
    names.POSITION: "string", names.POSITION_TO: "string", names.BATCH_ID: "string",
}  # fmt: skip
_SOFT_DELETE_TYPES = {
    names.DELETED_AT: "timestamp", names.IS_DELETED: "boolean", names.DELETED_POSITION: "string",
}  # fmt: skip
_COMMON = {
    "format-version": "2",
    "commit.retry.num-retries": "20",
    "commit.retry.max-wait-ms": "5000",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_WIDER = {("int", "bigint"), ("float", "double")}


@dataclass(frozen=True)
class TableId:
    """A table of the lake by namespace and name."""

    namespace: str
    name: str

    @property
    def text(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}.{self.name}"

    def sql(self, branch: str | None = None) -> str:
        """The quoted identifier, of a branch where one is named."""
        parts = [names.CATALOG, self.namespace, self.name]
        if branch is not None:
            parts.append(f"branch_{branch}")
        return ".".join(quoted(p) for p in parts)


@dataclass(frozen=True)
class Base:
    """Where a merge starts: `main`'s snapshot (None: no rows yet), the schema id from before the
    batch, and a position that no row is above (None: not known)."""

    snapshot: int | None
    schema: int
    highest: str | None


def target_id(plan: TablePlan) -> TableId:
    """The table people query."""
    return TableId(plan.namespace, plan.target)


def changelog_id(plan: TablePlan) -> TableId:
    """The table's changelog."""
    return TableId(names.changelog_namespace(plan.namespace), names.changelog_table(plan.target))


def tombstone_id(plan: TablePlan) -> TableId:
    """The table's tombstones."""
    return TableId(names.changelog_namespace(plan.namespace), names.tombstone_table(plan.target))


def history_id(plan: TablePlan) -> TableId:
    """The table of the versions of every row; there where the plan has mode history."""
    return TableId(plan.namespace, names.history_table(plan.target))


@dataclass(frozen=True)
class Column:
    """A column to create: Spark type, and whether NULL is refused."""

    name: str
    type: str
    required: bool = False


def target_columns(plan: TablePlan) -> list[Column]:
    """The source's columns, the audit columns, the marks of deleted rows; keys refuse NULL."""
    data = [Column(c.name, c.stored.spark, c.name in plan.key) for c in plan.columns]
    data += [Column(n, _CHANGELOG_TYPES[n]) for n in names.TARGET_METADATA]
    return data + [Column(n, t) for n, t in _SOFT_DELETE_TYPES.items() if plan.soft_delete]


def history_columns(plan: TablePlan) -> list[Column]:
    """The source's columns and those of a version; keys refuse NULL."""
    data = [Column(c.name, c.stored.spark, c.name in plan.key) for c in plan.columns]
    return data + [Column(n, t) for n, t in _HISTORY_TYPES.items()]


def changelog_columns(plan: TablePlan) -> list[Column]:
    """The source's columns, all nullable, and the metadata of an event."""
    data = [Column(c.name, c.stored.spark) for c in plan.columns]
    return data + [Column(n, _CHANGELOG_TYPES[n]) for n in names.CHANGELOG_METADATA]


def tombstone_columns(plan: TablePlan) -> list[Column]:
    """The key and the audit columns; the tombstone of a whole table has NULL keys."""
    keys = [Column(c.name, c.stored.spark) for c in plan.columns if c.name in plan.key]
    return keys + [Column(n, _CHANGELOG_TYPES[n]) for n in names.TARGET_METADATA]


def refuse_widening(table: TableId, column: Column, before: str) -> None:
    """Raise PlanError unless Iceberg can change the column's type in place."""
    old, new = parse_type(before), parse_type(column.type)
    decimals = old.name == new.name == "decimal" and old.scale == new.scale
    if not decimals and (before, column.type) not in _WIDER:
        raise PlanError(
            f"{table.namespace}.{table.name}: column {column.name!r} cannot become "
            f"{column.type} from {before} in place; hint a type that holds both"
        )


class Lake:
    """Creates, evolves and branches tables; Spark writes, pyiceberg reads the metadata."""

    def __init__(self, spark: SparkSession, catalog: Catalog, pipeline: str) -> None:
        self.spark = spark
        self.catalog = catalog
        self.pipeline = pipeline
        self.schemas_before: dict[TableId, int] = {}
        self.schemas_after: dict[TableId, int] = {}
        self._heads_before: dict[TableId, int | None] = {}

    def load(self, table: TableId) -> Table | None:
        """The table's current metadata, None where there is no such table."""
        try:
            return self.catalog.load_table((table.namespace, table.name))
        except NoSuchTableError:
            return None

    def columns(self, table: TableId) -> dict[str, str] | None:
        """Stored column names and Spark types; None where there is no such table."""
        if self.load(table) is None:
            return None
        self.spark.catalog.refreshTable(table.sql())
        return {f.name: f.dataType.simpleString() for f in self.spark.table(table.sql()).schema}

    def key(self, table: TableId) -> tuple[str, ...] | None:
        """The key that the target was made with; raises PlanError for what is no target of ours."""
        loaded = self.load(table)
        if loaded is None:
            return None
        owner = loaded.properties.get(names.PROP_PIPELINE)
        if owner != self.pipeline:
            raise PlanError(
                f"{table.namespace}.{table.name} belongs to {owner or 'somebody else'}, "
                f"not to pipeline {self.pipeline}"
            )
        if names.PROP_HISTORY_OF in loaded.properties:
            raise PlanError(
                f"{table.namespace}.{table.name} is the history of "
                f"{loaded.properties[names.PROP_HISTORY_OF]}: "
                "tell them apart in `table_name`, for example {database}_{table}"
            )
        return names.decode_key(loaded.properties.get(names.PROP_KEY, "[]"))

    def own_tables(self, namespace: str, at_most: int) -> list[Table]:
        """The pipeline's targets in a namespace; none where the namespace holds more tables."""
        try:
            listed = self.catalog.list_tables(namespace)
        except NoSuchNamespaceError:
            return []
        histories = {names.history_table(name[-1]) for name in listed}
        targets = [name for name in listed if name[-1] not in histories]
        if len(targets) > at_most:
            return []
        tables = [self.catalog.load_table(name) for name in targets]
        return [t for t in tables if t.properties.get(names.PROP_PIPELINE) == self.pipeline]

    def property(self, table: TableId, name: str) -> str | None:
        """A property of a table, None where it is not set."""
        loaded = self.load(table)
        return None if loaded is None else loaded.properties.get(name)

    def told(self, target: TableId) -> Told:
        """What a target's rows were written by, as far as is published."""
        return told.read(self.property(target, names.PROP_DEFAULTS))

    def set_property(self, table: TableId, name: str, value: str) -> None:
        """Set a property of a table where it is not that already."""
        if self.property(table, name) != value:
            pair = f"{literal(name)} = {literal(value)}"
            self.spark.sql(f"ALTER TABLE {table.sql()} SET TBLPROPERTIES ({pair})")

    def ensure_namespaces(self, namespace: str) -> None:
        """Make the namespaces of targets and of changelogs, before tables are side by side."""
        for name in (namespace, names.changelog_namespace(namespace)):
            self.catalog.create_namespace_if_not_exists(name)

    def ensure(self, plan: TablePlan) -> bool:
        """Create what is missing of the tables and add new columns; True: target is new."""
        created = self._ensure(target_id(plan), target_columns(plan), self._target_options(plan))
        self._ensure(changelog_id(plan), changelog_columns(plan), self._changelog_options(plan))
        self._ensure(tombstone_id(plan), tombstone_columns(plan), self._tombstone_options(plan))
        if plan.history:
            self._refuse_foreign_history(plan)
            self._ensure(history_id(plan), history_columns(plan), self._history_options(plan))
        return created

    def _refuse_foreign_history(self, plan: TablePlan) -> None:
        found = self.load(history_id(plan))
        if found is None:
            return
        marks = (names.PROP_PIPELINE, names.PROP_HISTORY_OF)
        if tuple(found.properties.get(mark) for mark in marks) != (self.pipeline, plan.name):
            raise PlanError(
                f"{plan.name}: its history would go to {'.'.join(found.name())}, which is another "
                "table; take history out of its `modes`, or choose another `table_name`"
            )

    def _ensure(
        self,
        table: TableId,
        columns: Sequence[Column],
        options: tuple[str, dict[str, str], Sequence[str]],
    ) -> bool:
        existing = self.columns(table)
        if existing is None:
            self._create(table, columns, *options)
            return True
        loaded = self.load(table)
        if loaded is not None:
            self.schemas_before.setdefault(table, loaded.metadata.current_schema_id)
            self._heads_before.setdefault(table, head(loaded))
        self._evolve(table, columns, existing)
        evolved = self.load(table)
        if evolved is not None:
            self.schemas_after[table] = evolved.metadata.current_schema_id
        return False

    def _create(
        self,
        table: TableId,
        columns: Sequence[Column],
        partition: str,
        properties: dict[str, str],
        identifier: Sequence[str],
    ) -> None:
        listed = ", ".join(
            f"{quoted(c.name)} {c.type}{' NOT NULL' if c.required else ''}" for c in columns
        )
        props = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
        self.spark.sql(
            f"CREATE TABLE {table.sql()} ({listed}) USING iceberg {partition} "
            f"TBLPROPERTIES ({props})"
        )
        if identifier:
            fields = ", ".join(quoted(c) for c in identifier)
            self.spark.sql(f"ALTER TABLE {table.sql()} SET IDENTIFIER FIELDS {fields}")

    def _evolve(self, table: TableId, columns: Sequence[Column], existing: dict[str, str]) -> None:
        """Additive changes only: new columns, and the promotions that Iceberg allows in place."""
        added = [c for c in columns if c.name not in existing]
        if added:
            listed = ", ".join(f"{quoted(c.name)} {c.type}" for c in added)
            self.spark.sql(f"ALTER TABLE {table.sql()} ADD COLUMNS ({listed})")
        for column in columns:
            before = existing.get(column.name, column.type)
            if before != column.type:
                self._widen(table, column, before)

    def _widen(self, table: TableId, column: Column, before: str) -> None:
        refuse_widening(table, column, before)
        self.spark.sql(
            f"ALTER TABLE {table.sql()} ALTER COLUMN {quoted(column.name)} TYPE {column.type}"
        )

    def _target_options(self, plan: TablePlan) -> tuple[str, dict[str, str], Sequence[str]]:
        mode = plan.config.write_mode
        properties = {
            **self._marks(plan),
            "format-version": str(plan.config.format_version),
            **{f"write.{w}.mode": mode for w in ("merge", "update", "delete")},
        }
        floating = any(
            c.stored.name in ("float", "double") for c in plan.columns if c.name in plan.key
        )
        return _partitioned(plan.config.partitions), properties, () if floating else plan.key

    def _history_options(self, plan: TablePlan) -> tuple[str, dict[str, str], Sequence[str]]:
        _, properties, _ = self._target_options(plan)
        columns = {c.name for c in plan.columns}
        clause = _partitioned([p for p in plan.config.partitions if p.column in columns])
        return clause, {**properties, names.PROP_HISTORY_OF: plan.name}, ()

    def _changelog_options(self, plan: TablePlan) -> tuple[str, dict[str, str], Sequence[str]]:
        properties = {**self._marks(plan), "write.distribution-mode": "none"}
        return f"PARTITIONED BY ({quoted(names.BATCH_ID)})", properties, ()

    def _tombstone_options(self, plan: TablePlan) -> tuple[str, dict[str, str], Sequence[str]]:
        modes = {f"write.{w}.mode": "merge-on-read" for w in ("merge", "update", "delete")}
        return "", {**self._marks(plan), **modes}, ()

    def _marks(self, plan: TablePlan) -> dict[str, str]:
        return {
            **_COMMON,
            names.PROP_PIPELINE: self.pipeline,
            names.PROP_SOURCE: plan.source.name,
            names.PROP_KEY: names.encode_key(plan.key),
        }

    def restore_schemas(self) -> list[str]:
        """Take back the columns that this session added, where nobody changed a table since: who
        published meanwhile may have filled them."""
        restored: list[str] = []
        if any(self._has_moved(table) for table in self.schemas_before):
            return restored
        for table, before in self.schemas_before.items():
            after, now = self.schemas_after.get(table), self.load(table)
            if after in (None, before) or now is None:
                continue
            if now.metadata.current_schema_id == after:
                restore_schema(self.catalog, table.namespace, table.name, before)
                restored.append(f"{table.namespace}.{table.name}")
        return restored

    def _has_moved(self, table: TableId) -> bool:
        """Whether `main` did; that of a changelog does by every load."""
        if names.is_changelog(table.namespace, table.name):
            return False
        loaded = self.load(table)
        return loaded is None or head(loaded) != self._heads_before.get(table)

    def base(self, table: TableId) -> Base:
        """`main` of a table as it is now, for all that follows to start from."""
        loaded = self.load(table)
        if loaded is None:
            raise PlanError(f"{table.namespace}.{table.name} vanished while its batch was loading")
        main = loaded.metadata.refs.get("main")
        schema = self.schemas_before.get(table, loaded.metadata.current_schema_id)
        if main is None:
            return Base(None, schema, "")
        return Base(main.snapshot_id, schema, loaded.properties.get(names.PROP_HIGHEST))

    def rows(self, table: TableId, snapshot: int | None) -> DataFrame | None:
        """What the table held at a snapshot, in the columns that it had then; None: nothing."""
        if snapshot is None:
            return None
        return self.spark.read.option("versionAsOf", snapshot).table(table.sql())

    def branch(self, table: TableId, branch: str, base: Base) -> None:
        """Make the branch from the base."""
        version = "" if base.snapshot is None else f" AS OF VERSION {base.snapshot}"
        self.spark.sql(f"ALTER TABLE {table.sql()} CREATE BRANCH {quoted(branch)}{version}")
        self.spark.catalog.refreshTable(table.sql())

    def staged(self, table: TableId, branch: str, base: Base, highest: str | None) -> StagedTable:
        """What publish needs to know of a table that the batch wrote on `branch`."""
        loaded = self.load(table)
        if loaded is None or branch not in loaded.metadata.refs:
            raise PlanError(f"{table.namespace}.{table.name}: branch {branch} is gone; run again")
        return StagedTable(
            table.namespace,
            table.name,
            branch,
            base.snapshot,
            loaded.metadata.refs[branch].snapshot_id,
            base.schema,
            highest=highest,
        )


def _partitioned(fields: Sequence[Partition]) -> str:
    return f"PARTITIONED BY ({', '.join(p.sql for p in fields)})" if fields else ""
