"""Renames that came too late: stored rows have two current columns in one, which they do not tell
apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sluice.column_renames import NOWHERE, Renames, dropped_since, name_at
from spark_jobs.planning.stretches import Stretch, stretch_pairs


@dataclass(frozen=True)
class FilledColumn:
    """A column that was added with a default at a position (`at`): stored rows below `limit` have
    the default if they had NULL, and are not below the DROP of an earlier table (`dropped_at`).

    `now`: its current name if a statement says under which name it was added; else it is the column
    that stored rows have under the name.
    """

    at: str
    limit: str
    now: str = ""
    dropped_at: str = ""


Clash = tuple[str, str, str]
"""Two columns that stored rows have in one column, and that column."""


def clash(
    before: Renames,
    now: Renames,
    columns: Collection[str],
    filled: Mapping[str, Sequence[FilledColumn]],
    arrived: Collection[str],
) -> Clash | None:
    """Return two current columns that stored rows have in one column; None if there are none.

    A rename between the two came too late: a stored row does not show which of them it has, or it
    lacks the value of one that was `gone` then. `filled`: the stored columns with a default;
    `arrived`: see `moves_of_rows`.
    """
    columns = [name for name in columns if name.lower() not in dropped_since(before, now)]
    if lost := _lost(before, now, columns):
        return lost
    sides = stretch_pairs(before, now, columns, arrived)
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


def _mixed(old: Stretch, new: Stretch) -> Clash | None:
    """Return two event columns, now one column of the table, of which a full-load row with both was
    stored with the value of the first and would now have that of the second; None if there are
    none.

    Example: with `b → c` alone, such a row's `c` is stored with the value of `c`. Once an earlier
    `a → c` is known, it would have that of `a`.
    """
    for current in dict.fromkeys(name for name in new.now.values() if name != NOWHERE):
        ranked = [name for name in new.of(current).possible if name in old.now]
        stored = dict.fromkeys(old.now[name] for name in ranked)
        there = [name for c in stored for name in old.of(c).possible if name in ranked]
        for was, name in zip(there, ranked, strict=True):
            if was != name:
                return was, name, old.now[was]
    return None


def _clash_with_default(
    sides: Sequence[tuple[Stretch, Stretch]], filled: Mapping[str, Sequence[FilledColumn]]
) -> Clash | None:
    """Return a column whose values are stored where the default of another one was filled in.

    The default was filled in under a name that, by a rename known since, was another column's
    then: that one's value may equal the default, and its NULL was overwritten.
    """
    above = ""
    for old, new in sides:
        for name, since in new.now.items():
            stored = old.stored(name)
            for column in filled.get(stored, ()):
                within = above < column.limit and column.dropped_at < old.below
                added = column.now or _current(sides, stored, column.at)
                if within and since != added:
                    return since, added, stored
        above = old.below
    return None


def current_name(
    before: Renames, now: Renames, columns: Collection[str], stored: str, at: str
) -> str:
    """Return the current name of the column that stored rows, written under the renames `before`,
    have as `stored` at a position."""
    return _current(stretch_pairs(before, now, columns), stored, at)


def _current(sides: Sequence[tuple[Stretch, Stretch]], stored: str, at: str) -> str:
    """Return the current name of the column that stored rows have as `stored` at a position."""
    for old, new in sides:
        if at < old.below:
            named = (since for name, since in new.now.items() if old.stored(name) == stored)
            return next(named, stored)
    return stored
