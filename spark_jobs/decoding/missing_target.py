"""Targets that somebody dropped in the catalog: a load stops, a rebuild creates them again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.snapshots import head
from sluice.errors import PlanError, RollbackRefusedError
from sluice.ledger.ledger import Ledger
from spark_jobs.canonical import of_batches
from spark_jobs.lake.tables import Lake, TableId, changelog_id, changelog_of, target_id
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.span import Span


def refuse_missing_target(lake: Lake, target: TableId) -> None:
    """Raise PlanError if a target is gone but its changelog has changes.

    Sluice keeps the target as long as the changelog, also when it undoes the first batch. So a
    missing target was dropped by somebody, and a load would create it with only its own rows. The
    same holds for a target that an unpublished rebuild created.
    """
    table = lake.load(target)
    if table is not None and head(table) is not None:
        return
    changelog = lake.load(changelog_of(target))
    if changelog is None:
        return
    if _was_published(lake, target) if table else any(True for _ in changelog.scan().plan_files()):
        raise PlanError(
            f"{target.full_name} is gone, but its changelog has changes: somebody dropped it. "
            f"Rebuild it: sluice rollback {lake.pipeline} --rebuild --table {target.name}, then "
            "run again"
        )


def _was_published(lake: Lake, target: TableId) -> bool:
    """Whether a published batch wrote the target; one that has only deletes may not have."""
    ledger = Ledger(lake.catalog).of(lake.pipeline)
    written = ledger.publications.of_batches(*ledger.batches.published())
    return any((p.namespace, p.table_name) == (target.namespace, target.name) for p in written)


def refuse_unknown(lake: Lake, plan: TablePlan) -> None:
    """Raise RollbackRefusedError if a dropped target held changes that maintenance expired."""
    floor = lake.floor(changelog_id(plan))
    if floor is not None and lake.load(target_id(plan)) is None:
        raise RollbackRefusedError(
            f"{plan.name} was dropped, and maintenance has forgotten its changes up to {floor}: "
            "they cannot make its rows again. Register its last metadata file in the catalog: "
            "CALL lake.system.register_table"
        )


def of_changes(lake: Lake, plan: TablePlan, published: Collection[str]) -> tuple[TablePlan, Span]:
    """Return the plan and span of a target, derived from its changelog: whether any change is
    partial, and the highest position."""
    changes = lake.spark.table(changelog_id(plan).sql())
    counted = changes.where(of_batches(published))
    partial = F.bool_or(F.col(names.ABSENT).isNotNull())
    row = counted.agg(F.max(names.POSITION).alias("highest"), partial.alias("partial")).first()
    highest = None if row is None else row["highest"]
    found = replace(plan.summary, partial=bool(row and row["partial"]))
    return replace(plan, summary=found), Span(highest=highest)
