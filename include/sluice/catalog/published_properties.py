"""The properties of a table that a publication sets, and those that a rollback restores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    values = {name: value for name, value in stated.items() if value is not None}
    values |= _values_before(table, values, staged.base_snapshot)
    if staged.highest is not None:
        values[PROP_HIGHEST] = staged.highest
    return _updates(values, [n for n in _outdated(table) if n not in values])


def _values_before(table: Table, values: Mapping[str, str], base: int | None) -> dict[str, str]:
    """Return the present values of the properties that change, under their names at the base."""
    before = {name: table.properties.get(name) for name in values}
    return {_at(n, base): value or "" for n, value in before.items() if value != values[n]}


def _outdated(table: Table) -> list[str]:
    """Return the kept values whose base has expired."""
    bases = (None, *(s.snapshot_id for s in table.metadata.snapshots))
    needed = {_at(name, base) for name in _RESTORED for base in bases}
    return [n for n in table.properties if n.startswith(_KEPT) and n not in needed]


def _updates(values: Mapping[str, str], gone: Sequence[str]) -> tuple[TableUpdate, ...]:
    updates: list[TableUpdate] = [SetPropertiesUpdate(updates=values)] if values else []
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
    return _updates(back, gone)
