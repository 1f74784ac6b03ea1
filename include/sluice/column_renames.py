"""Renames of columns by position: what a column of an event is called now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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


def in_order(*parts: Iterable[Rename]) -> Renames:
    """All of them, each once, in the order of the source."""
    return tuple(sorted({rename for part in parts for rename in part}))


def name_at(renames: Iterable[Rename], name: str, position: str) -> str:
    """The name of now of a column that an event at a position calls `name`."""
    for rename in sorted(renames):
        if position < rename.below:
            name = rename.of(name)
    return name
