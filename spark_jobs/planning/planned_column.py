"""A column of a table's plan: as stored, and as the events have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.config.collations import NOCASE, NULL, RTRIM, compared_name
from sluice.errors import PlanError
from sluice.types.columns import STRING, ColumnType
from spark_jobs.values import as_type

_NO_TEXT: Final = ("float", "double", "binary")


@dataclass(frozen=True)
class PlannedColumn:
    """A column as stored, and how each description of the events has it written.

    `readings` maps a `short_name` to the type of its values; `None` stands for events without a
    description and for hints. `others`: how events spell the name besides. `rule`: the column holds
    what equal values of the column `compares` have in common (`sluice.config.collations`).
    `silent`: what events say under its name is of a column of the key; it is NULL.
    `always_told`: an image without the column has NULL in it, see `Format.whole_rows`.
    `told`: somebody says its type: the batch's events, a hint or a script.
    """

    name: str
    stored: ColumnType
    readings: Mapping[int | None, ColumnType]
    others: tuple[str, ...] = ()
    compares: str = ""
    rule: str = ""
    silent: bool = False
    always_told: bool = False
    told: bool = True

    @property
    def source_name(self) -> str:
        """The column of the source whose text it has."""
        return self.compares or self.name

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names under which images may carry the column."""
        return (self.source_name, *self.others)

    @property
    def holds_nulls(self) -> bool:
        """Whether NULL is a value of the key that it stands for."""
        return NULL in self.rule

    def reading(self, description: int) -> ColumnType:
        """The type that texts are read by, of events with a description: a hint wins."""
        return self.readings[description if description in self.readings else None]

    def text_in(self, image: Column) -> Column:
        """The column's text in an image; NULL where the image has none."""
        if self.silent:
            return F.lit(None).cast("string")
        text = _compared(F.coalesce(*(image[name] for name in self.spellings)), self.rule)
        if not self.holds_nulls:
            return text
        carried = (F.map_contains_key(image, name) for name in self.spellings)
        told = image.isNotNull() if self.always_told else reduce(or_, carried)
        return F.when(told, null_safe(text))

    def compared(self, value: Column, stored: ColumnType) -> Column:
        """What a value of the column that it stands for, stored as this type, has in common with
        its equals; where NULL is one of them."""
        return null_safe(_compared(as_type(value, stored, STRING.spark), self.rule))


def null_safe(text: Column) -> Column:
    """Never NULL: a text that begins with `=`, or an empty one."""
    return F.coalesce(F.concat(F.lit("="), text), F.lit(""))


def _compared(text: Column, rule: str) -> Column:
    """Upper case, for a Greek sigma has one of it and two of lower case; Unicode's own, whatever
    the language of the machine."""
    trimmed = F.rtrim(text) if RTRIM in rule else text
    if NOCASE not in rule:
        return trimmed
    return F.collate(F.upper(F.collate(trimmed, "UNICODE")), "UTF8_BINARY")


def key_by_rules(
    table: str,
    key: Sequence[str],
    columns: Sequence[PlannedColumn],
    compared: Mapping[str, str],
    whole_rows: bool = False,
) -> tuple[tuple[str, ...], tuple[PlannedColumn, ...]]:
    """The key, and all columns, with those by which its columns are compared; `whole_rows` as its
    format says.

    Raises PlanError for a rule of a column that is not in the key, or cannot compare so.
    """
    if others := sorted(compared.keys() - set(key)):
        raise PlanError(
            f"table {table}: `collations` or `null_keys` name {others}, but the key is {list(key)}"
        )
    known = {column.name: column for column in columns}
    beside = {
        name: replace(_beside(table, known[name], rule), always_told=whole_rows)
        for name, rule in compared.items()
    }
    named = tuple(beside[name].name if name in beside else name for name in key)
    return named, (*columns, *(beside[name] for name in key if name in beside))


def _beside(table: str, column: PlannedColumn, rule: str) -> PlannedColumn:
    plain = set(column.readings.values()) == {STRING} and column.stored == STRING
    if rule != NULL and not plain:
        raise PlanError(
            f"table {table}: column {column.name!r} is {column.stored.spark} and not plain text, "
            "so that it has no collation; take it out of `collations`"
        )
    if column.stored.name in _NO_TEXT:
        raise PlanError(
            f"table {table}: column {column.name!r} is {column.stored.spark}, whose equal values "
            "have no text in common; take it out of `null_keys`"
        )
    name = compared_name(column.name, rule)
    return PlannedColumn(name, STRING, {None: STRING}, column.others, column.name, rule)
