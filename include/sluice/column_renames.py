"""Renames of columns by position: the current name of a column in an event."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from sluice.names import dropped_column

NOWHERE: Final = ""
"""The new name of a column that leaves the target when the source drops it; no column has it."""


@dataclass(frozen=True, order=True)
class Rename:
    """Columns that were renamed together.

    `below`: events below this position use the former names. `columns`: pairs of former and new
    name.
    """

    below: str
    columns: tuple[tuple[str, str], ...]

    def of(self, name: str) -> str:
        """Return the new name of a column, matched case-insensitively."""
        since = (new for old, new in self.columns if old.lower() == name.lower())
        return next(since, name)


Renames = tuple[Rename, ...]


def is_drop(old: str, new: str) -> bool:
    """Whether a pair of names is of a column that was dropped, and kept under another name or
    not."""
    return new in (NOWHERE, dropped_column(old))


def dropped_since(before: Renames, now: Renames) -> frozenset[str]:
    """Return, in lower case, the `…__dropped` columns that rows written under `before` still have,
    and that leave the target under `now`."""
    gone = nowhere_columns(now) - nowhere_columns(before)
    pairs = (pair for rename in before for pair in rename.columns)
    aside = (new for old, new in pairs if new == dropped_column(old) and old.lower() in gone)
    return frozenset(map(str.lower, aside))


def nowhere_columns(renames: Renames) -> set[str]:
    """Return, in lower case, the former names of the columns that are NOWHERE."""
    pairs = (pair for rename in renames for pair in rename.columns)
    return {old.lower() for old, new in pairs if new == NOWHERE}


def from_pairs(raw: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> Renames:
    """Return renames from JSON, which has each as its position and its pairs of names."""
    return tuple(Rename(below, tuple((old, new) for old, new in pairs)) for below, pairs in raw)


def in_order(*parts: Iterable[Rename]) -> Renames:
    """Return all renames, each once, in the source's order.

    A statement that drops columns too may be here as it was read before and as it is read now. It
    renames its other columns once.
    """
    found: dict[tuple[str, tuple[tuple[str, str], ...]], set[Rename]] = {}
    for rename in (rename for part in parts for rename in part):
        kept = tuple(pair for pair in rename.columns if not is_drop(*pair))
        found.setdefault((rename.below, kept), set()).add(rename)
    return tuple(sorted(map(_as_one, found.values())))


def _as_one(readings: Collection[Rename]) -> Rename:
    """Return the rename of a statement of which `readings` differ in the drops alone: with all of
    these, NOWHERE if one has them there."""
    fullest, *others = sorted(readings, key=lambda one: (-len(one.columns), one))
    if not others:
        return fullest
    pairs: dict[tuple[str, bool], str] = {}
    for old, new in (pair for one in (fullest, *others) for pair in one.columns):
        of = old, is_drop(old, new)
        pairs[of] = new if new == NOWHERE else pairs.get(of, new)
    return Rename(fullest.below, tuple((old, new) for (old, _), new in pairs.items()))


def name_at(renames: Iterable[Rename], name: str, position: str) -> str:
    """Return the current name of a column that an event at a position calls `name`."""
    for rename in sorted(renames):
        if position < rename.below:
            name = rename.of(name)
    return name
