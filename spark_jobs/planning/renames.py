"""Columns that the source renamed: `ALTER TABLE … RENAME COLUMN a TO b` sends no event of a row.

Names resolve by position: in a change below the rename, whenever it arrives, `a` means `b`; in one
above it, `a` is another column, added later. So a changelog keeps the names of its events and is
read under current names. Stored rows are renamed by a MERGE on the branch of the batch that brings
the rename. The column under the old name stays in the table and is NULL. The values of columns that
leave the target when they are dropped (`spark_jobs.planning.dropped`) are NOWHERE.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.column_renames import NOWHERE, Rename, Renames, is_drop, moved_nowhere, name_at
from sluice.positions import KIND_AT, KIND_SOURCE
from spark_jobs.canonical import literal, quoted
from spark_jobs.values import as_type_sql

DECLARED: Final = "~"
"""Above every position: a rename of the configuration holds for all events."""


def declared(former: Mapping[str, str]) -> Renames:
    """Return the renames of the configuration; `former`: former name → new name."""
    return (Rename(DECLARED, tuple(sorted(former.items()))),) if former else ()


def used_again(renames: Iterable[Rename]) -> frozenset[str]:
    """Return, in lower case, the names of dropped columns that another column has, or may have,
    taken since."""
    pairs = (pair for rename in renames for pair in rename.columns)
    return frozenset(old.lower() for old, new in pairs if is_drop(old, new))


@dataclass(frozen=True)
class _Stretch:
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

    def of(self, column: str) -> _Origins:
        """Return the events' columns that are now this column."""
        possible = [name for name, now in self.now.items() if now == column]
        return _Origins(possible, [name for name in possible if name not in self.gone])

    def leaves_out(self, name: str) -> bool:
        """Whether the events' column is `gone` and another column surely has its current name."""
        return name in self.gone and bool(self.of(self.now[name]).sure)


@dataclass(frozen=True)
class _Origins:
    """The columns of events that may hold one current column.

    `possible` applies to full-load rows, arrivals and rows without a position, whose rank does not
    say when they were made. `sure` applies to changes with a position in the order of the source.
    """

    possible: list[str]
    sure: list[str]


_NOWHERE: Final = _Origins([], [])


def _stretches(
    renames: Renames, columns: Collection[str], bounds: Iterable[str] = ()
) -> list[_Stretch]:
    """Return the intervals up to each rename and each of `bounds`.

    A column keeps its name if the table has no column of the current name, unless it is NOWHERE.
    """
    stored = {NOWHERE: NOWHERE, **{name.lower(): name for name in columns}}
    stretches = []
    for below in sorted({rename.below for rename in renames}.union(bounds)):
        later = [rename for rename in renames if rename.below >= below]
        done = {
            _folded(pair) for rename in renames if rename.below < below for pair in rename.columns
        }
        turns = sorted(sorted(columns), key=lambda name: _given_at(later, name), reverse=True)
        now = {name: stored.get(name_at(later, name, "").lower(), name) for name in turns}
        gone = frozenset(name for name in columns if _is_taken(later, name, done))
        stretches.append(_Stretch(below, now, gone))
    return stretches


def _given_at(later: Iterable[Rename], name: str) -> tuple[str, ...]:
    """Return the positions at which the column gets another name, the last one first."""
    at: tuple[str, ...] = ()
    for rename in sorted(later):
        since = rename.of(name)
        at, name = (at if since == name else (rename.below, *at)), since
    return at


def _folded(pair: tuple[str, str]) -> tuple[str, str]:
    return pair[0].lower(), pair[1].lower()


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
            if _folded((old, new)) not in done and not is_drop(old, new)
        )
        if since == name and name.lower() in given and rename.below != DECLARED:
            return True
        name = since
    return False


def wanted(renames: Renames, columns: Iterable[str]) -> dict[str, list[str]]:
    """Return current names → the former names of each renamed column."""
    listed, former = list(columns), dict[str, list[str]]()
    for below in sorted({rename.below for rename in renames}):
        later = [rename for rename in renames if rename.below >= below]
        for name in listed:
            now = name_at(later, name, "")
            same = now.lower() in (NOWHERE, name.lower())
            if not same and name not in former.setdefault(now, []):
                former[now].append(name)
    return former


def lacking(renames: Renames, columns: Iterable[str]) -> tuple[str, ...]:
    """Return, in lower case, the renamed columns that a table does not have (yet)."""
    there = {name.lower() for name in columns}
    return tuple(sorted({old.lower() for r in renames for old, _ in r.columns} - there))


