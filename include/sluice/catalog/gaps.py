"""What a table that a mode makes lacks: all that came since the mode was switched off.

The property PROP_GAP has the last snapshot before the gap.
"""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.update import SetPropertiesUpdate, TableUpdate

from sluice.catalog.lineage import ancestors, with_equal_rows
from sluice.catalog.snapshots import head
from sluice.names import PROP_GAP


def is_behind(table: Table, snapshot: int | None) -> bool:
    """Whether a table that a mode makes lacks, at a snapshot, what came since it was switched off;
    True until a batch has been published that closed the gap, and again where that is undone."""
    gap = table.properties.get(PROP_GAP)
    if gap is None:
        return False
    lacking = ancestors(table, int(gap))
    return any(past in lacking for past in with_equal_rows(table, snapshot))


def gap_followed(table: Table) -> str | None:
    """The snapshot to which maintenance has brought a table that is behind, as `PROP_GAP`; None
    where that is told already. To be told before the snapshots between expire."""
    now = head(table)
    if now is None or not is_behind(table, now) or table.properties[PROP_GAP] == str(now):
        return None
    return str(now)


def gap_moved(table: Table, base: int | None, new: int) -> list[TableUpdate]:
    """A table that lacks what came since a snapshot lacks it in the new one too."""
    if not is_behind(table, base):
        return []
    return [SetPropertiesUpdate(updates={PROP_GAP: str(new)})]
