"""The gap in a table that one of its target's modes makes, since the mode was switched off.

Switched on again, the next batch that writes to the table gives it what it lacks. A target in
which soft_delete is switched on has such a gap too: the rows that were deleted before.
"""

from __future__ import annotations

from sluice import names
from sluice.catalog.snapshots import head, is_behind
from spark_jobs.lake.tables import Lake, TableId, events_id, history_id, target_id
from spark_jobs.lake.writer import Writer
from spark_jobs.planning.plan import TablePlan


def leave_behind(writer: Writer) -> None:
    """Remember, of the tables of modes that are switched off, the last snapshot before a batch
    whose changes they do not get."""
    plan = writer.plan
    if not plan.history:
        _mark(writer, history_id(plan), names.PROP_HISTORY_OF)
    if not plan.append:
        _mark(writer, events_id(plan), names.PROP_EVENTS_OF)


def begin_soft_delete(lake: Lake, plan: TablePlan) -> None:
    """Remember, of a target that is to get the columns of soft_delete, the last snapshot without
    them: under the columns others may write it again who do not know of the rows that it lacks."""
    table = target_id(plan)
    if plan.soft_delete and names.IS_DELETED not in (lake.columns(table) or (names.IS_DELETED,)):
        _remember(lake, table)


def _mark(writer: Writer, table: TableId, whose: str) -> None:
    """`whose`: the property by which the table is this target's, see `sluice.names.whose`."""
    found = writer.lake.load(table)
    if found is not None and found.properties.get(whose) == writer.plan.name:
        _remember(writer.lake, table)


def _remember(lake: Lake, table: TableId) -> None:
    found = lake.load(table)
    if found is not None and (last := head(found)) is not None:
        lake.set_property(table, names.PROP_GAP, str(last))


def behind(writer: Writer, table: TableId) -> bool:
    """Whether the table, where the batch begins, lacks some of what is published."""
    found = writer.lake.load(table)
    return found is not None and is_behind(found, writer.bases[table].snapshot)
