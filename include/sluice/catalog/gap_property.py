"""Gaps of history and events tables: while a mode is switched off, its table gets no changes.

The table property PROP_GAP has the last snapshot before the gap.
"""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.update import SetPropertiesUpdate, TableUpdate

from sluice.catalog.lineage import ancestors, with_equal_rows
from sluice.catalog.snapshots import head
from sluice.names import PROP_GAP


def has_gap_at(table: Table, snapshot: int | None) -> bool:
    """Whether a mode's table has a gap at a snapshot.

    True until a batch that closes the gap is published, and again after that batch is undone.
    """
    gap = table.properties.get(PROP_GAP)
    if gap is None:
        return False
    lacking = ancestors(table, int(gap))
    return any(past in lacking for past in with_equal_rows(table, snapshot))


def gap_after_rewrite(table: Table) -> str | None:
    """Return the new value of PROP_GAP after maintenance rewrote a table with a gap; None if that
    is stored already.

    It must be stored before the snapshots in between expire.
    """
    now = head(table)
    if now is None or not has_gap_at(table, now) or table.properties[PROP_GAP] == str(now):
        return None
    return str(now)


def carry_gap(table: Table, base: int | None, new: int) -> list[TableUpdate]:
    """Return the update of PROP_GAP that carries a gap over to the new snapshot."""
    if not has_gap_at(table, base):
        return []
    return [SetPropertiesUpdate(updates={PROP_GAP: str(new)})]
