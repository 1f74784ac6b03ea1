"""Defaults, renames and additions of a table's columns, with which changes are read.

They follow from the set of events. Those with which a target's rows were written are stored with
it, in the property `sluice.defaults`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.column_renames import NOWHERE, Rename, Renames, from_pairs, name_at, nowhere_columns
from sluice.names import RENAMES_IN_DEFAULTS, dropped_column
from sluice.positions import KIND_SOURCE
from spark_jobs.planning import defaults
from spark_jobs.planning.additions import Addition, Additions, with_stated_defaults
from spark_jobs.planning.defaults import NO_DEFAULTS, NOTHING, Default, Defaults
from spark_jobs.planning.rename_clashes import Clash, FilledColumn, clash, current_name
from spark_jobs.planning.renames import lacking, moves_of_rows, renamed

NO_HISTORY: Final = "{}"
# No column of a source has such a name.
_ADDITIONS: Final = "\n"
_LACKING: Final = "\t"
_LEFT: Final = "\r"


@dataclass(frozen=True)
class ColumnHistory:
    """Defaults, by the columns' names in the events that describe them, renames and additions.

    `lacking`: the renamed columns that the table never had, in lower case. Once such a column
    arrives, the names of others may mean something else: `b` was renamed to `a`, so below that `a`
    was another column.
    `left`: those that left the table. The changelog has them, and changes are read with them: so
    they count as there, and as NULL in all stored rows.
    """

    defaults: Defaults = field(default_factory=dict)
    renames: Renames = ()
    additions: Additions = ()
    lacking: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def known(
        self, of_events: Defaults, renames: Renames, additions: Additions, columns: Iterable[str]
    ) -> ColumnHistory:
        """Return what is known with other defaults, renames and additions, of a table that has
        these columns now."""
        there = {name.lower() for name in columns}
        left = tuple(name for name in self.left if name.lower() not in there)
        return ColumnHistory(of_events, renames, additions, lacking(renames, [*there, *left]), left)

    @property
    def absent(self) -> frozenset[str]:
        """The columns, in lower case, that the published rows do not have."""
        return frozenset((*self.lacking, *map(str.lower, self.left)))

    def arrived(self, before: ColumnHistory) -> frozenset[str]:
        """Return the renamed columns that the table has got since `before`."""
        return frozenset(before.lacking).difference(self.lacking)

    def names_as(self, before: ColumnHistory) -> bool:
        """Whether stored rows, written as `before`, have the current names of columns."""
        return self.renames == before.renames and not self.arrived(before)

    def without(self, gone: Collection[str]) -> ColumnHistory:
        """Return the history of a table that some columns leave."""
        return replace(self, left=tuple(sorted({*self.left, *gone}))) if gone else self

    def new_renames(self, before: ColumnHistory) -> set[Rename]:
        """Return the renames by which events read otherwise than `before`."""
        arrived = self.arrived(before)
        returned = (r for r in self.renames if any(o.lower() in arrived for o, _ in r.columns))
        return set(self.renames).difference(before.renames).union(returned)

    def current_defaults(self) -> Defaults:
        """Return the defaults by current column names, those of DDL included."""
        return with_stated_defaults(self._of_events(), self.additions)

    def _of_events(self) -> Defaults:
        if not self.renames:
            return self.defaults
        # A statement may spell a column otherwise than the table does.
        names = (*(one.name for one in self.additions), *self.defaults)
        spelled = {name.lower(): name for name in names}
        by_name: dict[str, Default] = {}
        for name, default in self.defaults.items():
            for kind, first in default.firsts.items():
                now = name_at(self.renames, name, first)
                if now == NOWHERE:
                    continue
                text = default.text if kind == KIND_SOURCE else None
                part = Default({kind: first}, text, default.kind)
                by_name = defaults.merged(by_name, {spelled.get(now.lower(), now): part})
        return by_name

    def clash(self, before: ColumnHistory, columns: Collection[str]) -> Clash | None:
        """Return two columns that cannot be told apart in stored rows, written with the defaults
        and renames `before`; None if there are none. See `rename_clashes.clash`."""
        columns = [*columns, *self.left]
        held = before.current_defaults()
        filled = {
            name: [self._filled(before, name, part, columns) for part in default.parts]
            for name, default in held.items()
        }
        arrived = self.arrived(before)
        found = clash(before.renames, self.renames, columns, filled, arrived)
        return found or self._added_twice(before, columns, held)

    def _filled(
        self, before: ColumnHistory, stored: str, part: Default, columns: Collection[str]
    ) -> FilledColumn:
        now, limit = self._now(before, stored, part, columns), max(part.limits.values())
        return FilledColumn(part.added_at, limit, now, part.dropped_at)

    def _now(
        self, before: ColumnHistory, stored: str, default: Default, columns: Collection[str]
    ) -> str:
        """Return the current name of the column for which a statement's default was filled into a
        stored column; "" if no statement is known."""
        spelled = {name.lower(): name for name in columns}
        names = (
            name_at(self.renames, one.stated, one.at)
            for one in before.additions
            if default.stated and (one.at, one.name) == (default.stated.at, stored) and one.stated
        )
        return next((spelled.get(name.lower(), name) for name in names), "")

    def _added_twice(
        self, before: ColumnHistory, columns: Collection[str], held: Defaults
    ) -> Clash | None:
        """Return a column of stored rows with the default of a statement that was not the first to
        add it: a row above the first has a value of its own, which may equal the default.

        That the first one added this column was not known when the rows were written: they have
        the default of another. Nor was a DROP TABLE above some of them, which have the default of
        the table that came after theirs.
        """
        now, known = self.current_defaults(), {one.at: one.name for one in before.additions}
        for stored, part in ((name, part) for name, d in held.items() for part in d.parts):
            name = current_name(before.renames, self.renames, columns, stored, part.added_at)
            default = now.get(name, NOTHING)
            for first in (one.stated for one in (*default.earlier, default) if one.stated):
                dropped_late = part.dropped_at < first.dropped_at <= part.added_at
                among = first.dropped_at <= part.added_at and part.dropped_at <= first.at
                earlier = among and first.at < part.added_at
                unknown = known.get(first.at) not in (stored, dropped_column(stored))
                if (dropped_late or (earlier and unknown)) and (part.stated or self.renames):
                    return name, name, stored
        return None

    def changes(self, rows: DataFrame) -> DataFrame:
        """Return changes under current names, with the defaults of columns that they lack."""
        return defaults.filled(renamed(rows, self.renames), self.current_defaults())

    def text(self) -> str | None:
        """Return the value of the table property; None if there is nothing to store."""
        entries: dict[str, Any] = dict(defaults.entries(self.defaults))
        if self.renames:
            pairs = [[rename.below, rename.columns] for rename in self.renames]
            entries[RENAMES_IN_DEFAULTS] = pairs
        if self.additions:
            entries[_ADDITIONS] = [astuple(one) for one in self.additions]
        if self.absent:
            entries[_LACKING], entries[_LEFT] = self.lacking, self.left
        return json.dumps(entries, ensure_ascii=False) if entries else None

    def rows(self, stored: DataFrame, before: ColumnHistory, types: Mapping[str, str]) -> DataFrame:
        """Return stored rows, written with the defaults and renames `before`, as they read with
        these.

        `types`: the table's columns, some of which the rows may lack.
        """
        new = {c: F.lit(None).cast(types[c]) for c in types if c not in stored.columns}
        stored = stored.withColumns(new) if new else stored
        if self.names_as(before):
            return defaults.with_changed_defaults(
                stored, before.current_defaults(), self.current_defaults()
            )
        # A default belongs to the column for which it was stated, whatever its name is now.
        without_defaults = defaults.with_changed_defaults(
            stored, before.current_defaults(), NO_DEFAULTS
        )
        values = self.renamed_values(before, dict(without_defaults.dtypes))
        moved = {column: F.expr(value) for column, value in values.items()}
        named = without_defaults.withColumns(moved) if moved else without_defaults
        return defaults.with_changed_defaults(named, NO_DEFAULTS, self.current_defaults())

    def renamed_values(
        self, before: ColumnHistory, types: Mapping[str, str], row: str = ""
    ) -> dict[str, str]:
        """Return SQL by column that gives stored rows, written with the renames `before`, their
        current column names. `types`, `row`: see `renames.moves_of_rows`."""
        arrived = self.arrived(before)
        return moves_of_rows(before.renames, self.renames, types, row, arrived, self.left)


def read(text: str | None) -> ColumnHistory:
    """Parse the result of `ColumnHistory.text`."""
    raw = json.loads(text or NO_HISTORY)
    renames = from_pairs(raw.pop(RENAMES_IN_DEFAULTS, []))
    additions = tuple(Addition(*one) for one in raw.pop(_ADDITIONS, []))
    absent = raw.pop(_LACKING, [])
    left = tuple(raw.pop(_LEFT, _that_left(absent, renames)))
    lacking = tuple(name for name in absent if name not in left)
    return ColumnHistory(defaults.of_entries(raw), renames, additions, lacking, left)


def _that_left(absent: Iterable[str], renames: Renames) -> list[str]:
    """Return the columns that have left, of a text without them: those that were dropped."""
    gone = nowhere_columns(renames)
    return [name for name in absent if name in gone]