def renamed(changes: DataFrame, renames: Renames) -> DataFrame:
    """Return changes under current names, in `_absent` too."""
    types = {f.name: f.dataType.simpleString() for f in changes.schema}
    stretches = _stretches(renames, types)
    if not any(stretch.renamed for stretch in stretches):
        return changes
    values = {}
    named = {n for s in stretches for pair in s.renamed.items() for n in pair}
    for column in sorted(named - {NOWHERE}):
        sources = [(s.below, _Into(column).value(s.of(column), types)) for s in stretches]
        values[column] = F.expr(_by_stretch(names.POSITION, sources, quoted(column)))
    if names.ABSENT in types:
        absent = [(s.below, _renamed_list(names.ABSENT, s.renamed)) for s in stretches]
        values[names.ABSENT] = F.expr(_by_stretch(names.POSITION, absent, names.ABSENT))
    return changes.withColumns(values)


@dataclass(frozen=True)
class _Into:
    """A column of changes, or of rows with the alias `row`, whose values are to come from
    former columns."""

    column: str
    row: str = ""

    def value(self, origins: _Origins, types: Mapping[str, str]) -> str:
        """Return SQL for the column's value, from the columns that it may have been."""
        sure, any_of = (self._first(o, types) for o in (origins.sure, origins.possible))
        if not origins.sure or sure == any_of:
            return any_of
        kind = f"substring({self.row}{names.POSITION}, {KIND_AT}, 1)"
        return f"CASE WHEN {kind} = {literal(KIND_SOURCE)} THEN {sure} ELSE {any_of} END"

    def _cast(self, name: str, types: Mapping[str, str]) -> str:
        return as_type_sql(f"{self.row}{quoted(name)}", types[name], types[self.column])

    def _first(self, origins: Collection[str], types: Mapping[str, str]) -> str:
        """Return SQL for the first value that is not NULL; columns without a type are NULL."""
        values = ", ".join(self._cast(name, types) for name in origins if name in types)
        return f"coalesce({values})" if values else f"CAST(NULL AS {types[self.column]})"


def _by_stretch(position: str, values: list[tuple[str, str]], otherwise: str) -> str:
    cases = " ".join(f"WHEN {position} < {literal(below)} THEN {value}" for below, value in values)
    return f"CASE {cases} ELSE {otherwise} END"


def _renamed_list(listed: str, renamed: Mapping[str, str]) -> str:
    if not renamed:
        return listed
    gone = ", ".join(literal(old) for old, new in renamed.items() if new == NOWHERE)
    # NOWHERE is ALL_BUT in such a list.
    there = f"filter({listed}, name -> name NOT IN ({gone}))" if gone else listed
    now = [(old, new) for old, new in renamed.items() if new != NOWHERE]
    cases = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in now)
    return f"transform({there}, name -> CASE name {cases} ELSE name END)" if now else there


def moves_of_rows(
    before: Renames,
    now: Renames,
    types: Mapping[str, str],
    row: str = "",
    arrived: Collection[str] = (),
    left: Collection[str] = (),
) -> dict[str, str]:
    """Return SQL by column that turns stored rows, written under the renames `before`, into rows
    under `now`.

    `types`: the stored columns; `row`: a prefix for each; `arrived`: those that the table did not
    have when the rows were written; `left`: others, that have left it, and are NULL. `_absent` is
    renamed too. The renames must not `clash`.
    """
    sides = _side_by_side(before, now, [*types, *left], arrived)
    steps = [(old.below, _steps(old, new)) for old, new in sides]
    touched = sorted(
        c for c in types if any(step.get(c, _NOWHERE).possible != [c] for _, step in steps)
    )
    values = {
        c: [(at, _Into(c, row).value(step.get(c, _NOWHERE), types)) for at, step in steps]
        for c in touched
    }
    if touched and names.ABSENT in types:
        listed = f"{row}{names.ABSENT}"
        values[names.ABSENT] = [
            (at, _renamed_list(listed, _renamed_columns(step))) for at, step in steps
        ]
    position = f"{row}{names.POSITION}"
    return {c: _by_stretch(position, parts, f"{row}{quoted(c)}") for c, parts in values.items()}


def _side_by_side(
    before: Renames, now: Renames, columns: Collection[str], arrived: Collection[str] = ()
) -> list[tuple[_Stretch, _Stretch]]:
    """Return the intervals under both; of `before`, without the columns that `arrived` since, in
    lower case."""
    bounds = {rename.below for rename in (*before, *now)}
    if (before == now and not arrived) or not bounds:
        return []
    there = [name for name in columns if name.lower() not in arrived]
    both = (_stretches(before, there, bounds), _stretches(now, columns, bounds))
    return list(zip(*both, strict=True))


@dataclass(frozen=True)
class FilledColumn:
    """A column that was added with a default at a position (`at`): stored rows below `limit` have
    the default if they had NULL.

    `now`: its current name if a statement says under which name it was added; else it is the column
    that stored rows have under the name.
    """

    at: str
    limit: str
    now: str = ""


