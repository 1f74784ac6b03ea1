"""A target that somebody dropped: what a load and a rebuild make of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.snapshots import head
from sluice.errors import PlanError, RollbackRefused
from sluice.ledger.ledger import Ledger
from spark_jobs.canonical import of_batches
from spark_jobs.lake.tables import Lake, TableId, changelog_id, changelog_of, target_id
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.span import Span


def refuse_dropped(lake: Lake, target: TableId) -> None:
    """Raise PlanError where a target is gone of which there are changes.

    Whatever makes the tables of a first batch, or takes them away again, has the target there as
    long as its changelog is. A load would make it anew, with the batch's rows alone; so it would
    where a rebuild made it, and was never published.
    """
    table = lake.load(target)
    if table is not None and head(table) is not None:
        return
    changelog = lake.load(changelog_of(target))
    if changelog is None:
        return
    if _was_published(lake, target) if table else any(True for _ in changelog.scan().plan_files()):
        raise PlanError(
            f"{target.full_name} is gone, but its changelog has changes: somebody dropped it. Make "
            f"it again: sluice rollback {lake.pipeline} --rebuild --table {target.name}, then run "
            "again"
        )


def _was_published(lake: Lake, target: TableId) -> bool:
    """Whether a batch that is published wrote a target; one with deletes alone may not have."""
    ledger = Ledger(lake.catalog)
    written = ledger.publications(lake.pipeline, *ledger.published_batches(lake.pipeline))
    return any((p.namespace, p.table_name) == (target.namespace, target.name) for p in written)


def refuse_unknown(lake: Lake, plan: TablePlan) -> None:
    """Raise RollbackRefused where rows of a dropped target stood for changes that are forgotten."""
    floor = lake.property(changelog_id(plan), names.PROP_FLOOR)
    if floor is not None and lake.load(target_id(plan)) is None:
        raise RollbackRefused(
            f"{plan.name} was dropped, and maintenance has forgotten its changes up to {floor}: "
            "they cannot make its rows again. Register its last metadata file in the catalog: "
            "CALL lake.system.register_table"
        )


def of_changes(lake: Lake, plan: TablePlan, published: Collection[str]) -> tuple[TablePlan, Span]:
    """What a target knows of its changes, from themselves: whether some left columns out, and the
    highest position, below which a load has to look at what is stored."""
    changes = lake.spark.table(changelog_id(plan).sql())
    counted = changes.where(of_batches(published))
    partial = F.bool_or(F.col(names.ABSENT).isNotNull())
    row = counted.agg(F.max(names.POSITION).alias("highest"), partial.alias("partial")).first()
    highest = None if row is None else row["highest"]
    found = replace(plan.found, partial=bool(row and row["partial"]))
    return replace(plan, found=found), Span(highest=highest)
