"""Gaps in history and events tables: changes of batches from while the mode was switched off.

Once the mode is on again, the next batch that writes to the table closes the gap. A target for
which soft_delete is switched on has a gap too: it lacks the rows that were deleted before.
"""

from __future__ import annotations

from sluice import names
from sluice.catalog.gap_property import has_gap_at
from sluice.catalog.snapshots import head
from spark_jobs.lake.gap_start import start_gap
from spark_jobs.lake.reader import Reader
from spark_jobs.lake.table_id import TableId, events_id, history_id
from spark_jobs.planning import column_history
from spark_jobs.planning.column_history import NO_HISTORY, ColumnHistory


def mark_gap(reader: Reader) -> None:
    """Record in the tables of switched-off modes the last snapshot before this batch, whose changes
    they do not get."""
    plan = reader.plan
    if not plan.history:
        _mark(reader, history_id(plan), names.PROP_HISTORY_OF)
    if not plan.append:
        _mark(reader, events_id(plan), names.PROP_EVENTS_OF)


def _mark(reader: Reader, table: TableId, owner: str) -> None:
    """Record the gap; `owner`: the property of `names.owner_target` that the table has."""
    found = reader.lake.load(table)
    if found is None or found.properties.get(owner) != reader.plan.name:
        return
    if not has_gap_at(found, head(found)):
        text = reader.before.text() or NO_HISTORY
        reader.lake.set_property(table, names.PROP_GAP_COLUMNS, text)
    start_gap(reader.lake, table)


def written_by(reader: Reader, table: TableId) -> ColumnHistory:
    """Return the renames and defaults with which the table's rows were written.

    For a table with a gap these are the ones recorded when it began (`PROP_GAP_COLUMNS`), if rows
    can be renamed from those; otherwise the target's.
    """
    text = reader.lake.property(table, names.PROP_GAP_COLUMNS)
    if text is None or not has_gap(reader, table):
        return reader.before
    found = column_history.read(text)
    return found if reader.now.clash(found, reader.types) is None else reader.before


def has_gap(reader: Reader, table: TableId) -> bool:
    """Whether the table, at the batch's base, lacks published changes (has a gap)."""
    found = reader.lake.load(table)
    return found is not None and has_gap_at(found, reader.bases[table].snapshot)
