"""Columns of the key that the source renamed: all names of one are spellings of one column.

Rows, changes and tombstones are known by their key, so its column keeps the name that the table
has; events call it by whichever name the source had for it then, and none of them is a column of
its own. Other columns change their names by position (`spark_jobs.planning.renames`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sluice.column_renames import Renames, name_at
from sluice.config.collations import source_name
from sluice.config.project import TableConfig
from sluice.errors import ELSEWHERE, PlanError
from sluice.ledger.rename_log import ToldRename
from sluice.names import dropped_column
from spark_jobs.planning.discover import Found

KeyNames = Mapping[str, str]
"""Any other name that the source had for it, in lower case → the key's column."""
NO_NAMES: Final[KeyNames] = {}


@dataclass(frozen=True)
class _Group:
    """All names, in lower case, that the source had for a column of the key."""

    column: str
    names: frozenset[str]

    @property
    def others(self) -> frozenset[str]:
        return self.names - {self.column.lower()}


def key_names(
    found: Found, key: Iterable[str], renames: Renames, told: Collection[ToldRename]
) -> KeyNames:
    """The other names of the columns of a `key`, by all that is known of the table's renames.

    Raises PlanError where the source had two columns under names of one.
    """
    groups = [g for g in _groups(renames, key) if g.others]
    for group in groups:
        _refuse_two(found, group, groups, told)
    return {name: group.column for group in groups for name in group.others}


def key_told(
    found: Found,
    config: TableConfig,
    stored: tuple[str, ...] | None,
    script: tuple[str, ...],
    renames: Renames,
) -> list[str]:
    """The key by the table, the configuration, the events or a script of DDL, whichever of them
    there is first; of the events' the names of now."""
    if stored is not None:
        return [*map(source_name, stored)]
    if config.key is not None:
        return config.key
    told = {name: name_at(renames, name, "") for key in found.keys.values() for name in key}
    return [*{now.lower(): now for _, now in sorted(told.items())}.values()] or [*script]


def _groups(renames: Renames, key: Iterable[str]) -> list[_Group]:
    pairs = [pair for rename in renames for pair in _folded(rename.columns)]
    return [_Group(column, _joined(column.lower(), pairs)) for column in key]


def _folded(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of renames alone: a dropped column whose name another one got is none of the key's."""
    return [(old.lower(), new.lower()) for old, new in pairs if new != dropped_column(old)]


def _joined(name: str, pairs: Collection[tuple[str, str]]) -> frozenset[str]:
    names, before = {name}, set[str]()
    while names != before:
        before = set(names)
        names |= {n for pair in pairs if names.intersection(pair) for n in pair}
    return frozenset(names)


def _refuse_two(
    found: Found, group: _Group, groups: Collection[_Group], told: Collection[ToldRename]
) -> None:
    shared = any(group.names & other.names for other in groups if other is not group)
    both = any(_carries_two(image, group) for image in found.images.values())
    if shared or both or any(_comes_or_goes(one, group, told) for one in told):
        raise PlanError(
            f"table {found.source.name}: the source renamed column {group.column!r} of the key, "
            f"and {' and '.join(sorted(group.names))} are also names of another column; set "
            f"on_schema_change: additive, which follows no renames, or {ELSEWHERE}"
        )


def _carries_two(image: Iterable[str], group: _Group) -> bool:
    return len({name.lower() for name in image} & group.names) > 1


def _comes_or_goes(one: ToldRename, group: _Group, told: Collection[ToldRename]) -> bool:
    """Whether a column of the group's names was dropped, or added since one of them was renamed."""
    dropped = {old.lower() for old, new in one.columns if old is not None and new is None}
    added = {new.lower() for old, new in one.columns if old is None and new is not None}
    before = (other for other in told if other.position <= one.position)
    renamed = {
        name.lower()
        for other in before
        for old, new in other.columns
        if old is not None and new is not None
        for name in (old, new)
    }
    return bool(group.names & (dropped | (added & renamed)))


def without_key(renames: Renames, key: Iterable[str]) -> Renames:
    """The renames but those of the key's columns."""
    mine = {name for group in _groups(renames, map(source_name, key)) for name in group.names}
    kept = (
        replace(one, columns=tuple(p for p in one.columns if not _is_mine(p, mine)))
        for one in renames
    )
    return tuple(one for one in kept if one.columns)


def _is_mine(pair: tuple[str, str], names: set[str]) -> bool:
    return any(names.issuperset(both) for both in _folded([pair]))
