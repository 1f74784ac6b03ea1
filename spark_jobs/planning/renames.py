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
from sluice.column_renames import Rename, Renames, name_at
from sluice.positions import KIND_AT, KIND_SOURCE
from spark_jobs.canonical import literal, quoted
from spark_jobs.values import as_type_sql

DECLARED: Final = "~"
"""Above every position: a rename that the configuration tells holds for all events."""


def declared(former: Mapping[str, str]) -> Renames:
    """What the configuration tells, former name → name since."""
    return (Rename(DECLARED, tuple(sorted(former.items()))),) if former else ()


def used_again(renames: Iterable[Rename]) -> frozenset[str]:
    """In lower case, the columns that were dropped, and whose name another one has since."""
    pairs = (pair for rename in renames for pair in rename.columns)
    return frozenset(old.lower() for old, new in pairs if new == names.dropped_column(old))


@dataclass(frozen=True)
class _Stretch:
    """Positions from the previous stretch's `below` up to this one, and the columns' names there.

    `now`: name in the events → name of now; where several lead to one name, the one renamed last
    comes first, and one never renamed last. `gone`: names whose columns the source no longer had
    later, for another column was given the name that they had by then.
    """

    below: str
    now: Mapping[str, str]
    gone: frozenset[str]

    @property
    def moved(self) -> dict[str, str]:
        return {name: now for name, now in self.now.items() if name != now}

    def of(self, column: str) -> _Origins:
        """The events' columns that are this one."""
        known = [name for name, now in self.now.items() if now == column]
        return _Origins(known, [name for name in known if name not in self.gone])


@dataclass(frozen=True)
class _Origins:
    """The former columns that may be one column of now (`known`), and those of them that are it in
    a change with a position of the source's order (`sure`).

    A full load or an arrival may mean any of them, for it ranks there whenever it was made; so may
    what has no position.
    """

    known: list[str]
    sure: list[str]


_NOWHERE: Final = _Origins([], [])


def _stretches(
    renames: Renames, columns: Collection[str], bounds: Iterable[str] = ()
) -> list[_Stretch]:
    """A stretch up to each rename and each of `bounds`. A column keeps its name where no column has
    the one of now."""
    stored = {name.lower(): name for name in columns}
    found = []
    for below in sorted({rename.below for rename in renames}.union(bounds)):
        later = [rename for rename in renames if rename.below >= below]
        done = {
            _folded(pair) for rename in renames if rename.below < below for pair in rename.columns
        }
        turns = sorted(sorted(columns), key=lambda name: _given_at(later, name), reverse=True)
        now = {name: stored.get(name_at(later, name, "").lower(), name) for name in turns}
        gone = frozenset(name for name in columns if _is_taken(later, name, done))
        found.append(_Stretch(below, now, gone))
    return found


def _given_at(later: Iterable[Rename], name: str) -> str:
    """The last place at which a column gets another name; '' where it never does."""
    at = ""
    for rename in sorted(later):
        since = rename.of(name)
        at, name = (at if since == name else rename.below), since
    return at


def _folded(pair: tuple[str, str]) -> tuple[str, str]:
    return pair[0].lower(), pair[1].lower()


def _is_taken(later: Iterable[Rename], name: str, done: Collection[tuple[str, str]]) -> bool:
    """Whether another column is given the name of this one, or the one that it gets, by one of
    the later renames. What is declared has no place, so that both names are the column's; and what
    is `done` before and told again, one source of the table did after another one."""
    for rename in sorted(later):
        since = rename.of(name)
        given = (pair[1].lower() for pair in rename.columns if _folded(pair) not in done)
        if since == name and name.lower() in given and rename.below != DECLARED:
            return True
        name = since
    return False


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
        sources = [(s.below, _Into(column).value(s.of(column), types)) for s in stretches]
        values[column] = F.expr(_by_stretch(names.POSITION, sources, quoted(column)))
    if names.ABSENT in types:
        absent = [(s.below, _renamed_list(names.ABSENT, s.moved)) for s in stretches]
        values[names.ABSENT] = F.expr(_by_stretch(names.POSITION, absent, names.ABSENT))
    return changes.withColumns(values)


@dataclass(frozen=True)
class _Into:
    """A column below a rename, of changes or of the rows that SQL calls `row`."""

    column: str
    row: str = ""

    def value(self, origins: _Origins, types: Mapping[str, str]) -> str:
        """What it holds there, where it is what these columns were."""
        sure, any_of = (self._first(o, types) for o in (origins.sure, origins.known))
        if not origins.sure or sure == any_of:
            return any_of
        kind = f"substring({self.row}{names.POSITION}, {KIND_AT}, 1)"
        return f"CASE WHEN {kind} = {literal(KIND_SOURCE)} THEN {sure} ELSE {any_of} END"

    def _cast(self, name: str, types: Mapping[str, str]) -> str:
        return as_type_sql(f"{self.row}{quoted(name)}", types[name], types[self.column])

    def _first(self, origins: Collection[str], types: Mapping[str, str]) -> str:
        """That of the first of them that has a value."""
        known = ", ".join(self._cast(name, types) for name in origins)
        return f"coalesce({known})" if known else f"CAST(NULL AS {types[self.column]})"


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
    touched = sorted(
        c for c in types if any(step.get(c, _NOWHERE).known != [c] for _, step in steps)
    )
    values = {
        c: [(at, _Into(c, row).value(step.get(c, _NOWHERE), types)) for at, step in steps]
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
    """Two columns of now that stored rows have in one column, and that column; None: no such.

    A rename between the two was told too late: nothing in such a row says which of them it holds,
    or the value of one was left out, for it was `gone` then.
    """
    for old, new in _side_by_side(before, now, columns):
        goes: dict[str, str] = {}
        for name, since in new.now.items():
            stored = old.now[name]
            left_out = name in old.gone and name not in new.gone and old.of(stored).sure
            if goes.setdefault(stored, since) != since or left_out:
                return goes[stored], since, stored
    return None


def _moved(step: Mapping[str, _Origins]) -> dict[str, str]:
    """Stored column → its name of now, where that is another."""
    return {old: new for new, origins in step.items() for old in origins.known if old != new}


def _steps(before: _Stretch, now: _Stretch) -> dict[str, _Origins]:
    """Name of now → the stored columns that it is in."""
    found: dict[str, _Origins] = {}
    for name, since in now.now.items():
        stored, origins = before.now[name], found.setdefault(since, _Origins([], []))
        sure = name not in now.gone and name not in before.gone
        for listed in (origins.known, *([origins.sure] if sure else [])):
            if stored not in listed:
                listed.append(stored)
    return found


def rows_renamed(rows: DataFrame, before: Renames, now: Renames) -> DataFrame:
    """Stored rows, under the names of `before`, with those of `now`."""
    types = {f.name: f.dataType.simpleString() for f in rows.schema}
    values = moves_of_rows(before, now, types)
    return rows.withColumns({c: F.expr(value) for c, value in values.items()}) if values else rows
