"""Columns that the source renamed: `ALTER TABLE … RENAME COLUMN a TO b` sends no event of a row.

Names resolve by position: in a change below the rename, whenever it arrives, `a` means `b`; in one
above it, `a` is another column, added later. So a changelog keeps the names of its events and is
read under current names. Stored rows are renamed by a MERGE on the branch of the batch that brings
the rename. The column under the old name stays in the table and is NULL. The values of columns that
leave the target when they are dropped (`spark_jobs.planning.dropped`) are NOWHERE.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.column_renames import NOWHERE, Rename, Renames, is_drop, name_at
from sluice.positions import KIND_AT, KIND_SOURCE
from spark_jobs.planning.stretches import (
    DECLARED,
    NO_ORIGINS,
    Origins,
    Stretch,
    stretch_pairs,
    stretches_of,
)
from spark_jobs.quoting import literal, quoted
from spark_jobs.values import as_type_sql


def declared(former: Mapping[str, str]) -> Renames:
    """Return the renames of the configuration; `former`: former name → new name."""
    return (Rename(DECLARED, tuple(sorted(former.items()))),) if former else ()


def reused_names(renames: Iterable[Rename]) -> frozenset[str]:
    """Return, in lower case, the names of dropped columns that another column has, or may have,
    taken since."""
    pairs = (pair for rename in renames for pair in rename.columns)
    return frozenset(old.lower() for old, new in pairs if is_drop(old, new))


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
    types = dict(changes.dtypes)
    stretches = stretches_of(renames, types)
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

    def value(self, origins: Origins, types: Mapping[str, str]) -> str:
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
    row: str,
    arrived: Collection[str],
    left: Collection[str],
) -> dict[str, str]:
    """Return SQL by column that turns stored rows, written under the renames `before`, into rows
    under `now`.

    `types`: the stored columns; `row`: a prefix for each; `arrived`: those that the table did not
    have when the rows were written; `left`: others, that have left it, and are NULL. `_absent` is
    renamed too. The renames must not `clash`.
    """
    sides = stretch_pairs(before, now, [*types, *left], arrived)
    steps = [(old.below, _steps(old, new)) for old, new in sides]
    touched = sorted(
        c for c in types if any(step.get(c, NO_ORIGINS).possible != [c] for _, step in steps)
    )
    values = {
        c: [(at, _Into(c, row).value(step.get(c, NO_ORIGINS), types)) for at, step in steps]
        for c in touched
    }
    if touched and names.ABSENT in types:
        listed = f"{row}{names.ABSENT}"
        values[names.ABSENT] = [
            (at, _renamed_list(listed, _renamed_columns(step))) for at, step in steps
        ]
    position = f"{row}{names.POSITION}"
    return {c: _by_stretch(position, parts, f"{row}{quoted(c)}") for c, parts in values.items()}


def _renamed_columns(step: Mapping[str, Origins]) -> dict[str, str]:
    """Return stored column → current name, where they differ."""
    return {old: new for new, origins in step.items() for old in origins.possible if old != new}


def _steps(before: Stretch, now: Stretch) -> dict[str, Origins]:
    """Return current name → the stored columns that hold it."""
    by_name: dict[str, Origins] = {}
    for name, since in now.now.items():
        stored, origins = before.stored(name), by_name.setdefault(since, Origins([], []))
        if stored == NOWHERE:
            continue
        for listed in (origins.possible, *([] if name in now.gone else [origins.sure])):
            if stored not in listed:
                listed.append(stored)
    return by_name
