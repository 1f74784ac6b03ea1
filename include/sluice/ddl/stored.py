"""Defaults that a source stores differently from how the statement spells them.

MySQL's rules: its reference manual, "The CHAR and VARCHAR Types", "The YEAR Type", "Fractional
Seconds in Time Values", "Floating-Point Types".
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sluice.ddl.dialects import MYSQL, ORACLE, SQL_SERVER

if TYPE_CHECKING:
    from sqlglot import exp

_PLACES: Final = re.compile(r"\.(\d*[1-9])")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.IGNORECASE)
_WHOLE: Final = re.compile(r"0|-?[1-9]\d*")
_CENTURIES: Final = {0: 2000, 70: 1900}
_YEARS: Final = range(1901, 2156)


def as_stored(default: str, column: exp.ColumnDef, source: str, *, unquoted: bool) -> str | None:
    """Return a default as its column stores it; None if uncertain.

    `unquoted`: it is written like a number; `source`: see `sluice.ddl.defaults.source_of`.
    """
    from sqlglot import exp

    kind = kind_of(column)
    if is_char(column):
        return default if source in (ORACLE, SQL_SERVER) else default.rstrip(" ")
    if kind == exp.DataType.Type.YEAR:
        return _year(default, unquoted)
    if kind in (exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE):
        return default if _fits(default, _sizes(column)) else None
    places = _PLACES.search(default) if _is_time(column) else None
    return None if places and len(places[1]) > _most_places(column, source) else default


def kind_of(column: exp.ColumnDef) -> Any:
    """Return the type of a column without its size; None if it has none."""
    kind = column.args.get("kind")
    return None if kind is None else kind.this


def is_text(column: exp.ColumnDef) -> bool:
    """Whether a column holds texts, not labels."""
    from sqlglot import exp

    return kind_of(column) in exp.DataType.TEXT_TYPES


def is_char(column: exp.ColumnDef) -> bool:
    """Whether a column is a CHAR, whose texts all but MySQL pad with blanks."""
    from sqlglot import exp

    return kind_of(column) in (exp.DataType.Type.CHAR, exp.DataType.Type.NCHAR)


def keeps(cast: exp.Cast, column: exp.ColumnDef) -> bool:
    """Whether a cast leaves a literal as its column would store it: a cast to the column's own
    type, to a moment (as `TIMESTAMP '…'` is), or to a text type that is long enough.

    A type without a size may have no decimal places, and a CHAR has one character.
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
    """Whether a text fits into a text type."""
    from sqlglot import exp

    char = kind.this in (exp.DataType.Type.CHAR, exp.DataType.Type.NCHAR)
    size = next((given.name for given in kind.expressions), "1" if char else "")
    return not size or (size.isdecimal() and len(text) <= int(size))


def is_respelled(default: str | None, column: exp.ColumnDef, *, unquoted: bool) -> bool:
    """Whether a column may spell its default differently: a whole-number column one that is not
    spelled as a whole number, a text column one without quotes (`unquoted`)."""
    from sqlglot import exp

    whole = exp.DataType.INTEGER_TYPES - {exp.DataType.Type.BIT} | {exp.DataType.Type.DECIMAL}
    asked = kind_of(column) in whole or (unquoted and is_text(column))
    return default is not None and asked and not _WHOLE.fullmatch(default)


def _year(default: str, unquoted: bool) -> str | None:
    """Return MySQL's YEAR: two digits are 1970 to 2069; a text of zeros is 2000 unless it has
    four."""
    if not (default.isascii() and default.isdecimal()):
        return None
    year = int(default)
    if year == 0 and (unquoted or len(default) == len("0000")):
        return "0"
    if year < 100:
        year += _CENTURIES[70 if year >= 70 else 0]
    return str(year) if year in _YEARS else None


def _fits(default: str, sizes: list[str]) -> bool:
    """Whether a number has no more decimal places than its `FLOAT(M,D)`; MySQL would round it as a
    double."""
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
    """Return the decimal places of seconds that a column certainly keeps without rounding.

    Without a size MySQL's types keep none; SQL Server's `datetime` does not keep all of three, and
    TIMESTAMP or TIME of an unknown source may be MySQL's.
    """
    from sqlglot import exp

    size = next(iter(_sizes(column)), "")
    if size.isdecimal():
        return int(size)
    several = {exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIME}
    others = kind_of(column) not in several | {exp.DataType.Type.DATETIME}
    certain = source in (ORACLE, SQL_SERVER) and kind_of(column) != exp.DataType.Type.DATETIME
    return 9 if source != MYSQL and (others or certain) else 0


def _sizes(column: exp.ColumnDef) -> list[str]:
    return [size.name for size in column.args["kind"].expressions]
