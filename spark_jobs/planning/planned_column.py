"""A column of a table's plan: how it is stored, and how events carry it."""

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

NO_TEXTS: Final[Mapping[str, Column]] = {}
_NO_TEXT: Final = ("float", "double", "binary")


@dataclass(frozen=True)
class PlannedColumn:
    """A stored column, and the type of its values by each description in the events.

    `readings`: the type of the values by `short_name` of the description; `None` stands for events
    without a description and for hints. `others`: other spellings of the name in events. `rule`:
    the column has the form of the column `compares` in which equal values are the same text
    (`sluice.config.collations`). `silent`: the column is NULL, since its name is another name of a
    key column. `null_if_missing`: an image without the column means NULL, see `Format.whole_rows`.
    `has_type`: the batch's events, a hint or a script give its type.
    """

    name: str
    stored: ColumnType
    readings: Mapping[int | None, ColumnType]
    others: tuple[str, ...] = ()
    compares: str = ""
    rule: str = ""
    silent: bool = False
    null_if_missing: bool = False
    has_type: bool = True

    @property
    def source_name(self) -> str:
        """The source's column whose values, or comparable form, the column has."""
        return self.compares or self.name

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names under which images may carry the column."""
        return (self.source_name, *self.others)

    @property
    def holds_nulls(self) -> bool:
        """Whether the column is the comparable form of a key column in which NULL is a value."""
        return NULL in self.rule

    def reading(self, description: int) -> ColumnType:
        """Return the type of the texts in events with a description; a hint takes precedence."""
        return self.readings[description if description in self.readings else None]

    def text_in(self, image: Column, texts: Mapping[str, Column] = NO_TEXTS) -> Column:
        """Return the column's text in an image; NULL if the image has none.

        `texts`: what the image has under some names, where that is cheaper than a lookup.
        """
        if self.silent:
            return F.lit(None).cast("string")
        found = (texts[name] if name in texts else image[name] for name in self.spellings)
        text = _compared(F.coalesce(*found), self.rule)
        if not self.holds_nulls:
            return text
        carried = (F.map_contains_key(image, name) for name in self.spellings)
        has_value = image.isNotNull() if self.null_if_missing else reduce(or_, carried)
        return F.when(has_value, _null_safe(text))

    def compared(self, value: Column, stored: ColumnType) -> Column:
        """Return the comparable form of a value of the column `compares`, stored as this type;
        NULL has one too."""
        return _null_safe(_compared(as_type(value, stored, STRING.spark), self.rule))


def _null_safe(text: Column) -> Column:
    """Return `=` and the text, or an empty text for NULL."""
    return F.coalesce(F.concat(F.lit("="), text), F.lit(""))


def _compared(text: Column, rule: str) -> Column:
    """Return the text in the form of a rule: without trailing blanks, in upper case by Unicode.

    Upper, not lower case: Greek sigma has two lower forms. UNICODE: independent of the locale.
    """
    trimmed = F.rtrim(text) if RTRIM in rule else text
    if NOCASE not in rule:
        return trimmed
    return F.collate(F.upper(F.collate(trimmed, "UNICODE")), "UTF8_BINARY")


def key_by_rules(
    table: str,
    key: Sequence[str],
    columns: Sequence[PlannedColumn],
    compared: Mapping[str, str],
    *,
    whole_rows: bool,
) -> tuple[tuple[str, ...], tuple[PlannedColumn, ...]]:
    """Return the key and the columns, with columns added for the comparable forms of key columns.

    `whole_rows`: see `Format`. Raises PlanError for a rule of a column that is not in the key, or
    whose type has no such rule.
    """
    if others := sorted(compared.keys() - set(key)):
        raise PlanError(
            f"table {table}: `collations` or `null_keys` name {others}, but the key is {list(key)}"
        )
    by_name = {column.name: column for column in columns}
    beside = {
        name: replace(_beside(table, by_name[name], rule), null_if_missing=whole_rows)
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
