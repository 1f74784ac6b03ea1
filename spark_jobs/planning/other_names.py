"""Columns that the source renamed: what a hint, or a script, says of one name it says of all.

Else a column's type would hang on which of its names the events of a batch happen to have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.column_renames import Rename, Renames
from sluice.config.project import TableConfig
from sluice.ledger.rename_log import ToldRename
from sluice.names import dropped_column
from spark_jobs.planning.discover import Found
from spark_jobs.planning.key_names import NO_NAMES, KeyNames, key_names, without_key
from spark_jobs.planning.renames import used_again, wanted


@dataclass(frozen=True)
class Others:
    """The other names of a column: that of now first, then the former ones, the last one first.

    `alone`: no other column had one of its names, so that all of them may be told by any; else what
    is told of the name of now is its own.
    """

    names: tuple[str, ...]
    alone: bool = True


NO_OTHERS: Final = Others(())
OtherNames = Mapping[str, Others]
"""By a column's name; all of them in lower case."""


@dataclass(frozen=True)
class KnownNames:
    """What is known of the names that a table's columns had, in lower case.

    `used_again`: of two columns, one after the other; `of_key`: other names of the key's columns;
    `others`: of the rest.
    """

    used_again: frozenset[str] = frozenset()
    of_key: KeyNames = field(default_factory=dict)
    others: OtherNames = field(default_factory=dict)


NOTHING_RENAMED: Final = KnownNames(of_key=NO_NAMES)


def known_names(
    found: Found,
    config: TableConfig,
    key: Iterable[str],
    renames: Renames,
    told: Iterable[ToldRename],
) -> KnownNames:
    """By all that is known of a table's renames; raises PlanError where a column of the key had a
    name that was another's, too."""
    columns, statements = list(key), list(told)
    of_key = key_names(found, columns, renames, statements)
    # Of several sources each adds its own columns, at places of its own.
    added = [] if config.sources else _added(statements)
    others = other_names(without_key(renames, columns), added)
    return KnownNames(used_again(renames), of_key, others)


def _added(told: Iterable[ToldRename]) -> list[tuple[str, str]]:
    """Columns in lower case, and where they were added."""
    return [
        (new.lower(), one.position)
        for one in told
        for old, new in one.columns
        if old is None and new is not None
    ]


def other_names(renames: Renames, added: Iterable[tuple[str, str]]) -> OtherNames:
    """The other names of each column that may be told under them, by those that were `added`."""
    folded = tuple(Rename(one.below, tuple(_folded(one.columns))) for one in renames)
    left = {old: one.below for one in sorted(folded) for old, _ in one.columns}
    again = used_again(folded) | {name for name, at in added if at > left.get(name, at)}
    gone = {dropped_column(name) for name in again}
    listed = {name for one in folded for pair in one.columns for name in pair}
    groups = {now: of for now, of in wanted(folded, sorted(listed)).items() if now not in gone}
    found: dict[str, Others] = {}
    for now, former in groups.items():
        names = (now, *sorted(former, key=lambda name: left[name], reverse=True))
        if _are_alone(names, groups) and again.isdisjoint(names):
            found |= {name: Others(tuple(n for n in names if n != name)) for name in names}
        else:
            found[now] = Others(names[1:], alone=False)
    return found


def _folded(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((old.lower(), new.lower()) for old, new in pairs)


def _are_alone(names: Iterable[str], groups: Mapping[str, Iterable[str]]) -> bool:
    """Whether each of a column's names is in no other group."""
    return all(sum(n == now or n in former for now, former in groups.items()) == 1 for n in names)
