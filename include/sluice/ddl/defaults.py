"""What rows that are there hold in a column that a DDL statement adds: its constant default."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from sqlglot import exp

from sluice.ddl.create_table import MYSQL, SQL_SERVER
from sluice.ddl.spelling import has_backtick
from sluice.ddl.stored import ORACLE, as_stored, is_char, is_respelled, is_text, keeps, kind_of

ColumnChange = tuple[str | None, str | None]
"""A column's former name and its name since; None: it was not there before, or is not since."""


class AddedColumn(NamedTuple):
    """A column that was added, and what the rows that were there hold in it since.

    `default`: None for NULL. `verbatim`: its text is what a column of text holds; that of a time or
    a decimal may be spelled otherwise by the source. `kind`: `ENUM`, `SET`; `CHAR` where the text
    is shorter, which all but MySQL fill up with blanks; `BIT` where only MySQL has a number of the
    bits, or of a boolean; `TIMESTAMP`, which only to MySQL is an instant: formats differ in these.
    `of_session`: whether it is an instant as the statement's session, whose time zone nobody tells,
    has it.
    """

    name: str
    default: str | None = None
    verbatim: bool = True
    kind: str = ""
    of_session: bool = False

    def as_written(self, written: Collection[str]) -> AddedColumn:
        """As a format has it whose events have these kinds alone as the statement does."""
        verbatim = self.verbatim and (not self.kind or self.kind in written)
        of_session = self.of_session or (self.kind == TIMESTAMP and self.kind in written)
        return AddedColumn(self.name, self.default, verbatim, of_session=of_session)


ENUM: Final = "ENUM"
SET: Final = "SET"
CHAR: Final = "CHAR"
BIT: Final = "BIT"
TIMESTAMP: Final = "TIMESTAMP"
OF_MYSQL: Final = frozenset({BIT, CHAR, TIMESTAMP})
"""The kinds of which MySQL has its own notion, so that they are told where the source is MySQL."""
# What is in quotes is no type; the second part is.
_ORACLES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\b(N?VARCHAR2|N?CLOB)\b", re.IGNORECASE)


class _Told(NamedTuple):
    """A constant as a statement has it; None for NULL. `bare`: without quotes, as a number is."""

    text: str | None
    bare: bool = False


def source_of(text: str, grammar: str) -> str:
    """Whose words a statement has that this grammar reads; '' for those that several have."""
    if grammar == SQL_SERVER:
        return SQL_SERVER
    if any(found[1] for found in _ORACLES.finditer(text)):
        return ORACLE
    return MYSQL if has_backtick(text) else ""


def added_column(column: exp.ColumnDef, source: str = "") -> AddedColumn | None:
    """What one definition in an ALTER TABLE … ADD tells; None where it does not say.

    It does not where the column may have been there (IF NOT EXISTS), or where its values are made
    by the source: an expression, a sequence. A NOT NULL without a default is of MySQL, which fills
    in zeros and empty texts; elsewhere there are no rows then. SQL Server leaves NULL in the rows
    that are there, unless the column is NOT NULL. Oracle's empty text is NULL.
    """
    from sqlglot import exp

    told = {type(part.kind): part for part in column.args.get("constraints") or ()}
    if column.args.get("exists") or told.keys() & _made_by_source():
        return None
    required = _is_required(told.get(exp.NotNullColumnConstraint))
    default = told.get(exp.DefaultColumnConstraint)
    if default is None:
        found = _implicit(column) if required else _Told(None)
    elif not required and _leaves_null(default, source):
        found = _Told(None)
    else:
        found = _constant(default.kind.this, column)
    if source == ORACLE and found == _Told(""):
        found = _Told(None)
    if found is None or found.text is None:
        return None if found is None else _with_default(column, None)
    stored = _as_stored(found.text, found.bare, column, source)
    if stored is None:
        return None
    kind = "" if default is None else _kind_of_mysql(default, stored, column)
    added = _with_default(column, stored, kind, bare=found.bare)
    return added.as_written({kind}) if kind and source == MYSQL else added


def _with_default(
    column: exp.ColumnDef, default: str | None, kind: str = "", *, bare: bool = False
) -> AddedColumn:
    verbatim = _is_verbatim(column) and not is_respelled(default, column, bare=bare)
    return AddedColumn(column.name, default, verbatim, kind or _labels(column))


