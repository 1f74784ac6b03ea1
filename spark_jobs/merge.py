"""merge: one table's changes of a batch into a branch of its target and of its tombstones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from sluice import names
from sluice.result import Counts, StagedTable
from spark_jobs.canonical import OP_DELETE, OP_TRUNCATE, quoted
from spark_jobs.floor import since_floor
from spark_jobs.fold import fold, fold_columns, fold_counting
from spark_jobs.lake import Lake, TableId, changelog_id, target_id, tombstone_id
from spark_jobs.nokey import NoKeyChanges, plan_rows
from spark_jobs.plan import TablePlan
from spark_jobs.resolve import (
    APPLY,
    EQUAL,
    LATE,
    STATUS,
    Stored,
    count_newer,
    resolve,
    settle_ties,
    tally,
    tally_newer,
)
from spark_jobs.threads import together

_SOURCE_VIEW = "sluice_source"


@dataclass(frozen=True)
class Attempt:
    """One try at one batch. `published`: the other batches whose changes count, by the lease."""

    batch_id: str
    branch: str
    published: tuple[str, ...] = ()


@dataclass(frozen=True)
class Merged:
    """What the merge of one table staged, and what became of its records."""

    counts: Counts
    staged: tuple[StagedTable, ...]


@dataclass(frozen=True)
class Span:
    """The lowest and the highest position of a batch's changes in one table; None: no changes."""

    lowest: str | None = None
    highest: str | None = None


def merge_table(lake: Lake, plan: TablePlan, attempt: Attempt, span: Span, created: bool) -> Merged:
    """Fold the batch's changelog partition and write the outcome on branches."""
    changelog = lake.spark.table(changelog_id(plan).sql())
    mine = changelog.where(F.col(names.BATCH_ID) == attempt.batch_id)
    truncated = _truncation(mine) if plan.found.truncates else _Truncation(None, 0)
    rows = mine.where(F.col(names.OP) != OP_TRUNCATE)
    writer = _Writer(lake, plan, attempt, span, created)
    stored = writer.stored(truncated.position)
    if not plan.keyed:
        counts = _merge_rows(writer, rows, stored)
    elif truncated.position is None and writer.all_newer():
        counts = _merge_newer(writer, rows, stored)
    else:
        counts = _merge_keyed(writer, rows, stored)
    writer.truncate(truncated, stored)
    return Merged(counts + truncated.counts(stored.truncated_at), writer.staged())


@dataclass(frozen=True)
class _Truncation:
    """The TRUNCATEs of a batch: the newest position, and how many were read."""

    position: str | None
    records: int

    def counts(self, newest: str | None) -> Counts:
        """The newest applies where nothing newer is stored; the rest are superseded."""
        if self.position is None:
            return Counts()
        applied = int(newest == self.position)
        return Counts(read=self.records, applied=applied, superseded=self.records - applied)


def _truncation(mine: DataFrame) -> _Truncation:
    found = mine.where(F.col(names.OP) == OP_TRUNCATE)
    row = found.agg(F.max(names.POSITION).alias("position"), F.count("*").alias("records")).first()
    return _Truncation(None, 0) if row is None else _Truncation(row["position"], row["records"])


def whole_table(plan: TablePlan) -> Column:
    """Whether a tombstone is a TRUNCATE's, of the whole table."""
    marks = [F.col(quoted(k)).isNull() for k in plan.key]
    return F.lit(True) if not marks else F.array_min(F.array(*marks))


def _merge_newer(writer: _Writer, rows: DataFrame, stored: Stored) -> Counts:
    """Nothing stored is above any change of the batch: nothing to compare, the newest applies."""
    data = [c.name for c in writer.plan.columns]
    folded = fold(rows, writer.attempt.batch_id, writer.plan.key, data)
    folded = folded.persist(StorageLevel.MEMORY_AND_DISK)
    read, newest = count_newer(folded)
    # Not the frame itself: dropping its temporary view would drop what is cached of it.
    applied = folded.select(*_columns(data))
    counts, *_ = together(
        lambda: tally_newer(read, newest, rows, data),
        lambda: writer.apply(applied, stored) if read else None,
        lambda: writer.bury(applied, stored) if read else None,
    )
    folded.unpersist()
    return counts


def _merge_keyed(writer: _Writer, rows: DataFrame, stored: Stored) -> Counts:
    plan = writer.plan
    data = [c.name for c in plan.columns]
    folded = fold_counting(rows, writer.attempt.batch_id, plan.key, data)
    resolved = resolve(folded, stored, plan.key)
    resolved = resolved.persist(StorageLevel.MEMORY_AND_DISK)
    counts = tally(resolved)
    ties = stored.rows is not None and counts.duplicate > 0
    settled = (
        settle_ties(resolved, stored.rows, plan.key, data)
        if ties and stored.rows is not None
        else resolved
    )
    applied = settled.where(F.col(STATUS) == APPLY)
    if writer.partial:
        applied = _with_refolded(writer, applied, settled, stored)
    if counts.applied or counts.duplicate or writer.partial:
        applied = applied.select(*_columns(data))
        together(lambda: writer.apply(applied, stored), lambda: writer.bury(applied, stored))
    resolved.unpersist()
    return counts


