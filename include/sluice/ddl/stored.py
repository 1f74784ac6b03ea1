"""Defaults that a source stores otherwise than a statement spells them.

MySQL's rules: its reference manual, "The CHAR and VARCHAR Types", "The YEAR Type", "Fractional
Seconds in Time Values", "Floating-Point Types".
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sluice.ddl.create_table import MYSQL, SQL_SERVER

if TYPE_CHECKING:
    from sqlglot import exp

ORACLE: Final = "oracle"
_PLACES: Final = re.compile(r"\.(\d*[1-9])")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.IGNORECASE)
_WHOLE: Final = re.compile(r"0|-?[1-9]\d*")
_CENTURIES: Final = {0: 2000, 70: 1900}
_YEARS: Final = range(1901, 2156)


def as_stored(default: str, column: exp.ColumnDef, source: str, *, number: bool) -> str | None:
    """A default as its column holds it; None where that is not certain. `number`: it is written as
    one; `source` as `sluice.ddl.defaults.source_of` tells it."""
    from sqlglot import exp

    kind = kind_of(column)
    if is_char(column):
        return default if source in (ORACLE, SQL_SERVER) else default.rstrip(" ")
    if kind == exp.DataType.Type.YEAR:
        return _year(default, number)
    if kind in (exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE):
        return default if _fits(default, _sizes(column)) else None
    places = _PLACES.search(default) if _is_time(column) else None
    return None if places and len(places[1]) > _most_places(column, source) else default


def kind_of(column: exp.ColumnDef) -> Any:
    """The type of a column, without its size; None where it has none."""
    kind = column.args.get("kind")
    return None if kind is None else kind.this


def is_text(column: exp.ColumnDef) -> bool:
    """Whether its values are texts, not labels."""
    from sqlglot import exp

    return kind_of(column) in exp.DataType.TEXT_TYPES


def is_char(column: exp.ColumnDef) -> bool:
    """Whether its texts are all of one length, but for MySQL's, which have no blanks at the end."""
    from sqlglot import exp

    return kind_of(column) in (exp.DataType.Type.CHAR, exp.DataType.Type.NCHAR)


def keeps(cast: exp.Cast, column: exp.ColumnDef) -> bool:
    """Whether a cast leaves a literal as its column would have it: to the column's own type, to a
    moment, which `TIMESTAMP '…'` is too, or to a text that is long enough.

    Without a size a type may have no places, and a CHAR one character.
    """
    from sqlglot import exp

    to, given = cast.args["to"], cast.this.unnest()
    if to.this in exp.DataType.TEXT_TYPES | {exp.DataType.Type.BPCHAR}:
        return isinstance(given, exp.Literal) and _holds(to, given.name)
    if is_text(column):
        return False
    if to.this == exp.DataType.Type.DATE:
        return ":" not in given.name
    moments = {exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ}
    alike = to.this in moments | {kind_of(column)} and not to.expressions
    return to == column.args.get("kind") or (alike and not _PLACES.search(given.name))


def _holds(kind: exp.DataType, text: str) -> bool:
    """Whether a type of text is long enough."""
    from sqlglot import exp

    char = kind.this in (exp.DataType.Type.CHAR, exp.DataType.Type.NCHAR)
    size = next((told.name for told in kind.expressions), "1" if char else "")
    return not size or (size.isdecimal() and len(text) <= int(size))


def is_respelled(default: str | None, column: exp.ColumnDef, *, bare: bool) -> bool:
    """Whether a default is none of the numbers, as they are spelled, that a whole column holds; nor
    one of text where it is `bare`, without quotes."""
    from sqlglot import exp

    whole = exp.DataType.INTEGER_TYPES - {exp.DataType.Type.BIT} | {exp.DataType.Type.DECIMAL}
    asked = kind_of(column) in whole or (bare and is_text(column))
    return default is not None and asked and not _WHOLE.fullmatch(default)


def _year(default: str, number: bool) -> str | None:
    """MySQL's two digits are of 1970 to 2069; a text of zeros is 2000, unless it has four."""
    if not (default.isascii() and default.isdecimal()):
        return None
    year = int(default)
    if year == 0 and (number or len(default) == len("0000")):
        return "0"
    if year < 100:
        year += _CENTURIES[70 if year >= 70 else 0]
    return str(year) if year in _YEARS else None


def _fits(default: str, sizes: list[str]) -> bool:
    """Whether a number has no more places than a `FLOAT(M,D)`; MySQL rounds a double there."""
    scale = sizes[1] if len(sizes) > 1 else ""
    if not scale.isdecimal():
        return True
    if not _NUMBER.fullmatch(default):
        return False
    exponent = Decimal(default).normalize().as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= int(scale)


def _is_time(column: exp.ColumnDef) -> bool:
    from sqlglot import exp

    return kind_of(column) in exp.DataType.TEMPORAL_TYPES | {
        exp.DataType.Type.TIME,
        exp.DataType.Type.TIMETZ,
    }


def _most_places(column: exp.ColumnDef, source: str) -> int:
    """Of a second. Without a size MySQL's types have none, SQL Server's `datetime` not all of
    three; `timestamp` is of several."""
    from sqlglot import exp

    size = next(iter(_sizes(column)), "")
    if size.isdecimal():
        return int(size)
    several = {exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIME}
    others = kind_of(column) not in several | {exp.DataType.Type.DATETIME}
    known = source in (ORACLE, SQL_SERVER) and kind_of(column) != exp.DataType.Type.DATETIME
    return 9 if source != MYSQL and (others or known) else 0


def _sizes(column: exp.ColumnDef) -> list[str]:
    return [told.name for told in column.args["kind"].expressions]
