"""Columns that the source renamed: a hint, or a type in a script, for one of the names holds for
all.

Otherwise a column's type would depend on which of its names a batch has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.column_renames import Rename, Renames, in_lower_case
from sluice.config.pipeline import TableConfig
from sluice.ledger.column_log import ColumnStatement
from sluice.names import dropped_column
from spark_jobs.planning.key_names import NO_NAMES, KeyNames, key_names, without_key
from spark_jobs.planning.renames import reused_names, wanted
from spark_jobs.planning.table_summary import TableSummary


@dataclass(frozen=True)
class Others:
    """The other names of a column: the current one first, then former ones, the newest first.

    `alone`: no other column had one of these names, so a hint for any of them holds for all.
    Otherwise a hint for the current name only holds for that name.
    """

    names: tuple[str, ...]
    alone: bool = True


NO_OTHERS: Final = Others(())
OtherNames = Mapping[str, Others]
"""Other names by column name, all in lower case."""


@dataclass(frozen=True)
class KnownNames:
    """The names that a table's columns had, in lower case.

    `reused_names`: names that two columns had, one after the other; `of_key`: other names of the
    key's columns; `other_names`: those of the other columns.
    """

    reused_names: frozenset[str] = frozenset()
    of_key: KeyNames = field(default_factory=dict)
    other_names: OtherNames = field(default_factory=dict)


NOTHING_RENAMED: Final = KnownNames(of_key=NO_NAMES)


def known_names(
    summary: TableSummary,
    config: TableConfig,
    key: Iterable[str],
    renames: Renames,
    statements: Iterable[ColumnStatement],
) -> KnownNames:
    """Return the names of a table's columns, from its renames.

    Raises PlanError if a column of the key shared a name with another column.
    """
    columns, statements = list(key), list(statements)
    of_key = key_names(summary, columns, renames, statements)
    # Several sources each add columns at positions of their own.
    added = [] if config.sources else _added(statements)
    others = other_names(without_key(renames, columns), added)
    return KnownNames(reused_names(renames), of_key, others)


def _added(statements: Iterable[ColumnStatement]) -> list[tuple[str, str]]:
    """Return columns in lower case, with the positions at which they were added."""
    return [
        (new.lower(), one.position)
        for one in statements
        for old, new in one.columns
        if old is None and new is not None
    ]


def other_names(renames: Renames, added: Iterable[tuple[str, str]]) -> OtherNames:
    """Return the other names of each column; `added`: columns and where they were added."""
    lowered = tuple(Rename(one.below, tuple(map(in_lower_case, one.columns))) for one in renames)
    last_renamed = {old: one.below for one in sorted(lowered) for old, _ in one.columns}
    again = reused_names(lowered) | {n for n, at in added if at > last_renamed.get(n, at)}
    kept_aside = {dropped_column(name) for name in again}
    listed = sorted({name for one in lowered for pair in one.columns for name in pair})
    groups = {n: former for n, former in wanted(lowered, listed).items() if n not in kept_aside}
    by_name: dict[str, Others] = {}
    for now, former in groups.items():
        names = (now, *sorted(former, key=last_renamed.__getitem__, reverse=True))
        if _are_alone(names, groups) and again.isdisjoint(names):
            by_name |= {name: Others(tuple(n for n in names if n != name)) for name in names}
        else:
            by_name[now] = Others(names[1:], alone=False)
    return by_name


def _are_alone(names: Iterable[str], groups: Mapping[str, Iterable[str]]) -> bool:
    """Whether no other column had one of these names."""
    return all(sum(n == now or n in former for now, former in groups.items()) == 1 for n in names)