def _columns(data: list[str]) -> list[str]:
    return [quoted(c) for c in (*data, names.OP, *names.TARGET_METADATA)]


def _with_refolded(
    writer: _Writer, applied: DataFrame, settled: DataFrame, stored: Stored
) -> DataFrame:
    """Keys with partial rows, and late rows of such tables, from all of their changelog."""
    plan = writer.plan
    data = [c.name for c in plan.columns]
    keys = [quoted(k) for k in plan.key]
    changelog = writer.changelog()
    partial = changelog.where(F.col(names.BATCH_ID) == writer.attempt.batch_id).where(
        F.col(names.ABSENT).isNotNull()
    )
    late = settled.where(F.col(STATUS).isin(LATE, EQUAL))
    touched = partial.select(*keys).union(late.select(*keys)).distinct()
    ever = changelog.where(F.col(names.ABSENT).isNotNull()).select(*keys).distinct()
    again = touched.union(applied.select(*keys).join(ever, list(plan.key))).distinct()
    known = changelog.where(F.col(names.OP) != OP_TRUNCATE).join(again, list(plan.key), "left_semi")
    if stored.truncated_at is not None:
        known = known.where(F.col(names.POSITION) > stored.truncated_at)
    if floor := writer.lake.property(target_id(plan), names.PROP_FLOOR):
        known = since_floor(known, stored.rows, again, floor, plan.key)
    refolded = fold_columns(known, plan.key, data)
    columns = _columns(data)
    kept = applied.join(again, list(plan.key), "left_anti")
    return kept.select(*columns).unionByName(refolded.select(*columns))


def _merge_rows(writer: _Writer, rows: DataFrame, stored: Stored) -> Counts:
    """A table without a key: rows count by content, instances are told apart by position."""
    changes = NoKeyChanges(
        rows=rows,
        others=writer.changelog().where(F.col(names.BATCH_ID) != writer.attempt.batch_id),
        data=tuple(c.name for c in writer.plan.columns),
        truncated_at=stored.truncated_at,
        truncates=writer.plan.found.truncates > 0,
    )
    outcome = plan_rows(changes)
    if outcome.counts.applied or changes.truncates:
        writer.apply(outcome.instances, stored, by=(names.POSITION,), append=outcome.append_only)
    return outcome.counts


