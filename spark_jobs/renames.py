"""Columns that the source renamed: `ALTER TABLE … RENAME COLUMN a TO b` sends no event of a row.

Names resolve by position: what a change below the rename says of `a` it says of `b`, whenever it
comes; what one above it says of `a` is of another column, which came later. So a changelog keeps
the names of its events, and is read under the names of now. Stored rows get theirs by a MERGE
on the branch of the batch that brings the news. A column that was renamed stays, and is NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.positions import KIND_AT, KIND_SOURCE
from spark_jobs.canonical import literal, quoted

DECLARED: Final = "~"
"""Above every position: a rename that the configuration tells holds for all events."""


@dataclass(frozen=True, order=True)
class Rename:
    """Columns that got other names at one position, all at once: former name, name since."""

    below: str
    columns: tuple[tuple[str, str], ...]

    def of(self, name: str) -> str:
        """The name since; case counts for nothing."""
        since = (new for old, new in self.columns if old.lower() == name.lower())
        return next(since, name)


Renames = tuple[Rename, ...]


def together(*parts: Iterable[Rename]) -> Renames:
    """All of them, each once, in the order of the source."""
    return tuple(sorted({rename for part in parts for rename in part}))


def declared(former: Mapping[str, str]) -> Renames:
    """What the configuration tells, former name → name since."""
    return (Rename(DECLARED, tuple(sorted(former.items()))),) if former else ()


def name_at(renames: Iterable[Rename], name: str, position: str) -> str:
    """The name of now of a column that an event at a position calls `name`."""
    for rename in sorted(renames):
        if position < rename.below:
            name = rename.of(name)
    return name


@dataclass(frozen=True)
class _Stretch:
    """The positions below `below` and above the stretch before it, and the columns' names there:
    of each column its name of now, by its name in the events."""

    below: str
    now: Mapping[str, str]

    @property
    def moved(self) -> dict[str, str]:
        return {name: now for name, now in self.now.items() if name != now}

    def of(self, column: str) -> list[str]:
        """The events' columns that are this one."""
        return [name for name, now in self.now.items() if now == column]


def _stretches(
    renames: Renames, columns: Collection[str], bounds: Iterable[str] = ()
) -> list[_Stretch]:
    """One up to each rename. A name of now that no column has leaves the column what it was."""
    stored = {name.lower(): name for name in columns}
    found = []
    for below in sorted({rename.below for rename in renames}.union(bounds)):
        later = [rename for rename in renames if rename.below >= below]
        now = {name: stored.get(name_at(later, name, "").lower(), name) for name in columns}
        found.append(_Stretch(below, now))
    return found


def wanted(renames: Renames, columns: Iterable[str]) -> dict[str, list[str]]:
    """Names of now → the columns that they are of, wherever a column goes by another."""
    listed, found = list(columns), dict[str, list[str]]()
    for below in sorted({rename.below for rename in renames}):
        later = [rename for rename in renames if rename.below >= below]
        for name in listed:
            now = name_at(later, name, "")
            if now.lower() != name.lower() and name not in found.setdefault(now, []):
                found[now].append(name)
    return found


def renamed(changes: DataFrame, renames: Renames) -> DataFrame:
    """Changes under the names of now; `_absent` lists these too."""
    types = {f.name: f.dataType.simpleString() for f in changes.schema}
    stretches = _stretches(renames, types)
    if not any(stretch.moved for stretch in stretches):
        return changes
    values = {}
    for column in sorted({n for s in stretches for pair in s.moved.items() for n in pair}):
        sources = [(s.below, _Into(column, s.below).value(s.of(column), types)) for s in stretches]
        values[column] = F.expr(_by_stretch(names.POSITION, sources, quoted(column)))
    if names.ABSENT in types:
        absent = [(s.below, _renamed_list(names.ABSENT, s.moved)) for s in stretches]
        values[names.ABSENT] = F.expr(_by_stretch(names.POSITION, absent, names.ABSENT))
    return changes.withColumns(values)


