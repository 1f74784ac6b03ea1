"""The side effects of a merge: a target's branches, and the writes to them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.snapshots import head
from sluice.column_renames import Rename
from sluice.faults import Point, reach
from sluice.result import ComparedTable, StagedTable
from spark_jobs.canonical import OP_DELETE, OP_INSERT, is_delete, literal, of_batches, quoted
from spark_jobs.compare import alike, same_rows
from spark_jobs.folding.resolve import Stored
from spark_jobs.kept import keep
from spark_jobs.lake.stored import stored_at
from spark_jobs.lake.tables import (
    Lake,
    TableId,
    changelog_id,
    events_id,
    history_id,
    target_id,
    tombstone_id,
)
from spark_jobs.lake.written import refuse_loss
from spark_jobs.planning import defaults, overtaken
from spark_jobs.planning.additions import additions_of
from spark_jobs.planning.column_history import NO_HISTORY, ColumnHistory
from spark_jobs.planning.defaults import NO_DEFAULTS, Defaults
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.renames import DECLARED
from spark_jobs.planning.renames_known import known_renames, renames_from, statements_on
from spark_jobs.planning.span import Span
from spark_jobs.planning.widening import changes_as

_SOURCE_VIEW: Final = "sluice_source"
_COPY_ON_WRITE: Final = "copy-on-write"
# A batch's changes are small files of many changes: each is worth a task.
_SPLIT_BYTES: Final = 4 << 20
_DELETED: Final = f"s.{quoted(names.OP)} = '{OP_DELETE}'"
_LIVING: Final = f"s.{quoted(names.OP)} <> '{OP_DELETE}'"


@dataclass(frozen=True)
class Attempt:
    """One try at one batch; `published`: the batches published when the lease was taken."""

    batch_id: str
    branch: str
    published: tuple[str, ...] = ()


class Writer:
    """Creates a target's branches, writes to them, and describes them for publish."""

    def __init__(
        self, lake: Lake, plan: TablePlan, attempt: Attempt, span: Span, created: bool
    ) -> None:
        self.lake, self.plan, self.attempt, self.created = lake, plan, attempt, created
        self.span = span
        self.compared = (target_id(plan), tombstone_id(plan))
        modes = ((plan.history, history_id(plan)), (plan.append, events_id(plan)))
        beside = tuple(table for enabled, table in modes if enabled)
        self.bases = {table: lake.base(table) for table in (*self.compared, *beside)}
        self.branched: list[TableId] = []
        self.begun: dict[TableId, int] = {}
        self.partial = plan.keyed and self._has_partials()
        self.types = plan.types
        self.before = lake.column_history(target_id(plan))
        overtaken.refuse_forgotten(plan, attempt.batch_id, span, self.before)
        there = [lake.columns(table) or {} for table in (self.compared[0], *beside)]
        for columns in there:
            overtaken.refuse_other_types(plan, attempt.batch_id, columns)
        self.stored_columns = there[0]
        self.now = self._known(defaults.lowest(self.before.defaults, plan.defaults))

    @classmethod
    def open(
        cls, lake: Lake, plan: TablePlan, attempt: Attempt, span: Span, created: bool
    ) -> Writer:
        """Open a writer for an attempt; marks a target whose updates carry only part of a row."""
        writer = cls(lake, plan, attempt, span, created)
        if writer.partial:
            lake.set_property(target_id(plan), names.PROP_PARTIALS, "true")
        return writer

    def _known(self, of_events: Defaults) -> ColumnHistory:
        counted = {*self.attempt.published, self.attempt.batch_id}
        statements = statements_on(self.lake.catalog, self.lake.pipeline, self.plan, counted)
        before, renames = self.before.renames, renames_from(statements, self.plan.config)
        known = known_renames(self.plan, renames, before)
        overtaken.refuse_other_names(self.plan, self.attempt.batch_id, before, known, renames)
        return ColumnHistory(
            of_events, known, additions_of(statements, self.plan.config, self.types, known)
        )

    def all_newer(self) -> bool:
        """Whether every change of the batch is known to be above everything stored."""
        highest, lowest = self._highest(), self.span.lowest
        return highest is not None and lowest is not None and lowest > highest

    def retells(self) -> bool:
        """Whether the batch brings defaults or renames that change how stored changes are read."""
        refills = self._refills()
        return any(not self._lack_alike(refill) for refill in refills) or self._renames_below()

    def _refills(self) -> list[defaults.Refill]:
        return defaults.refills(self.before.held(), self.now.held(), self.types)

    def _lack_alike(self, refill: defaults.Refill) -> bool:
        """Whether a default changes no stored change: the batch is above them, and either none has
        the column or all are full-load rows, which take no default away."""
        if refill.before.stated or refill.now.stated:
            return refill.above(self._highest())
        had_column = bool(refill.before.firsts) and not defaults.of_full_load(self._highest() or "")
        return self.all_newer() and not had_column

    def refolds(self) -> bool:
        """Whether rows that merge several changes have to be folded again."""
        return self.partial and self.retells()

    def _renames_below(self) -> bool:
        """Whether a new rename is below something stored."""
        new = set(self.now.renames).symmetric_difference(self.before.renames)
        stored = any(base.snapshot is not None for base in self.bases.values())
        return stored and bool(self._beneath(new))

    def defaults_between(self, floor: str) -> Defaults:
        """Return new defaults of statements that are above the floor and below something stored."""
        highest = self._highest()
        return {r.name: r.now for r in self._refills() if r.between(floor, highest)}

    def standing(self, rows: DataFrame, floor: str) -> DataFrame:
        """Return stored rows as they stand for the changes below the floor."""
        added = self.defaults_between(floor) if self.partial else NO_DEFAULTS
        return defaults.as_standing(rows, added, floor)

    def renames_told_late(self) -> bool:
        """Whether a new rename of DDL, not of the configuration, is below something stored."""
        new = set(self.now.renames) - set(self.before.renames)
        return any(r.below != DECLARED for r in self._beneath(new))

    def _beneath(self, renames: Collection[Rename]) -> list[Rename]:
        """Return the renames that are not above everything stored."""
        highest = self._highest()
        return [r for r in renames if highest is None or r.below == DECLARED or r.below <= highest]

    def _highest(self) -> str | None:
        bounds = [self.bases[table].highest for table in self.compared]
        return None if None in bounds else max(h for h in bounds if h is not None)

    def published_before(self) -> bool:
        """Whether the target has the batch's tag: a half-published batch is merged again."""
        loaded = self.lake.load(target_id(self.plan))
        return (
            loaded is not None and head(loaded, names.tag_name(self.attempt.batch_id)) is not None
        )

    def stored(self, as_written: bool = False) -> Stored:
        """Return the rows at the bases, by the current defaults and renames or `as_written`."""
        return stored_at(self.lake, self.plan, self.bases, None if as_written else self.now)

    def _has_partials(self) -> bool:
        mark = self.lake.property(target_id(self.plan), names.PROP_PARTIALS)
        return self.plan.found.partial or mark is not None

    def changelog(self) -> DataFrame:
        """Return the published changes of the table and this batch's own."""
        counted = (*self.attempt.published, self.attempt.batch_id)
        return self.now.changes(self.changes_of(*counted))

    def mine(self) -> DataFrame:
        """Return this batch's changes."""
        lowest = self.span.lowest or ""
        below = {n: d for n, d in self.now.held().items() if d.reaches(lowest)}
        in_force = self.now if self.now.renames else ColumnHistory(below)
        return in_force.changes(self.changes_of(self.attempt.batch_id))

    def changes_of(self, *batches: str) -> DataFrame:
        """Return the changes of some batches as they were written."""
        reader = self.lake.spark.read.option("split-size", _SPLIT_BYTES)
        changelog = reader.table(changelog_id(self.plan).sql())
        return changes_as(changelog.where(of_batches(batches)), self.types)

    def branch(self, table: TableId) -> str:
        if table not in self.branched:
            self.lake.branch(table, self.attempt.branch, self.bases[table])
            self.branched.append(table)
            reach(Point.LOAD_BRANCHED)
        return table.sql(self.attempt.branch)

    def apply(
        self,
        changes: DataFrame,
        stored: Stored,
        rows: int | None = None,
        by: tuple[str, ...] | None = None,
        append: bool = False,
    ) -> None:
        """MERGE the changes into the target's branch, or append them where nothing is stored.

        `rows`: the number of changes that are no deletes, where it was counted; raises
        AuditFailedError where another number was written. Mode soft_delete writes its targets
        elsewhere.
        """
        if self.plan.soft_delete:
            return
        target = target_id(self.plan)
        columns = self.plan.data + list(names.TARGET_METADATA)
        living = ~is_delete()
        if stored.rows is None or append:
            self._append(target, changes.where(living), columns)
        else:
            self._merge(target, changes, by or self.plan.key, columns, _DELETED)
        self.audit_written(target, rows)

    def _append(self, table: TableId, rows: DataFrame, columns: list[str]) -> None:
        rows.select(*(quoted(c) for c in columns)).writeTo(self.branch(table)).append()

    def _merge(
        self,
        table: TableId,
        changes: DataFrame,
        key: tuple[str, ...],
        columns: list[str],
        gone: str,
    ) -> None:
        """MERGE one row per change; a key whose change is `gone`, a condition in SQL, gets none."""
        on = " AND ".join(f"t.{quoted(k)} = s.{quoted(k)}" for k in key)
        sets = ", ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in columns)
        listed, values = (", ".join(f"{p}{quoted(c)}" for c in columns) for p in ("", "s."))
        branch = self.branch(table)
        self.sql(
            table,
            changes,
            lambda source: (
                f"MERGE INTO {branch} t USING {source} s ON {on} "
                f"WHEN MATCHED AND {gone} THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET {sets} "
                f"WHEN NOT MATCHED AND NOT {gone} THEN INSERT ({listed}) VALUES ({values})"
            ),
        )

    def audit_written(self, table: TableId, rows: int | None) -> None:
        """Raise AuditFailedError where the first write to the branch inserted or updated another
        number of rows; None: they were not counted."""
        reach(Point.LOAD_WRITTEN)
        loaded = None if rows is None else self.lake.load(table)
        if rows is not None and loaded is not None:
            begun = self.begun.get(table, self.bases[table].snapshot)
            refuse_loss(loaded, self.attempt.branch, begun, rows)

    def upsert(self, table: TableId, rows: DataFrame, by: tuple[str, ...]) -> None:
        """Insert or update rows, identified by the columns `by`, in a table's branch."""
        branch = self.branch(table)
        if self.bases[table].snapshot is None:
            rows.writeTo(branch).append()
            return
        on = " AND ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in by)
        content = [c for c in rows.columns if c not in (*by, names.BATCH_ID)]
        differs = " OR ".join(f"NOT (t.{quoted(c)} <=> s.{quoted(c)})" for c in content)
        self.sql(
            table,
            rows,
            lambda source: (
                f"MERGE INTO {branch} t USING {source} s ON {on} "
                f"WHEN MATCHED AND ({differs}) THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ),
        )

    def settle(
        self, table: TableId, wanted: DataFrame, there: DataFrame | None, by: tuple[str, ...]
    ) -> None:
        """Replace the rows `there` by those `wanted`, and touch no equal ones.

        Rows are identified by the columns `by`; only rows that are `there` may be deleted.
        """
        if there is None:
            wanted.writeTo(self.branch(table)).append()
            return
        changed = wanted.subtract(alike(there, wanted))
        gone = there.join(wanted, list(by), "left_anti")
        source = keep(
            changed.withColumn(names.OP, F.lit(OP_INSERT)).unionByName(
                gone.withColumn(names.OP, F.lit(OP_DELETE)).select(*map(quoted, by), names.OP),
                allowMissingColumns=True,
            )
        )
        if not source.isEmpty():
            self._merge(table, source, by, wanted.columns, _DELETED)

    def replace(self, table: TableId, wanted: DataFrame, there: DataFrame | None) -> bool:
        """Overwrite the table by the rows `wanted` where those `there` differ; True where they did.

        Any writer may have changed the rows `there`, so all of them are compared.
        """
        if there is not None and same_rows(wanted, alike(there, wanted)):
            return False
        wanted.writeTo(self.branch(table)).overwrite(F.lit(True))
        return True

    def sql(self, table: TableId, source: DataFrame, statement: Callable[[str], str]) -> None:
        """Run a statement that reads `source`; it gets the name of a view."""
        rewrites = self.plan.config.write_mode == _COPY_ON_WRITE
        if rewrites and table != tombstone_id(self.plan):
            # Spark 4.1 finds the files to rewrite by a query in which the tables behind a view
            # stay unresolved.
            source = keep(source)
        view = f"{_SOURCE_VIEW}_{abs(hash((table, self.attempt.branch)))}"
        source.createOrReplaceTempView(view)
        try:
            self.lake.spark.sql(statement(view)).collect()
        finally:
            self.lake.spark.catalog.dropTempView(view)

    def write_tombstones(self, applied: DataFrame, stored: Stored, deletes: int) -> None:
        """Write a tombstone for every key whose newest event is a delete; delete the others'.

        `deletes`: how many there are; raises AuditFailedError where another number was written.
        """
        table, key = tombstone_id(self.plan), [quoted(k) for k in self.plan.key]
        columns = [*self.plan.key, *names.TARGET_METADATA]
        if stored.tombstones is None:
            if deletes:
                self._append(table, applied.where(is_delete()), columns)
                self.audit_written(table, deletes)
            return
        with_tombstone = applied.select(*key).join(
            stored.tombstones.select(*key), list(self.plan.key), "left_semi"
        )
        if deletes or not with_tombstone.isEmpty():
            source = applied.select(*(quoted(c) for c in columns), names.OP)
            self._merge(table, source, self.plan.key, columns, _LIVING)
            self.audit_written(table, deletes)

    def truncate(self, position: str | None, stored: Stored) -> None:
        """Delete rows and tombstones below a TRUNCATE; write one tombstone for the whole table."""
        if position is None or position != stored.truncated_at:
            return
        for table in self.compared[1:] if self.plan.soft_delete else self.compared:
            self._delete(table, f"t.{quoted(names.POSITION)} <= {literal(position)}")
        self.mark(position, self.attempt.batch_id)

    def unmark(self) -> None:
        """Delete the tombstone of the whole table."""
        nulls = [f"t.{quoted(k)} IS NULL" for k in self.plan.key] or ["true"]
        self._delete(tombstone_id(self.plan), " AND ".join(nulls))

    def _delete(self, table: TableId, condition: str) -> None:
        """Delete by a MERGE: a DELETE of whole files leaves its snapshot unsigned."""
        one = self.lake.spark.range(1)
        merge = f"MERGE INTO {self.branch(table)} t USING"
        self.sql(table, one, lambda s: f"{merge} {s} s ON {condition} WHEN MATCHED THEN DELETE")

    def mark(self, position: str, batch_id: str) -> None:
        """Write the tombstone of the whole table: the newest TRUNCATE, and its batch.

        It expires with that batch's changes.
        """
        keys = [
            f"CAST(NULL AS {c.stored.spark}) AS {quoted(c.name)}"
            for c in self.plan.columns
            if c.name in self.plan.key
        ]
        mark = self.lake.spark.range(1).selectExpr(
            *keys,
            f"{literal(position)} AS {names.POSITION}",
            f"CAST(NULL AS timestamp) AS {names.SOURCE_TS}",
            f"{literal(batch_id)} AS {names.BATCH_ID}",
        )
        mark.writeTo(self.branch(tombstone_id(self.plan))).append()

    def staged(self) -> tuple[StagedTable, ...]:
        """Return every table that got a branch, with the heads that publish will require."""
        return tuple(self._staged(table) for table in self.bases if table in self.branched)

    def left_alone(self) -> tuple[ComparedTable, ...]:
        """Return every table that the batch was compared with and changed nothing in."""
        return tuple(
            ComparedTable(table.namespace, table.name, base.snapshot)
            for table, base in self.bases.items()
            if table not in self.branched
        )

    def _staged(self, table: TableId) -> StagedTable:
        base = self.bases[table]
        highest = None if base.highest is None else max(base.highest, self.span.highest or "")
        staged = self.lake.staged(table, self.attempt.branch, base, highest)
        if table != target_id(self.plan):
            return staged
        return replace(staged, created=self.created, defaults=self._defaults())

    def _defaults(self) -> str | None:
        """Return the value of `sluice.defaults` that publish sets; None leaves it as it is."""
        text = self.now.text()
        return NO_HISTORY if text is None and self.before != self.now else text
