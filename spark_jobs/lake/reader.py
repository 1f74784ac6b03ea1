"""A target's tables at the snapshots on which a batch builds, their column history and
their changes."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame

from sluice import names
from sluice.catalog.snapshots import head
from sluice.column_renames import Rename, dropped_since
from sluice.ledger.column_log import ColumnStatement
from spark_jobs.attempt import Attempt
from spark_jobs.folding.resolve import StoredState
from spark_jobs.lake.stored import stored_at
from spark_jobs.lake.table_id import changelog_id, events_id, history_id, target_id, tombstone_id
from spark_jobs.lake.tables import Lake
from spark_jobs.planning import defaults, stale_plan
from spark_jobs.planning.additions import additions_of
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.defaults import NO_DEFAULTS, Defaults
from spark_jobs.planning.dropped import may_go, without_values
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.renames_known import known_renames, renames_from, statements_on
from spark_jobs.planning.replaced_columns import changes_as
from spark_jobs.planning.span import Span
from spark_jobs.planning.stretches import DECLARED
from spark_jobs.planning.table_columns import events_columns, history_columns, target_columns
from spark_jobs.row_conditions import of_batches

# A batch's changes are small files of many changes: each is worth a task.
_SPLIT_BYTES: Final = 4 << 20


class Reader:
    """Reads a target, its tombstones and the tables of its modes at the snapshots (`bases`) on
    which an attempt builds.

    `partial`: rows may merge several changes. `before`: the defaults and renames with which the
    stored rows were written; `now`: those that hold once the batch is published.
    """

    def __init__(self, lake: Lake, plan: TablePlan, attempt: Attempt, span: Span) -> None:
        self.lake, self.plan, self.attempt = lake, plan, attempt
        self.span = span
        self.compared = (target_id(plan), tombstone_id(plan))
        planned = {target_id(plan): target_columns(plan)}
        if plan.history:
            planned[history_id(plan)] = history_columns(plan)
        if plan.append:
            planned[events_id(plan)] = events_columns(plan)
        tables = dict.fromkeys((*self.compared, *planned))
        self.bases = {table: lake.base(table) for table in tables}
        self.partial = plan.keyed and self._has_partials()
        self.types = plan.types
        self.before = lake.column_history(target_id(plan))
        stale_plan.refuse_reverted_defaults(plan, attempt.batch_id, span, self.before)
        there = {table: lake.columns(table) or {} for table in planned}
        for table, columns in there.items():
            stale_plan.refuse_missing_columns(plan, attempt.batch_id, planned[table], columns)
            stale_plan.refuse_other_types(plan, attempt.batch_id, columns)
        self.stored_columns = there[target_id(plan)]
        self.now = self._known(defaults.merged(self.before.defaults, plan.defaults))

    def _known(self, of_events: Defaults) -> ColumnHistory:
        statements = self._statements
        before, renames = self.before.renames, renames_from(statements, self.plan.config)
        known = known_renames(self.plan, renames, before)
        stale_plan.refuse_other_names(self.plan, self.attempt.batch_id, before, known, renames)
        added = additions_of(statements, self.plan.config, self.types, known)
        return self.before.known(of_events, known, added, self.types)

    @cached_property
    def _statements(self) -> list[ColumnStatement]:
        counted = {*self.attempt.counted}
        return statements_on(self.lake.catalog, self.lake.pipeline, self.plan, counted)

    @cached_property
    def going(self) -> tuple[str, ...]:
        """The columns that leave the target when this batch is published.

        Where maintenance expired changes, stored rows show what these had. The values that go are
        not moved out of rows that nothing else changes: they leave with the column.
        """
        plan, target = self.plan, target_id(self.plan)
        aside = dropped_since(self.before.renames, self.now.renames)
        found = may_go(self._statements, plan.config, self.types, aside) if plan.follows else ()
        if not found:
            return ()
        fixed = self.lake.fixed_columns(target, tuple(plan.identity))
        kept = self.stored().rows if self.lake.floor(target) else None
        found = tuple(name for name in found if name not in fixed)
        return without_values(found, self.changelog(), kept, aside)

    @property
    def gone(self) -> tuple[str, ...]:
        """Those of the `going` columns that the target had before this batch."""
        return tuple(name for name in self.going if name.lower() not in self.before.absent)

    def all_newer(self) -> bool:
        """Whether every change of the batch is known to be above everything stored."""
        highest, lowest = self._highest(), self.span.lowest
        return highest is not None and lowest is not None and lowest > highest

    def reinterprets_changes(self) -> bool:
        """Whether stored changes read differently with the defaults and renames that this batch
        brings: one of them reaches below the highest stored position."""
        changed = self.default_changes()
        return any(not self._leaves_changes_alone(one) for one in changed) or self._renames_below()

    def default_changes(self) -> list[defaults.DefaultChange]:
        """Return the columns whose stored values change with the defaults that hold now."""
        return defaults.default_changes(
            self.before.current_defaults(), self.now.current_defaults(), self.types
        )

    def _leaves_changes_alone(self, one: defaults.DefaultChange) -> bool:
        """Whether a default leaves all stored changes as they are.

        A default of DDL does if it applies above everything stored. Any other does if the batch is
        above everything stored and none of the stored changes had the column, or all are full-load
        rows.
        """
        if one.before.stated or one.now.stated:
            return one.above(self._highest())
        had_column = bool(one.before.firsts) and not defaults.of_full_load(self._highest() or "")
        return self.all_newer() and not had_column

    def needs_fold_again(self) -> bool:
        """Whether rows that merge several changes have to be folded again (see
        `reinterprets_changes`)."""
        return self.partial and self.reinterprets_changes()

    def _renames_below(self) -> bool:
        """Whether a rename that is new, or no longer known, reaches below something stored.

        With partial changes any does: a row with the position of such a change may have values of
        a full-load row, which ranks below it and may have either name.
        """
        gone = set(self.before.renames).difference(self.now.renames)
        new = self.now.new_renames(self.before) | gone
        stored = any(base.snapshot is not None for base in self.bases.values())
        return stored and bool(new if self.partial else self._beneath(new))

    def defaults_between(self, floor: str) -> Defaults:
        """Return the new defaults of DDL that apply above the floor and below something stored."""
        highest = self._highest()
        return {r.name: r.now for r in self.default_changes() if r.between(floor, highest)}

    def baseline_rows(self, rows: DataFrame, floor: str) -> DataFrame:
        """Return stored rows as the baseline for changes that maintenance expired.

        With partial changes, columns that DDL added between the floor and the highest stored
        position get their default, as if the DDL had been known when the changes expired. Same
        columns as `rows`.
        """
        added = self.defaults_between(floor) if self.partial else NO_DEFAULTS
        return defaults.as_baseline(rows, added, floor)

    def has_late_renames(self) -> bool:
        """Whether a new rename by DDL, not by the configuration, reaches below something stored.

        A rename that was known counts as before when its column arrives: only values that it took
        over without a drop would differ, and the batch would stop for them.
        """
        new = set(self.now.renames) - set(self.before.renames)
        return any(r.below != DECLARED for r in self._beneath(new))

    def _beneath(self, renames: Collection[Rename]) -> list[Rename]:
        """Return the renames that reach below something stored."""
        highest = self._highest()
        return [r for r in renames if highest is None or r.below == DECLARED or r.below <= highest]

    def _highest(self) -> str | None:
        bounds = [self.bases[table].highest for table in self.compared]
        return None if None in bounds else max(h for h in bounds if h is not None)

    def published_before(self) -> bool:
        """Whether the target has the batch's tag already: a half-published batch is
        merged again."""
        loaded = self.lake.load(target_id(self.plan))
        return (
            loaded is not None and head(loaded, names.tag_name(self.attempt.batch_id)) is not None
        )

    def stored(self, as_written: bool = False) -> StoredState:
        """Return the rows at the bases, read with the current defaults and renames, or
        `as_written`."""
        return stored_at(self.lake, self.plan, self.bases, None if as_written else self.now)

    def _has_partials(self) -> bool:
        mark = self.lake.property(target_id(self.plan), names.PROP_PARTIALS)
        return self.plan.summary.partial or mark is not None

    def changelog(self) -> DataFrame:
        """Return the published changes of the table and this batch's own."""
        return self.now.changes(self.changes_of(*self.attempt.counted))

    def batch_changes(self) -> DataFrame:
        """Return this batch's changes, under current names and with the defaults that may
        concern them."""
        lowest = self.span.lowest or ""
        below = {n: d for n, d in self.now.current_defaults().items() if d.reaches(lowest)}
        in_force = self.now if self.now.renames else ColumnHistory(below)
        return in_force.changes(self.changes_of(self.attempt.batch_id))

    def changes_of(self, *batches: str) -> DataFrame:
        """Return the changes of some batches as they were written."""
        reader = self.lake.spark.read.option("split-size", _SPLIT_BYTES)
        changelog = reader.table(changelog_id(self.plan).sql())
        return changes_as(changelog.where(of_batches(batches)), self.types)
