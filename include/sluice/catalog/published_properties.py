"""The properties of a table that a publication sets, and those that a rollback restores."""

from __future__ import annotations

from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate, TableUpdate

from sluice.names import PROP_DEFAULTS, PROP_HIGHEST, PROP_HINTS
from sluice.result import StagedTable

# Properties that a rollback restores.
_RESTORED: Final = (PROP_DEFAULTS, PROP_HINTS)
_KEPT: Final = tuple(f"{name}-at." for name in _RESTORED)


def publish_properties(table: Table, staged: StagedTable) -> tuple[TableUpdate, ...]:
    """Return the updates of three table properties.

    `highest`: a batch whose positions are all above it need not be compared with the rows. A
    rollback leaves it, since too high a value only costs a comparison. `defaults`: the values of
    added columns in earlier rows, needed for late rows. `hints`: those by which the rows were
    read. A rollback restores these two, so their values at each base are kept in properties of
    their own while the base exists.
    """
    stated = {PROP_DEFAULTS: staged.defaults, PROP_HINTS: staged.hints}
    known = {name: value for name, value in stated.items() if value is not None}
    changed = {n: table.properties.get(n, "") for n in known if table.properties.get(n) != known[n]}
    known |= {_at(name, staged.base_snapshot): before for name, before in changed.items()}
    if staged.highest is not None:
        known[PROP_HIGHEST] = staged.highest
    kept = (None, *(s.snapshot_id for s in table.metadata.snapshots))
    needed = {_at(name, snapshot) for name in _RESTORED for snapshot in kept} | known.keys()
    gone = [n for n in table.properties if n.startswith(_KEPT) and n not in needed]
    updates: list[TableUpdate] = [SetPropertiesUpdate(updates=known)] if known else []
    return (*updates, *([RemovePropertiesUpdate(removals=gone)] if gone else []))


def _at(name: str, snapshot: int | None) -> str:
    return f"{name}-at.{snapshot}"


def properties_back(table: Table, base: int | None) -> tuple[TableUpdate, ...]:
    """Return the updates that restore the base's properties that the batch changed."""
    before = {
        n: table.properties[_at(n, base)] for n in _RESTORED if _at(n, base) in table.properties
    }
    if not before:
        return ()
    back = {name: value for name, value in before.items() if value}
    gone = [_at(name, base) for name in before] + [n for n in before if n not in back]
    updates: list[TableUpdate] = [SetPropertiesUpdate(updates=back)] if back else []
    return (*updates, RemovePropertiesUpdate(removals=gone))
