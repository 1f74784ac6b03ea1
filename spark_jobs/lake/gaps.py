"""Where the gap of a table begins: the last snapshot before what it lacks."""

from __future__ import annotations

from sluice import names
from sluice.catalog.snapshots import head
from spark_jobs.lake.tables import Lake, TableId, target_id
from spark_jobs.planning.plan import TablePlan


def remember(lake: Lake, table: TableId) -> None:
    """Note the table's `main` as the last snapshot before its gap; one without any has none."""
    found = lake.load(table)
    if found is not None and (last := head(found)) is not None:
        lake.set_property(table, names.PROP_GAP, str(last))


def begin_soft_delete(lake: Lake, plan: TablePlan) -> None:
    """Remember, of a target that is to get the columns of soft_delete, the last snapshot without
    them: under the columns others may write it again who do not know of the rows that it lacks."""
    table = target_id(plan)
    if plan.soft_delete and names.IS_DELETED not in (lake.columns(table) or (names.IS_DELETED,)):
        remember(lake, table)
