"""Constant defaults of columns that DDL statements add: the value in existing rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from sqlglot import exp

from sluice.ddl.dialects import MYSQL, ORACLE, SQL_SERVER
from sluice.ddl.spelling import has_backtick
from sluice.ddl.stored import as_stored, is_char, is_respelled, is_text, keeps, kind_of

ColumnChange = tuple[str | None, str | None]
"""A column's former and new name; None for a column that is added or dropped."""


class AddedColumn(NamedTuple):
    """An added column, with its value in the rows that existed.

    `default`: None for NULL. `verbatim`: a text column has exactly this text; times and decimals
    may be spelled differently by the source. `kind`: a type whose values formats write differently:
    `ENUM`, `SET`; `CHAR` for a text shorter than its column, which all but MySQL pad with blanks;
    `BIT` for bits or booleans, which only MySQL has as numbers; `TIMESTAMP`, which only in MySQL is
    an instant. `of_session`: the default is an instant in the unknown time zone of the statement's
    session.
    """

    name: str
    default: str | None = None
    verbatim: bool = True
    kind: str = ""
    of_session: bool = False

    def as_written(self, written: Collection[str]) -> AddedColumn:
        """Return the column for a format whose events write only these kinds as the
        statement does."""
        verbatim = self.verbatim and (not self.kind or self.kind in written)
        of_session = self.of_session or (self.kind == TIMESTAMP and self.kind in written)
        return AddedColumn(self.name, self.default, verbatim, of_session=of_session)


ENUM: Final = "ENUM"
SET: Final = "SET"
CHAR: Final = "CHAR"
BIT: Final = "BIT"
TIMESTAMP: Final = "TIMESTAMP"
OF_MYSQL: Final = frozenset({BIT, CHAR, TIMESTAMP})
"""The kinds that only MySQL stores as its statements write them."""
# The first part skips quoted texts, in which a type's name is none.
_ORACLES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\b(N?VARCHAR2|N?CLOB)\b", re.IGNORECASE)


class _Constant(NamedTuple):
    """A constant as a statement has it; None for NULL. `unquoted`: like a number."""

    text: str | None
    unquoted: bool = False


_NULL: Final = _Constant(None)


def source_of(text: str, grammar: str) -> str:
    """Return the database whose own words a grammar reads in a statement; "" if
    several have them."""
    if grammar == SQL_SERVER:
        return SQL_SERVER
    if any(found[1] for found in _ORACLES.finditer(text)):
        return ORACLE
    return MYSQL if has_backtick(text) else ""


def added_column(column: exp.ColumnDef, source: str) -> AddedColumn | None:
    """Return the column that a definition in ALTER TABLE … ADD adds; None if its value is unknown.

    It is unknown if the column may have existed (IF NOT EXISTS), or if the source computes values
    (an expression, a sequence). NOT NULL without a default fills in zeros and empty texts in MySQL;
    elsewhere it implies an empty table. SQL Server leaves NULL in existing rows unless the column
    is NOT NULL. Oracle's empty text is NULL.
    """
    from sqlglot import exp

    constraints = {type(part.kind): part for part in column.args.get("constraints") or ()}
    if column.args.get("exists") or constraints.keys() & _made_by_source():
        return None
    required = _is_required(constraints.get(exp.NotNullColumnConstraint))
    default = constraints.get(exp.DefaultColumnConstraint)
    constant = _existing_value(column, default, required, source)
    if constant is None:
        return None
    if constant.text is None:
        return _with_default(column, None)
    stored = _as_stored(constant.text, constant.unquoted, column, source)
    if stored is None:
        return None
    kind = "" if default is None else _kind_of_mysql(default, stored, column)
    added = _with_default(column, stored, kind, unquoted=constant.unquoted)
    return added.as_written({kind}) if kind and source == MYSQL else added


def _existing_value(
    column: exp.ColumnDef, default: exp.ColumnConstraint | None, required: bool, source: str
) -> _Constant | None:
    """Return the value that rows which existed get; None if it is unknown."""
    if default is None:
        constant = _implicit(column) if required else _NULL
    elif not required and _leaves_null(default, source):
        constant = _NULL
    else:
        constant = _constant(default.kind.this, column)
    return _NULL if source == ORACLE and constant == _Constant("") else constant


def _with_default(
    column: exp.ColumnDef, default: str | None, kind: str = "", *, unquoted: bool = False
) -> AddedColumn:
    verbatim = _is_verbatim(column) and not is_respelled(default, column, unquoted=unquoted)
    return AddedColumn(column.name, default, verbatim, kind or _labels(column))


def _as_stored(text: str, unquoted: bool, column: exp.ColumnDef, source: str) -> str | None:
    """Return a default as its column stores it; None if that is uncertain: an ENUM's number may be
    the index of a label."""
    if _labels(column):
        return None if unquoted else _as_listed(text, column)
    return as_stored(text, column, source, unquoted=unquoted)


