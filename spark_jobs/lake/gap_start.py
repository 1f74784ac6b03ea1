"""Start of a table's gap: the last snapshot before the changes that the table lacks."""

from __future__ import annotations

from sluice import names
from sluice.catalog.snapshots import head
from spark_jobs.lake.table_id import TableId, target_id
from spark_jobs.lake.tables import Lake
from spark_jobs.planning.plan import TablePlan


def start_gap(lake: Lake, table: TableId) -> None:
    """Record the snapshot of the table's `main`, if it has one, as the last one before its gap."""
    loaded = lake.load(table)
    if loaded is not None and (last := head(loaded)) is not None:
        lake.set_property(table, names.PROP_GAP, str(last))


def begin_soft_delete(lake: Lake, plan: TablePlan) -> None:
    """Record the last snapshot of a target before it gets the columns of soft_delete.

    Without that, a later rewrite of the target would hide that rows deleted before are missing.
    """
    table = target_id(plan)
    if plan.soft_delete and names.IS_DELETED not in (lake.columns(table) or (names.IS_DELETED,)):
        start_gap(lake, table)
