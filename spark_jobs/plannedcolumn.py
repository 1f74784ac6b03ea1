"""A column of a table's plan: as stored, and as the events have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.collations import NOCASE, RTRIM, compared_name
from sluice.coltypes import STRING, ColumnType
from sluice.errors import PlanError


@dataclass(frozen=True)
class PlannedColumn:
    """A column as stored, and how each description of the events has it written.

    `readings` maps a `short_name` to the type of its values; `None` stands for events without a
    description and for hints. `others`: how events spell the name besides. `collation`: the column
    holds what equal texts of the column `compares` have in common.
    """

    name: str
    stored: ColumnType
    readings: Mapping[int | None, ColumnType]
    others: tuple[str, ...] = ()
    compares: str = ""
    collation: str = ""

    @property
    def source_name(self) -> str:
        """The column of the source whose text it has."""
        return self.compares or self.name

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names under which images may carry the column."""
        return (self.source_name, *self.others)

    def text_in(self, image: Column) -> Column:
        """The column's text in an image; NULL where the image has none."""
        return _compared(F.coalesce(*(image[name] for name in self.spellings)), self.collation)


def _compared(text: Column, collation: str) -> Column:
    """Upper case, for a Greek sigma has one of it and two of lower case."""
    trimmed = F.rtrim(text) if RTRIM in collation else text
    return F.upper(trimmed) if NOCASE in collation else trimmed


def key_by_collations(
    table: str, key: Sequence[str], columns: Sequence[PlannedColumn], collations: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[PlannedColumn, ...]]:
    """The key, and all columns, with those by which its texts are compared.

    Raises PlanError for a collation of a column that is not in the key, or holds no text.
    """
    if others := sorted(collations.keys() - set(key)):
        raise PlanError(f"table {table}: `collations` name {others}, but the key is {list(key)}")
    known = {column.name: column for column in columns}
    beside = {name: _beside(table, known[name], rule) for name, rule in collations.items()}
    named = tuple(beside[name].name if name in beside else name for name in key)
    return named, (*columns, *(beside[name] for name in key if name in beside))


def _beside(table: str, column: PlannedColumn, collation: str) -> PlannedColumn:
    if set(column.readings.values()) != {STRING} or column.stored != STRING:
        raise PlanError(
            f"table {table}: column {column.name!r} is {column.stored.spark} and not plain text, "
            "so that it has no collation; take it out of `collations`"
        )
    name = compared_name(column.name, collation)
    return PlannedColumn(name, STRING, {None: STRING}, column.others, column.name, collation)
