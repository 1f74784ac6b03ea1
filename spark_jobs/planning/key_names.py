"""Key columns that the source renamed: all their names are spellings of one column.

The key identifies rows, changes and tombstones, so its column keeps its name in the table. Events
use the name that the column had at their time, and none of these names may be another column's.
Other columns are renamed by position (`spark_jobs.planning.renames`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sluice.column_renames import NOWHERE, Renames, in_lower_case, is_drop, name_at
from sluice.config.collations import source_name
from sluice.config.pipeline import TableConfig
from sluice.errors import ELSEWHERE, PlanError
from sluice.ledger.column_log import ColumnStatement
from sluice.source_names import stored_name
from spark_jobs.planning.table_summary import TableSummary

KeyNames = Mapping[str, str]
"""Any other name of a key column at the source, in lower case → the key column."""
NO_NAMES: Final[KeyNames] = {}


@dataclass(frozen=True)
class _Group:
    """A key column, and all its names at the source in lower case."""

    column: str
    names: frozenset[str]

    @property
    def others(self) -> frozenset[str]:
        return self.names - {self.column.lower()}


def key_names(
    summary: TableSummary,
    key: Iterable[str],
    renames: Renames,
    statements: Collection[ColumnStatement],
) -> KeyNames:
    """Return the other names of the columns of a `key`, from the table's renames.

    Raises PlanError if another column of the source had one of these names.
    """
    groups = [g for g in _groups(renames, key) if g.others]
    for group in groups:
        _refuse_two(summary, group, groups, statements)
    return {name: group.column for group in groups for name in group.others}


def key_for_names(
    summary: TableSummary,
    config: TableConfig,
    stored: tuple[str, ...] | None,
    script: tuple[str, ...],
    renames: Renames,
) -> list[str]:
    """Return the key whose column names the events use.

    Sources, the first that has a key: the stored table, the configuration, the events (under
    current names), a DDL script. The stored table comes first, since renames lead to its columns. A
    plan's own key (`spark_jobs.planning.table_inputs`) asks the configuration first, so that
    another key is seen.
    """
    if stored is not None:
        return [*map(source_name, stored)]
    if config.key is not None:
        return config.key
    now_by_name = {
        name: name_at(renames, stored_name(name), "")
        for key in summary.keys.values()
        for name in key
    }
    return [*{now.lower(): now for _, now in sorted(now_by_name.items())}.values()] or [*script]


def _groups(renames: Renames, key: Iterable[str]) -> list[_Group]:
    # A dropped column is not in the key.
    pairs = [
        in_lower_case(pair) for rename in renames for pair in rename.columns if not is_drop(*pair)
    ]
    return [_Group(column, _joined(column.lower(), pairs)) for column in key]


def _joined(name: str, pairs: Collection[tuple[str, str]]) -> frozenset[str]:
    names, before = {name}, set[str]()
    while names != before:
        before = set(names)
        names |= {n for pair in pairs if names.intersection(pair) for n in pair}
    return frozenset(names)


def _refuse_two(
    summary: TableSummary,
    group: _Group,
    groups: Collection[_Group],
    statements: Collection[ColumnStatement],
) -> None:
    shared = any(group.names & other.names for other in groups if other is not group)
    both = any(_carries_two(image, group) for image in summary.images.values())
    if shared or both or any(_comes_or_goes(one, group, statements) for one in statements):
        raise PlanError(
            f"table {summary.source.name}: the source renamed column {group.column!r} of the key, "
            f"and {' and '.join(sorted(group.names))} are also names of another column; set "
            f"on_schema_change: additive, which follows no renames, or {ELSEWHERE}"
        )


def _carries_two(image: Iterable[str], group: _Group) -> bool:
    return len({stored_name(name).lower() for name in image} & group.names) > 1


def _comes_or_goes(
    one: ColumnStatement, group: _Group, statements: Collection[ColumnStatement]
) -> bool:
    """Whether a column of the group was dropped, or was added after a rename from or
    to its name."""
    dropped = {old.lower() for old, new in one.columns if old is not None and new is None}
    added = {new.lower() for old, new in one.columns if old is None and new is not None}
    before = (other for other in statements if other.position <= one.position)
    renamed = {
        name.lower()
        for other in before
        for old, new in other.columns
        if old is not None and new is not None
        for name in (old, new)
    }
    return bool(group.names & (dropped | (added & renamed)))


def without_key(renames: Renames, key: Iterable[str]) -> Renames:
    """Return the renames without those of key columns, and key columns that go NOWHERE."""
    of_key = {name for group in _groups(renames, map(source_name, key)) for name in group.names}
    kept = (
        replace(one, columns=tuple(p for p in one.columns if not _is_of(p, of_key)))
        for one in renames
    )
    return tuple(one for one in kept if one.columns)


def _is_of(pair: tuple[str, str], names: set[str]) -> bool:
    gone = pair[1] == NOWHERE and pair[0].lower() in names
    return gone or (not is_drop(*pair) and names.issuperset(in_lower_case(pair)))