@dataclass(frozen=True)
class _Into:
    """A column below a rename, of changes or of the rows that SQL calls `row`."""

    column: str
    below: str
    row: str = ""

    def value(self, origins: Collection[str], types: Mapping[str, str]) -> str:
        """What it holds there, where it is what these columns were.

        What the source called so below the rename of another to it was another column, gone by
        then. Only a full load or an arrival, which rank there whenever they were made, and what
        has no position to go by, may mean this one.
        """
        own = self.column in origins
        others = [self._cast(name, types) for name in sorted(origins) if name != self.column]
        known = [*others, *([self._cast(self.column, types)] if own else [])]
        if not own or not others or self.below == DECLARED:
            return self._first(known, types)
        kind = f"substring({self.row}{names.POSITION}, {KIND_AT}, 1)"
        of_source = f"{kind} = {literal(KIND_SOURCE)}"
        alone, either = self._first(others, types), self._first(known, types)
        return f"CASE WHEN {of_source} THEN {alone} ELSE {either} END"

    def _cast(self, name: str, types: Mapping[str, str]) -> str:
        text = f"{self.row}{quoted(name)}"
        alike = types[name] == types[self.column]
        return text if alike else f"CAST({text} AS {types[self.column]})"

    def _first(self, known: list[str], types: Mapping[str, str]) -> str:
        return f"coalesce({', '.join(known)})" if known else f"CAST(NULL AS {types[self.column]})"


def _by_stretch(position: str, values: list[tuple[str, str]], otherwise: str) -> str:
    cases = " ".join(f"WHEN {position} < {literal(below)} THEN {value}" for below, value in values)
    return f"CASE {cases} ELSE {otherwise} END"


def _renamed_list(listed: str, moved: Mapping[str, str]) -> str:
    if not moved:
        return listed
    cases = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in moved.items())
    return f"transform({listed}, name -> CASE name {cases} ELSE name END)"


def moves_of_rows(
    before: Renames, now: Renames, types: Mapping[str, str], row: str = ""
) -> dict[str, str]:
    """What stored rows under the names of `before` hold under those of `now`, in SQL, by column.

    `types`: the stored columns; `row` stands before each. `_absent` lists the names of now too.
    None of these may `clash`.
    """
    steps = [(old.below, _steps(old, new)) for old, new in _side_by_side(before, now, types)]
    touched = sorted(c for c in types if any(step.get(c) != [c] for _, step in steps))
    values = {
        c: [(at, _Into(c, at, row).value(step.get(c, []), types)) for at, step in steps]
        for c in touched
    }
    if touched and names.ABSENT in types:
        listed = f"{row}{names.ABSENT}"
        values[names.ABSENT] = [(at, _renamed_list(listed, _moved(step))) for at, step in steps]
    position = f"{row}{names.POSITION}"
    return {c: _by_stretch(position, parts, f"{row}{quoted(c)}") for c, parts in values.items()}


def _side_by_side(
    before: Renames, now: Renames, columns: Collection[str]
) -> list[tuple[_Stretch, _Stretch]]:
    bounds = {rename.below for rename in (*before, *now)}
    if before == now or not bounds:
        return []
    both = (_stretches(renames, columns, bounds) for renames in (before, now))
    return list(zip(*both, strict=True))


def clash(before: Renames, now: Renames, columns: Collection[str]) -> tuple[str, str, str] | None:
    """Two columns of now that stored rows have in one, and that one, if there are such: a rename
    between them was told too late. Nothing in such a row says which of the two it holds."""
    for old, new in _side_by_side(before, now, columns):
        goes: dict[str, str] = {}
        for name, since in new.now.items():
            stored = old.now[name]
            if goes.setdefault(stored, since) != since:
                return goes[stored], since, stored
    return None


def _moved(step: Mapping[str, list[str]]) -> dict[str, str]:
    """Stored column → its name of now, where that is another."""
    return {old: new for new, origins in step.items() for old in origins if old != new}


def _steps(before: _Stretch, now: _Stretch) -> dict[str, list[str]]:
    """Name of now → the stored columns that it is in."""
    found: dict[str, list[str]] = {}
    for name, since in now.now.items():
        stored = before.now[name]
        if stored not in found.setdefault(since, []):
            found[since].append(stored)
    return found


def rows_renamed(rows: DataFrame, before: Renames, now: Renames) -> DataFrame:
    """Stored rows, under the names of `before`, with those of `now`."""
    types = {f.name: f.dataType.simpleString() for f in rows.schema}
    values = moves_of_rows(before, now, types)
    return rows.withColumns({c: F.expr(value) for c, value in values.items()}) if values else rows