def _as_stored(text: str, bare: bool, column: exp.ColumnDef, source: str) -> str | None:
    """None where that is not certain: of an ENUM a number may be that of a label."""
    if _labels(column):
        return None if bare else _as_listed(text, column)
    return as_stored(text, column, source, number=bare)


def _kind_of_mysql(default: exp.ColumnConstraint, stored: str, column: exp.ColumnDef) -> str:
    """The kind of a default that other sources than MySQL may hold as another text."""
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
    """Whether it is SQL Server's, by its name too, or as a text of national characters where
    nothing says of whom it is."""
    from sqlglot import exp

    national = isinstance(default.kind.this, exp.National)
    return source == SQL_SERVER or (source == "" and (bool(default.this) or national))


def _implicit(column: exp.ColumnDef) -> _Told | None:
    from sqlglot import exp

    kind = kind_of(column)
    if kind == exp.DataType.Type.ENUM:
        return next(map(_literal, column.args["kind"].expressions), None)
    if kind in exp.DataType.NUMERIC_TYPES | {exp.DataType.Type.YEAR, exp.DataType.Type.BOOLEAN}:
        return _Told("0", bare=True)
    if kind == exp.DataType.Type.TIME:
        return _Told("00:00:00")
    return _Told("") if kind in exp.DataType.TEXT_TYPES | {exp.DataType.Type.SET} else None


def _as_listed(default: str, column: exp.ColumnDef) -> str | None:
    """A default of labels as MySQL stores it: each as the column's list spells it, those of a SET
    in the list's order. None where the list lacks one."""
    listed = [told.text for label in column.args["kind"].expressions if (told := _literal(label))]
    labels = [label.rstrip(" ") for label in listed if label is not None]
    several = _labels(column) == SET
    asked = [one for one in default.split(",") if one] if several else [default]
    found = [_label(one.rstrip(" "), labels) for one in asked]
    if None in found:
        return None
    return ",".join(label for label in labels if label in found)


def _label(asked: str, labels: list[str]) -> str | None:
    """The label that is meant, its case aside where none is spelled so."""
    alike = [label for label in labels if label.lower() == asked.lower()]
    return asked if asked in labels else next(iter(alike), None)


def _is_verbatim(column: exp.ColumnDef) -> bool:
    from sqlglot import exp

    whole = exp.DataType.INTEGER_TYPES | {exp.DataType.Type.ENUM, exp.DataType.Type.SET}
    kind = column.args.get("kind")
    scaled = kind is not None and len(kind.expressions) > 1
    decimal = kind_of(column) == exp.DataType.Type.DECIMAL and not scaled
    return decimal or kind_of(column) in exp.DataType.TEXT_TYPES | whole


def _is_short(default: str, column: exp.ColumnDef) -> bool:
    """Whether it is shorter than the CHAR that it is for."""
    if not is_char(column):
        return False
    size = next((told.name for told in column.args["kind"].expressions), "1")
    return not size.isdecimal() or len(default) < int(size)


def _labels(column: exp.ColumnDef) -> str:
    kind = kind_of(column)
    return kind.value if kind is not None and kind.value in (ENUM, SET) else ""


def _constant(value: Any, column: exp.ColumnDef) -> _Told | None:
    """None for what the source works out."""
    from sqlglot import exp

    if isinstance(value, exp.Cast) and not keeps(value, column):
        return None
    if isinstance(value, exp.Paren | exp.Cast | exp.DateStrToDate):
        return _constant(value.this, column)
    if isinstance(value, exp.Introducer):
        return _constant(value.expression, column)
    if isinstance(value, exp.Null):
        return _Told(None)
    if isinstance(value, exp.Boolean):
        return _Told(str(int(value.this)), bare=True)
    if isinstance(value, exp.BitString):
        known = value.name and not is_text(column)
        return _Told(str(int(value.name, 2)), bare=True) if known else None
    return _literal(value)


def _literal(value: Any) -> _Told | None:
    from sqlglot import exp

    sign, number = ("-", value.this) if isinstance(value, exp.Neg) else ("", value)
    if not isinstance(number, exp.Literal | exp.National):
        return None
    return _Told(sign + number.name, bare=isinstance(number, exp.Literal) and not number.is_string)


def kept_columns(
    added: Iterable[AddedColumn], changes: Iterable[ColumnChange]
) -> Iterator[AddedColumn]:
    """Added columns under the names that a later statement leaves them; not those it drops."""
    since = {old.lower(): new for old, new in changes if old is not None}
    for one in added:
        name = since.get(one.name.lower(), one.name)
        if name is not None:
            yield one._replace(name=name)