class _Writer:
    """The side effects of a merge: branches, MERGEs into them, and what publish must know."""

    def __init__(
        self, lake: Lake, plan: TablePlan, attempt: Attempt, span: Span, created: bool
    ) -> None:
        self.lake, self.plan, self.attempt, self.created = lake, plan, attempt, created
        self.span = span
        self.bases = {table: lake.base(table) for table in (target_id(plan), tombstone_id(plan))}
        self.branched: list[TableId] = []
        self.partial = plan.keyed and self._has_partials()

    def all_newer(self) -> bool:
        """True where every change of the batch is known to be above everything stored."""
        highest, lowest = self._highest(), self.span.lowest
        known = highest is not None and lowest is not None
        return known and not self.partial and lowest > highest

    def _highest(self) -> str | None:
        found = [base.highest for base in self.bases.values()]
        return None if None in found else max(h for h in found if h is not None)

    def stored(self, truncated: str | None) -> Stored:
        """What the bases hold, and the newest TRUNCATE, which may be this batch's own."""
        target, graves = target_id(self.plan), tombstone_id(self.plan)
        rows = self.lake.rows(target, self.bases[target])
        tombstones = self.lake.rows(graves, self.bases[graves])
        before = None
        if tombstones is not None:
            whole = tombstones.where(whole_table(self.plan)).agg(F.max(names.POSITION)).first()
            before = None if whole is None else whole[0]
            tombstones = tombstones.where(~whole_table(self.plan)) if self.plan.keyed else None
        newest = max((p for p in (before, truncated) if p is not None), default=None)
        return Stored(rows, tombstones, newest)

    def _has_partials(self) -> bool:
        target = target_id(self.plan)
        if self.plan.found.partial:
            self.lake.set_property(target, names.PROP_PARTIALS, "true")
        return self.lake.property(target, names.PROP_PARTIALS) is not None

    def changelog(self) -> DataFrame:
        """What is published of this table's changes, and this batch's own."""
        counted = (*self.attempt.published, self.attempt.batch_id)
        changelog = self.lake.spark.table(changelog_id(self.plan).sql())
        return changelog.where(F.col(names.BATCH_ID).isin(*counted))

    def _branch(self, table: TableId) -> str:
        if table not in self.branched:
            self.lake.branch(table, self.attempt.branch, self.bases[table])
            self.branched.append(table)
        return table.sql(self.attempt.branch)

    def apply(
        self,
        changes: DataFrame,
        stored: Stored,
        by: tuple[str, ...] | None = None,
        append: bool = False,
    ) -> None:
        """MERGE into the target's branch; into an empty table, or appending only, an append."""
        branch = self._branch(target_id(self.plan))
        columns = [c.name for c in self.plan.columns] + list(names.TARGET_METADATA)
        if stored.rows is None or append:
            kept = changes.where(F.col(names.OP) != OP_DELETE)
            kept.select(*(quoted(c) for c in columns)).writeTo(branch).append()
            return
        self._merge(branch, changes, by or self.plan.key, columns)

    def _merge(
        self, branch: str, changes: DataFrame, key: tuple[str, ...], columns: list[str]
    ) -> None:
        on = " AND ".join(f"t.{quoted(k)} = s.{quoted(k)}" for k in key)
        sets = ", ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in columns)
        listed = ", ".join(quoted(c) for c in columns)
        values = ", ".join(f"s.{quoted(c)}" for c in columns)
        op = f"s.{quoted(names.OP)}"
        self._sql(
            target_id(self.plan),
            changes,
            f"MERGE INTO {branch} t USING {{source}} s ON {on} "
            f"WHEN MATCHED AND {op} = '{OP_DELETE}' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {sets} "
            f"WHEN NOT MATCHED AND {op} <> '{OP_DELETE}' THEN INSERT ({listed}) VALUES ({values})",
        )

    def _sql(self, table: TableId, source: DataFrame, statement: str) -> None:
        view = f"{_SOURCE_VIEW}_{abs(hash((table, self.attempt.branch)))}"
        source.createOrReplaceTempView(view)
        try:
            self.lake.spark.sql(statement.format(source=view)).collect()
        finally:
            self.lake.spark.catalog.dropTempView(view)

    def bury(self, applied: DataFrame, stored: Stored) -> None:
        """Tombstones: one for every key whose newest event is a delete, none for the others."""
        graves = [*self.plan.key, *names.TARGET_METADATA]
        source = applied.select(*(quoted(c) for c in graves), names.OP)
        deletes = source.where(F.col(names.OP) == OP_DELETE)
        if stored.tombstones is None:
            if not deletes.isEmpty():
                branch = self._branch(tombstone_id(self.plan))
                deletes.drop(names.OP).writeTo(branch).append()
            return
        revived = source.join(
            stored.tombstones.select(*(quoted(k) for k in self.plan.key)),
            list(self.plan.key),
            "left_semi",
        )
        if deletes.isEmpty() and revived.isEmpty():
            return
        branch = self._branch(tombstone_id(self.plan))
        on = " AND ".join(f"t.{quoted(k)} = s.{quoted(k)}" for k in self.plan.key)
        sets = ", ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in graves)
        listed, values = (", ".join(f"{p}{quoted(c)}" for c in graves) for p in ("", "s."))
        op = f"s.{quoted(names.OP)}"
        self._sql(
            tombstone_id(self.plan),
            source,
            f"MERGE INTO {branch} t USING {{source}} s ON {on} "
            f"WHEN MATCHED AND {op} <> '{OP_DELETE}' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {sets} "
            f"WHEN NOT MATCHED AND {op} = '{OP_DELETE}' THEN INSERT ({listed}) VALUES ({values})",
        )

    def truncate(self, truncation: _Truncation, stored: Stored) -> None:
        """Rows and tombstones below a TRUNCATE go; one tombstone for the whole table stays."""
        if truncation.position is None or truncation.position != stored.truncated_at:
            return
        for table in (target_id(self.plan), tombstone_id(self.plan)):
            branch = self._branch(table)
            self.lake.spark.sql(
                f"DELETE FROM {branch} WHERE {quoted(names.POSITION)} <= '{truncation.position}'"
            )
        keys = [
            f"CAST(NULL AS {c.stored.spark}) AS {quoted(c.name)}"
            for c in self.plan.columns
            if c.name in self.plan.key
        ]
        mark = self.lake.spark.range(1).selectExpr(
            *keys,
            f"'{truncation.position}' AS {names.POSITION}",
            f"CAST(NULL AS timestamp) AS {names.SOURCE_TS}",
            f"'{self.attempt.batch_id}' AS {names.BATCH_ID}",
        )
        mark.writeTo(self._branch(tombstone_id(self.plan))).append()

    def staged(self) -> tuple[StagedTable, ...]:
        """Every table that got a branch, with the heads that publish will require."""
        return tuple(self._staged(table) for table in self.bases if table in self.branched)

    def _staged(self, table: TableId) -> StagedTable:
        base = self.bases[table]
        highest = None if base.highest is None else max(base.highest, self.span.highest or "")
        staged = self.lake.staged(table, self.attempt.branch, base, highest)
        return replace(staged, created=self.created and table == target_id(self.plan))
