"""The gap in a table that one of its target's modes makes, since the mode was switched off.

Switched on again, the next batch that writes to the table gives it what it lacks. A target in
which soft_delete is switched on has such a gap too: the rows that were deleted before.
"""

from __future__ import annotations

from sluice import names
from sluice.catalog.snapshots import is_behind
from spark_jobs.lake.gaps import remember
from spark_jobs.lake.tables import TableId, events_id, history_id
from spark_jobs.lake.writer import Writer


def leave_behind(writer: Writer) -> None:
    """Remember, of the tables of modes that are switched off, the last snapshot before a batch
    whose changes they do not get."""
    plan = writer.plan
    if not plan.history:
        _mark(writer, history_id(plan), names.PROP_HISTORY_OF)
    if not plan.append:
        _mark(writer, events_id(plan), names.PROP_EVENTS_OF)


def _mark(writer: Writer, table: TableId, whose: str) -> None:
    """`whose`: the property by which the table is this target's, see `sluice.names.whose`."""
    found = writer.lake.load(table)
    if found is not None and found.properties.get(whose) == writer.plan.name:
        remember(writer.lake, table)


def behind(writer: Writer, table: TableId) -> bool:
    """Whether the table, where the batch begins, lacks some of what is published."""
    found = writer.lake.load(table)
    return found is not None and is_behind(found, writer.bases[table].snapshot)
