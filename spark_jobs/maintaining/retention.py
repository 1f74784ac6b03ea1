"""Retention: tombstones and changes of old batches are deleted; the floor records up to where.

A batch's age counts from its publication in the ledger. The floor is raised before anything is
deleted. After a crash in between, some late events go to quarantine needlessly, and the next
maintenance deletes the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import functions as F

from sluice import names
from sluice.counting import counted
from sluice.faults import Point, reach
from sluice.operations.expiry import published_before
from spark_jobs.lake.table_id import TableId, changelog_of, tombstones_of_target
from spark_jobs.maintaining.context import MaintenanceContext
from spark_jobs.position_text import by_arrival
from spark_jobs.quoting import literal
from spark_jobs.row_conditions import of_batches

_SUMMARY: Final = f"spark.sql.iceberg.snapshot-property.{names.SUMMARY_MAINTENANCE}"


@dataclass(frozen=True)
class Expired:
    """The batches whose rows expire in one table, and the highest position of these rows."""

    table: TableId
    batches: tuple[str, ...]
    highest: str


def expire(ctx: MaintenanceContext, target: TableId) -> str:
    """Expire a target's old tombstones and changes; return a summary, "" if there were none.

    A table without a key keeps everything: its rows are counted from its whole changelog. Histories
    and tables of events keep everything too.
    """
    if not _is_keyed_target(ctx, target):
        return ""
    rules = ctx.pipeline.maintenance
    expired = [
        found
        for table, days in (
            (tombstones_of_target(target), rules.tombstone_days),
            (changelog_of(target), rules.changelog_days),
        )
        if (found := _expired(ctx, table, days)) is not None
    ]
    if expired and not ctx.dry_run:
        _raise_floor(ctx, target, (found.highest for found in expired))
        reach(Point.MAINTAIN_FLOOR)
        for found in expired:
            _delete(ctx, found)
            reach(Point.MAINTAIN_FORGOTTEN)
    return "; ".join(f"{counted(len(e.batches), 'batch')} of {e.table.name}" for e in expired)


def expire_transaction_ends(ctx: MaintenanceContext, ends: TableId) -> str:
    """Expire the transaction ends of old batches; return a summary, "" if there were none."""
    if ctx.lake.load(ends) is None:
        return ""
    rules, pipeline = ctx.pipeline.maintenance, ctx.pipeline.name
    old = published_before(ctx.ledger, ctx.days_ago(rules.changelog_days))
    rows = ctx.spark.table(ends.sql()).where(F.col("pipeline") == pipeline)
    own = rows.select("batch_id").distinct().collect()
    expired = sorted(row["batch_id"] for row in own if row["batch_id"] in old)
    if expired and not ctx.dry_run:
        batches = ", ".join(map(literal, expired))
        ctx.spark.sql(f"DELETE FROM {ends.sql()} WHERE batch_id IN ({batches})").collect()
    return counted(len(expired), "batch") if expired else ""


def _is_keyed_target(ctx: MaintenanceContext, table: TableId) -> bool:
    loaded = ctx.lake.load(table)
    if table.namespace != ctx.pipeline.namespace or loaded is None:
        return False
    keyed = bool(names.key_of(loaded.properties))
    return keyed and names.owner_target(loaded.properties) is None


def _expired(ctx: MaintenanceContext, table: TableId, days: int) -> Expired | None:
    """Return a table's expired batches and the highest position of their rows.

    Batches whose rows are ordered by arrival, which has no order in time, do not expire.
    """
    loaded = ctx.lake.load(table)
    if loaded is None or loaded.current_snapshot() is None:
        return None
    old = published_before(ctx.ledger, ctx.days_ago(days))
    rows = ctx.spark.table(table.sql())
    arrival = F.max(by_arrival(F.col(names.POSITION)))
    expired = (
        rows.where(of_batches(old))
        .groupBy(names.BATCH_ID)
        .agg(F.max(names.POSITION).alias("highest"), arrival.alias("arrival"))
        .where(~F.col("arrival"))
        .collect()
    )
    if not expired:
        return None
    batches = tuple(sorted(row[names.BATCH_ID] for row in expired))
    return Expired(table, batches, max(row["highest"] for row in expired))


def _raise_floor(ctx: MaintenanceContext, target: TableId, positions: Iterable[str]) -> None:
    before = ctx.lake.floor(target) or ""
    floor = max(before, *positions)
    ctx.lake.set_property(target, names.PROP_FLOOR, floor)
    ctx.lake.set_property(changelog_of(target), names.PROP_FLOOR, floor)


def _statement(table: TableId, batches: str) -> str:
    """Return the statement that deletes some batches.

    A changelog's partitions are deleted whole, which leaves the snapshot unsigned. Tombstones are
    deleted by a MERGE: a rollback checks who wrote there.
    """
    if names.is_changelog(table.namespace, table.name):
        return f"DELETE FROM {table.sql()} WHERE {names.BATCH_ID} IN ({batches})"
    return (
        f"MERGE INTO {table.sql()} t USING (SELECT explode(array({batches})) AS batch) s "
        f"ON t.{names.BATCH_ID} = s.batch WHEN MATCHED THEN DELETE"
    )


def _delete(ctx: MaintenanceContext, expired: Expired) -> None:
    """Delete the rows in a snapshot signed as maintenance, which a rollback of the last
    batches ignores."""
    batches = ", ".join(literal(batch) for batch in expired.batches)
    ctx.spark.conf.set(_SUMMARY, "retention")
    try:
        ctx.spark.sql(_statement(expired.table, batches)).collect()
    finally:
        ctx.spark.conf.unset(_SUMMARY)
