"""Targets that somebody dropped in the catalog: a load stops; a rebuild creates them again."""

from __future__ import annotations

from sluice.catalog.snapshots import head
from sluice.errors import PlanError
from sluice.ledger.ledger import Ledger
from spark_jobs.lake.table_id import TableId, changelog_of
from spark_jobs.lake.tables import Lake


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
    written = ledger.publications.batches_of(target.namespace, target.name)
    return not written.isdisjoint(ledger.batches.published())
