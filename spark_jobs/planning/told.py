"""What is told of a table's columns beside their values: how they came, and were renamed.

Both follow from the set of events. Changes are read by it; stored rows were written by what was
told then, which is kept with the target as the property `sluice.defaults`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.column_renames import Rename, Renames, name_at
from sluice.names import RENAMES_IN_DEFAULTS
from sluice.positions import KIND_SOURCE
from spark_jobs.planning import defaults
from spark_jobs.planning.additions import Addition, Additions, overlaid
from spark_jobs.planning.defaults import NO_DEFAULTS, Default, Defaults
from spark_jobs.planning.renames import renamed, rows_renamed

NOTHING_TOLD: Final = "{}"
# No column of a source has such a name.
_ADDITIONS: Final = "\n"


@dataclass(frozen=True)
class Told:
    """`defaults` and `additions` are by the columns' names in the events that tell them."""

    defaults: Defaults = field(default_factory=dict)
    renames: Renames = ()
    additions: Additions = ()

    def held(self) -> Defaults:
        """The defaults by the names of now, those that DDL tells among them."""
        return overlaid(self._of_events(), self.additions)

    def _of_events(self) -> Defaults:
        if not self.renames:
            return self.defaults
        found: dict[str, Default] = {}
        for name, default in self.defaults.items():
            for kind, first in default.firsts.items():
                now = name_at(self.renames, name, first)
                text = default.text if kind == KIND_SOURCE else None
                part = Default({kind: first}, text, default.kind)
                found = defaults.lowest(found, {now: part})
        return found

    def changes(self, rows: DataFrame) -> DataFrame:
        """Changes under the names of now, with the defaults of the columns that they lack."""
        return defaults.filled(renamed(rows, self.renames), self.held())

    def text(self) -> str | None:
        """As a table property; None where nothing is told."""
        entries: dict[str, Any] = dict(defaults.entries(self.defaults))
        if self.renames:
            pairs = [[rename.below, rename.columns] for rename in self.renames]
            entries[RENAMES_IN_DEFAULTS] = pairs
        if self.additions:
            entries[_ADDITIONS] = [astuple(one) for one in self.additions]
        return json.dumps(entries, ensure_ascii=False) if entries else None

    def rows(self, stored: DataFrame, before: Told, types: Mapping[str, str]) -> DataFrame:
        """Stored rows that were written by what was told `before`, as they are by this.

        `types`: the table's columns, of which the rows may be from before some.
        """
        new = {c: F.lit(None).cast(types[c]) for c in types if c not in stored.columns}
        stored = stored.withColumns(new) if new else stored
        if self.renames == before.renames:
            return defaults.refilled(stored, before.held(), self.held())
        # A default is of the column that it was told of, whatever that is called since.
        bare = defaults.refilled(stored, before.held(), NO_DEFAULTS)
        return defaults.refilled(
            rows_renamed(bare, before.renames, self.renames), NO_DEFAULTS, self.held()
        )


def read(text: str | None) -> Told:
    """What `Told.text` gave."""
    raw = json.loads(text or NOTHING_TOLD)
    renames = tuple(
        Rename(below, tuple((old, new) for old, new in columns))
        for below, columns in raw.pop(RENAMES_IN_DEFAULTS, [])
    )
    additions = tuple(Addition(*one) for one in raw.pop(_ADDITIONS, []))
    return Told(defaults.of_entries(raw), renames, additions)
