"""Intervals of positions in which each column name of a table has one meaning."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sluice.column_renames import NOWHERE, Rename, Renames, in_lower_case, is_drop, name_at

DECLARED: Final = "~"
"""Above every position: a rename of the configuration holds for all events."""


@dataclass(frozen=True)
class Stretch:
    """An interval of positions, from the previous one's `below` up to `below`, in which each column
    name has one meaning.

    `now`: name in events → current name. Of several names with one current name, the column renamed
    last comes first, and one that never was renamed comes last. `gone`: names of columns that were
    lost later, when another column took their name.
    """

    below: str
    now: Mapping[str, str]
    gone: frozenset[str]

    def stored(self, name: str) -> str:
        """Return the current name of the events' column; a new column has its own, and is NULL."""
        return self.now.get(name, name)

    @property
    def renamed(self) -> dict[str, str]:
        return {name: now for name, now in self.now.items() if name != now}

    def of(self, column: str) -> Origins:
        """Return the events' columns that are now this column."""
        possible = [name for name, now in self.now.items() if now == column]
        return Origins(possible, [name for name in possible if name not in self.gone])

    def leaves_out(self, name: str) -> bool:
        """Whether the events' column is `gone` and another column surely has its current name."""
        return name in self.gone and bool(self.of(self.now[name]).sure)


@dataclass(frozen=True)
class Origins:
    """The columns of events that may hold one current column.

    `possible` applies to full-load rows, arrivals and rows without a position, whose rank does not
    say when they were made. `sure` applies to changes with a position in the order of the source.
    """

    possible: list[str]
    sure: list[str]


NO_ORIGINS: Final = Origins([], [])


def stretches_of(
    renames: Renames, columns: Collection[str], bounds: Iterable[str] = ()
) -> list[Stretch]:
    """Return the intervals up to each rename and each of `bounds`.

    A column keeps its name if the table has no column of the current name, unless it is NOWHERE.
    """
    stored = {NOWHERE: NOWHERE, **{name.lower(): name for name in columns}}
    stretches = []
    for below in sorted({rename.below for rename in renames}.union(bounds)):
        later = [rename for rename in renames if rename.below >= below]
        done = {
            in_lower_case(pair)
            for rename in renames
            if rename.below < below
            for pair in rename.columns
        }
        turns = sorted(sorted(columns), key=lambda name: _given_at(later, name), reverse=True)
        now = {name: stored.get(name_at(later, name, "").lower(), name) for name in turns}
        gone = frozenset(name for name in columns if _is_taken(later, name, done))
        stretches.append(Stretch(below, now, gone))
    return stretches


def _given_at(later: Iterable[Rename], name: str) -> tuple[str, ...]:
    """Return the positions at which the column gets another name, the last one first."""
    at: tuple[str, ...] = ()
    for rename in sorted(later):
        since = rename.of(name)
        at, name = (at if since == name else (rename.below, *at)), since
    return at


def _is_taken(later: Iterable[Rename], name: str, done: Collection[tuple[str, str]]) -> bool:
    """Whether another column later takes this column's name.

    Not counted are renames of the configuration, which have no position; repetitions of an earlier
    rename (`done`), which several sources of one table send one after the other; and the names of
    dropped columns, which several columns share.
    """
    for rename in sorted(later):
        since = rename.of(name)
        given = (
            new.lower()
            for old, new in rename.columns
            if in_lower_case((old, new)) not in done and not is_drop(old, new)
        )
        if since == name and name.lower() in given and rename.below != DECLARED:
            return True
        name = since
    return False


def stretch_pairs(
    before: Renames, now: Renames, columns: Collection[str], arrived: Collection[str] = ()
) -> list[tuple[Stretch, Stretch]]:
    """Return the intervals under both; of `before`, without the columns that `arrived` since, in
    lower case."""
    bounds = {rename.below for rename in (*before, *now)}
    if (before == now and not arrived) or not bounds:
        return []
    there = [name for name in columns if name.lower() not in arrived]
    both = (stretches_of(before, there, bounds), stretches_of(now, columns, bounds))
    return list(zip(*both, strict=True))