Clash = tuple[str, str, str]
"""Two columns that stored rows have in one column, and that column."""


def clash(
    before: Renames,
    now: Renames,
    columns: Collection[str],
    filled: Mapping[str, FilledColumn] = MappingProxyType({}),
    arrived: Collection[str] = (),
) -> Clash | None:
    """Return two current columns that stored rows have in one column; None if there are none.

    A rename between the two came too late: a stored row does not show which of them it has, or it
    lacks the value of one that was `gone` then. `filled`: the stored columns with a default;
    `arrived`: see `moves_of_rows`.
    """
    columns = [name for name in columns if name.lower() not in moved_nowhere(before, now)]
    if lost := _lost(before, now, columns):
        return lost
    sides = _side_by_side(before, now, columns, arrived)
    for old, new in sides:
        goes: dict[str, str] = {}
        for name, since in new.now.items():
            stored = old.stored(name)
            lacks = old.leaves_out(name) and not new.leaves_out(name)
            if goes.setdefault(stored, since) != since or lacks:
                return goes[stored], since, stored
        if mixed := _mixed(old, new):
            return mixed
    return _clash_with_default(sides, filled)


def _lost(before: Renames, now: Renames, columns: Collection[str]) -> Clash | None:
    """Return a column that has values which are NOWHERE in rows written under the renames `before`:
    it had another name when it was dropped, which is told last."""
    there = {name.lower() for name in columns}
    for below in sorted({rename.below for rename in (*before, *now)}):
        was, since = ([r for r in of if r.below >= below] for of in (before, now))
        for name in columns:
            current = name_at(since, name, "")
            if current.lower() in there and name_at(was, name, "") == NOWHERE:
                return name, current, name
    return None


def _mixed(old: _Stretch, new: _Stretch) -> Clash | None:
    """Return two columns of events whose precedence changed: in a full-load row that has values in
    several columns that are one now, the stored rows took the value of another than they would
    take now. None if there are none."""
    for current in dict.fromkeys(name for name in new.now.values() if name != NOWHERE):
        ranked = [name for name in new.of(current).possible if name in old.now]
        stored = dict.fromkeys(old.now[name] for name in ranked)
        there = [name for c in stored for name in old.of(c).possible if name in ranked]
        for was, name in zip(there, ranked, strict=True):
            if was != name:
                return was, name, old.now[was]
    return None


def _clash_with_default(
    sides: Sequence[tuple[_Stretch, _Stretch]], filled: Mapping[str, FilledColumn]
) -> Clash | None:
    """Return a column whose values are stored where the default of another one was filled in.

    The default was filled in under a name that, by a rename known since, was another column's
    then: that one's value may equal the default, and its NULL was overwritten.
    """
    above = ""
    for old, new in sides:
        for name, since in new.now.items():
            stored = old.stored(name)
            column = filled.get(stored)
            if column is not None and above < column.limit:
                added = column.now or _current(sides, stored, column.at)
                if since != added:
                    return since, added, stored
        above = old.below
    return None


def current_name(
    before: Renames, now: Renames, columns: Collection[str], stored: str, at: str
) -> str:
    """Return the current name of the column that stored rows, written under the renames `before`,
    have as `stored` at a position."""
    return _current(_side_by_side(before, now, columns), stored, at)


def _current(sides: Sequence[tuple[_Stretch, _Stretch]], stored: str, at: str) -> str:
    """Return the current name of the column that stored rows have as `stored` at a position."""
    for old, new in sides:
        if at < old.below:
            named = (since for name, since in new.now.items() if old.stored(name) == stored)
            return next(named, stored)
    return stored


def _renamed_columns(step: Mapping[str, _Origins]) -> dict[str, str]:
    """Return stored column → current name, where they differ."""
    return {old: new for new, origins in step.items() for old in origins.possible if old != new}


def _steps(before: _Stretch, now: _Stretch) -> dict[str, _Origins]:
    """Return current name → the stored columns that hold it."""
    by_name: dict[str, _Origins] = {}
    for name, since in now.now.items():
        stored, origins = before.stored(name), by_name.setdefault(since, _Origins([], []))
        if stored == NOWHERE:
            continue
        for listed in (origins.possible, *([] if name in now.gone else [origins.sure])):
            if stored not in listed:
                listed.append(stored)
    return by_name


def rows_renamed(
    rows: DataFrame,
    before: Renames,
    now: Renames,
    arrived: Collection[str] = (),
    left: Collection[str] = (),
) -> DataFrame:
    """Rename the columns of stored rows from the names `before` to the names `now`; `arrived`,
    `left`: see `moves_of_rows`."""
    types = {f.name: f.dataType.simpleString() for f in rows.schema}
    values = moves_of_rows(before, now, types, arrived=arrived, left=left)
    return rows.withColumns({c: F.expr(value) for c, value in values.items()}) if values else rows