def _kind_of_mysql(default: exp.ColumnConstraint, stored: str, column: exp.ColumnDef) -> str:
    """Return the kind of a default that sources other than MySQL may store differently."""
    from sqlglot import exp

    given = default.kind.this.unnest()
    if isinstance(given, exp.BitString) and given.name != stored:
        return BIT
    if isinstance(given, exp.Boolean) and is_text(column):
        return BIT
    if kind_of(column) in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ):
        return TIMESTAMP
    return CHAR if _is_short(stored, column) else ""


def _made_by_source() -> set[type[exp.Expr]]:
    from sqlglot import exp

    return {
        exp.AutoIncrementColumnConstraint,
        exp.ComputedColumnConstraint,
        exp.GeneratedAsIdentityColumnConstraint,
        exp.GeneratedAsRowColumnConstraint,
    }


def _is_required(not_null: exp.ColumnConstraint | None) -> bool:
    return not_null is not None and not not_null.kind.args.get("allow_null")


def _leaves_null(default: exp.ColumnConstraint, source: str) -> bool:
    """Whether existing rows keep NULL, as SQL Server's do.

    SQL Server is known by the `source`, a named constraint or an N'' text.
    """
    from sqlglot import exp

    national = isinstance(default.kind.this, exp.National)
    return source == SQL_SERVER or (source == "" and (bool(default.this) or national))


def _implicit(column: exp.ColumnDef) -> _Constant | None:
    from sqlglot import exp

    kind = kind_of(column)
    if kind == exp.DataType.Type.ENUM:
        return next(map(_literal, column.args["kind"].expressions), None)
    if kind in exp.DataType.NUMERIC_TYPES | {exp.DataType.Type.YEAR, exp.DataType.Type.BOOLEAN}:
        return _Constant("0", unquoted=True)
    if kind == exp.DataType.Type.TIME:
        return _Constant("00:00:00")
    return _Constant("") if kind in exp.DataType.TEXT_TYPES | {exp.DataType.Type.SET} else None


def _as_listed(default: str, column: exp.ColumnDef) -> str | None:
    """Return labels as MySQL stores them: spelled as in the column's list, those of a SET in its
    order; None for an unknown label."""
    listed = [one.text for label in column.args["kind"].expressions if (one := _literal(label))]
    labels = [label.rstrip(" ") for label in listed if label is not None]
    several = _labels(column) == SET
    wanted = [one for one in default.split(",") if one] if several else [default]
    chosen = [_label(one.rstrip(" "), labels) for one in wanted]
    if None in chosen:
        return None
    return ",".join(label for label in labels if label in chosen)


def _label(wanted: str, labels: list[str]) -> str | None:
    """Return the matching label, ignoring case unless one matches exactly."""
    alike = [label for label in labels if label.lower() == wanted.lower()]
    return wanted if wanted in labels else next(iter(alike), None)


def _is_verbatim(column: exp.ColumnDef) -> bool:
    from sqlglot import exp

    whole = exp.DataType.INTEGER_TYPES | {exp.DataType.Type.ENUM, exp.DataType.Type.SET}
    kind = column.args.get("kind")
    scaled = kind is not None and len(kind.expressions) > 1
    decimal = kind_of(column) == exp.DataType.Type.DECIMAL and not scaled
    return decimal or kind_of(column) in exp.DataType.TEXT_TYPES | whole


def _is_short(default: str, column: exp.ColumnDef) -> bool:
    """Whether a default is shorter than its CHAR column."""
    if not is_char(column):
        return False
    size = next((part.name for part in column.args["kind"].expressions), "1")
    return not size.isdecimal() or len(default) < int(size)


def _labels(column: exp.ColumnDef) -> str:
    kind = kind_of(column)
    return kind.value if kind is not None and kind.value in (ENUM, SET) else ""


def _constant(value: Any, column: exp.ColumnDef) -> _Constant | None:
    """Return a constant default; None for a computed one."""
    from sqlglot import exp

    if isinstance(value, exp.Cast) and not keeps(value, column):
        return None
    if isinstance(value, exp.Paren | exp.Cast | exp.DateStrToDate):
        return _constant(value.this, column)
    if isinstance(value, exp.Introducer):
        return _constant(value.expression, column)
    if isinstance(value, exp.Null):
        return _Constant(None)
    if isinstance(value, exp.Boolean):
        return _Constant(str(int(value.this)), unquoted=True)
    if isinstance(value, exp.BitString):
        known = value.name and not is_text(column)
        return _Constant(str(int(value.name, 2)), unquoted=True) if known else None
    return _literal(value)


def _literal(value: Any) -> _Constant | None:
    from sqlglot import exp

    sign, number = ("-", value.this) if isinstance(value, exp.Neg) else ("", value)
    if not isinstance(number, exp.Literal | exp.National):
        return None
    return _Constant(
        sign + number.name, unquoted=isinstance(number, exp.Literal) and not number.is_string
    )


def kept_columns(
    added: Iterable[AddedColumn], changes: Iterable[ColumnChange]
) -> Iterator[AddedColumn]:
    """Yield added columns under their names after a later statement, without dropped ones."""
    since = {old.lower(): new for old, new in changes if old is not None}
    for one in added:
        name = since.get(one.name.lower(), one.name)
        if name is not None:
            yield one._replace(name=name)
