"""The gap in a table that one of its target's modes makes, since the mode was switched off.

Switched on again, the next batch that writes to the table gives it what it lacks. A target in
which soft_delete is switched on has such a gap too: the rows that were deleted before.
"""

from __future__ import annotations

from sluice import names
from sluice.catalog.gaps import is_behind
from sluice.catalog.snapshots import head
from spark_jobs.lake.gaps import remember
from spark_jobs.lake.tables import TableId, events_id, history_id
from spark_jobs.lake.writer import Writer
from spark_jobs.planning import told
from spark_jobs.planning.renames import clash
from spark_jobs.planning.told import NOTHING_TOLD, Told


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
    if found is None or found.properties.get(whose) != writer.plan.name:
        return
    if not is_behind(found, head(found)):
        text = writer.before.text() or NOTHING_TOLD
        writer.lake.set_property(table, names.PROP_GAP_TOLD, text)
    remember(writer.lake, table)


def written_by(writer: Writer, table: TableId) -> Told:
    """The renames and defaults that the table's rows were written by.

    For a table with a gap: those noted when the gap began (`PROP_GAP_TOLD`), if its rows can be
    renamed from there. Else, and for any other table, the target's.
    """
    text = writer.lake.property(table, names.PROP_GAP_TOLD)
    if text is None or not behind(writer, table):
        return writer.before
    found = told.read(text)
    misnamed = clash(found.renames, writer.now.renames, writer.types)
    return found if misnamed is None else writer.before


def behind(writer: Writer, table: TableId) -> bool:
    """Whether the table, where the batch begins, lacks some of what is published."""
    found = writer.lake.load(table)
    return found is not None and is_behind(found, writer.bases[table].snapshot)
