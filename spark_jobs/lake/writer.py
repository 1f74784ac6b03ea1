"""The side effects of a merge: a target's branches, and the writes to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.faults import Point, reach
from sluice.result import ComparedTable, StagedTable
from spark_jobs.attempt import Attempt
from spark_jobs.canonical import OP_DELETE, OP_INSERT
from spark_jobs.folding.key_ranges import KeyRange
from spark_jobs.folding.resolve import KeyEnds, StoredState
from spark_jobs.lake.reader import Reader
from spark_jobs.lake.rows_alike import alike, same_rows
from spark_jobs.lake.table_id import TableId, target_id, tombstone_id
from spark_jobs.lake.table_options import COPY_ON_WRITE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.write_check import refuse_row_loss
from spark_jobs.materialize import materialize
from spark_jobs.named_rows import view_of
from spark_jobs.planning.column_history import NO_HISTORY
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.span import Span
from spark_jobs.planning.stored_hints import hints_to_store
from spark_jobs.quoting import by_name, literal, quoted
from spark_jobs.row_conditions import is_delete

_DELETED: Final = f"s.{quoted(names.OP)} = '{OP_DELETE}'"
_LIVING: Final = f"s.{quoted(names.OP)} <> '{OP_DELETE}'"


class Writer(Reader):
    """Creates a target's branches, writes to them, and describes them for publish."""

    def __init__(
        self, lake: Lake, plan: TablePlan, attempt: Attempt, span: Span, created: bool
    ) -> None:
        super().__init__(lake, plan, attempt, span)
        self.created = created
        self.branched: list[TableId] = []
        self.begun: dict[TableId, int] = {}

    def mark_partials(self) -> None:
        """Mark a target whose updates carry only part of a row."""
        if self.partial:
            self.lake.set_property(target_id(self.plan), names.PROP_PARTIALS, "true")

    def branch(self, table: TableId) -> str:
        if table not in self.branched:
            self.lake.branch(table, self.attempt.branch, self.bases[table])
            self.branched.append(table)
            reach(Point.LOAD_BRANCHED)
        return table.sql(self.attempt.branch)

    def apply(
        self,
        changes: DataFrame,
        stored: StoredState,
        ends: KeyEnds | None = None,
        append: bool = False,
    ) -> None:
        """MERGE the changes into the target's branch, or append them if nothing is stored.

        `ends`: how the changes' keys end, if it was counted; raises AuditFailedError if another
        number of rows was written. Not for targets with soft deletes: `soft_delete.write` writes
        those.
        """
        if self.plan.soft_delete:
            return
        target = target_id(self.plan)
        columns = self.plan.data + list(names.TARGET_METADATA)
        living = ~is_delete()
        if stored.rows is None or append:
            self.append(target, changes.where(living).select(*by_name(columns)))
        else:
            ranges = ends.ranges if ends else ()
            self._merge(target, changes, self.plan.row_key, columns, _DELETED, ranges)
        self.audit_written(target, ends.rows if ends else None)

    def append(self, table: TableId, rows: DataFrame) -> None:
        """Append rows to a table's branch."""
        rows.writeTo(self.branch(table)).append()
        reach(Point.LOAD_WRITTEN)

    def overwrite(self, table: TableId, rows: DataFrame) -> None:
        """Replace all rows of a table's branch."""
        rows.writeTo(self.branch(table)).overwrite(F.lit(True))
        reach(Point.LOAD_WRITTEN)

    def _merge(
        self,
        table: TableId,
        changes: DataFrame,
        key: tuple[str, ...],
        columns: list[str],
        gone: str,
        ranges: tuple[KeyRange, ...] = (),
    ) -> None:
        """MERGE one row per change. `gone`: SQL condition for changes after which their
        key has no row. `ranges`: those of the changes' keys."""
        # Iceberg skips files by the ranges; from the equality alone it cannot.
        same_key = (f"t.{quoted(k)} = s.{quoted(k)}" for k in key)
        on = " AND ".join((*same_key, *(r.sql("t") for r in ranges)))
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
        """Raise AuditFailedError unless the first write to the branch inserted or updated `rows`
        rows; None: they were not counted."""
        loaded = None if rows is None else self.lake.load(table)
        if rows is not None and loaded is not None:
            begun = self.begun.get(table, self.bases[table].snapshot)
            refuse_row_loss(loaded, self.lake.pipeline, self.attempt, begun, rows)

    def upsert(self, table: TableId, rows: DataFrame, by: tuple[str, ...]) -> None:
        """Insert or update rows, identified by the columns `by`, in a table's branch."""
        if self.bases[table].snapshot is None:
            self.append(table, rows)
            return
        branch = self.branch(table)
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

    def merge_difference(
        self, table: TableId, wanted: DataFrame, there: DataFrame | None, by: tuple[str, ...]
    ) -> None:
        """Write the difference between the rows `there` and the rows `wanted`; equal rows are not
        touched.

        Rows are identified by the columns `by`; only rows that are `there` may be deleted.
        """
        if there is None:
            self.append(table, wanted)
            return
        changed = wanted.subtract(alike(there, wanted))
        gone = there.join(wanted, list(by), "left_anti")
        source = materialize(
            changed.withColumn(names.OP, F.lit(OP_INSERT)).unionByName(
                gone.withColumn(names.OP, F.lit(OP_DELETE)).select(*by_name(by), names.OP),
                allowMissingColumns=True,
            )
        )
        if not source.isEmpty():
            self._merge(table, source, by, wanted.columns, _DELETED)

    def replace(self, table: TableId, wanted: DataFrame, there: DataFrame | None) -> bool:
        """Overwrite the table with the rows `wanted` if the rows `there` differ; return whether
        they did.

        Any writer may have changed the rows `there`, so all of them are compared.
        """
        if there is not None and same_rows(wanted, alike(there, wanted)):
            return False
        self.overwrite(table, wanted)
        return True

    def sql(self, table: TableId, source: DataFrame, statement: Callable[[str], str]) -> None:
        """Run a statement on rows of `source`; `statement` makes its text from the name of a
        view of them."""
        if self.lake.write_mode(table) == COPY_ON_WRITE:
            # Spark 4.1 finds the files to rewrite by a query in which the tables behind a view
            # stay unresolved.
            source = materialize(source)
        with view_of(source) as view:
            self.lake.spark.sql(statement(view)).collect()
        reach(Point.LOAD_WRITTEN)

    def write_tombstones(self, applied: DataFrame, stored: StoredState, ends: KeyEnds) -> None:
        """Write a tombstone for every key whose newest event is a delete, and delete those of other
        keys.

        `ends`: how the keys end; raises AuditFailedError if another number of tombstones was
        written.
        """
        table, key, deletes = tombstone_id(self.plan), by_name(self.plan.key), ends.deletes
        columns = [*self.plan.key, *names.TARGET_METADATA]
        if stored.tombstones is None:
            if deletes:
                self.append(table, applied.where(is_delete()).select(*by_name(columns)))
                self.audit_written(table, deletes)
            return
        with_tombstone = applied.select(*key).join(
            stored.tombstones.select(*key), list(self.plan.key), "left_semi"
        )
        if deletes or not with_tombstone.isEmpty():
            source = applied.select(*by_name(columns), names.OP)
            self._merge(table, source, self.plan.key, columns, _LIVING, ends.ranges)
            self.audit_written(table, deletes)

    def truncate(self, position: str | None, stored: StoredState) -> None:
        """Delete rows and tombstones below a TRUNCATE, and write one tombstone for
        the whole table."""
        if position is None or position != stored.truncated_at:
            return
        # `soft_delete.write` marks the rows of its target.
        targets = [] if self.plan.soft_delete else [target_id(self.plan)]
        for table in (*targets, tombstone_id(self.plan)):
            self._delete(table, f"t.{quoted(names.POSITION)} <= {literal(position)}")
        self.mark(position, self.attempt.batch_id)

    def unmark(self) -> None:
        """Delete the tombstone of the whole table."""
        nulls = [f"t.{quoted(k)} IS NULL" for k in self.plan.key] or ["true"]
        self._delete(tombstone_id(self.plan), " AND ".join(nulls))

    def _delete(self, table: TableId, condition: str) -> None:
        """Delete by a MERGE, since a DELETE of whole files leaves its snapshot unsigned."""
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
        self.append(tombstone_id(self.plan), mark)

    def staged(self) -> tuple[StagedTable, ...]:
        """Return every table that got a branch, with the heads that publish will require."""
        return tuple(self._staged(table) for table in self.bases if table in self.branched)

    def unchanged_tables(self) -> tuple[ComparedTable, ...]:
        """Return every table with which the batch was compared, and in which it changed nothing."""
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
        hints = hints_to_store(self.plan, self.lake.property(table, names.PROP_HINTS))
        staged = replace(staged, created=self.created, dropped=self.going)
        return replace(staged, defaults=self._defaults(), hints=hints)

    def _defaults(self) -> str | None:
        """Return the value of `sluice.defaults` for publish to set; None leaves it as it is."""
        now = self.now.without(self.going)
        text = now.text()
        return NO_HISTORY if text is None and self.before != now else text
