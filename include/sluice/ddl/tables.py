"""Table renames in DDL statements: parsed by grammars, never executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sluice.ddl.spelling import has_in_order, readable, words
from sluice.ddl.statements import UnreadableDdlError, refuse_long, statements

if TYPE_CHECKING:
    from sqlglot import exp

MENTIONS_TABLE_RENAMES: Final = r"(?i)\brename\b"
"""Words of every statement that renames a table."""
# Possessive against backtracking: the texts come from files.
_NAME: Final = r'(?:`(?:[^`]|``)++`|"(?:[^"]|"")++"|[\w$#]++)'
_TABLE: Final = rf"({_NAME}(?:\s*+\.\s*+{_NAME})?)"
_WAIT: Final = r"\s++(?:(?:NOWAIT|WAIT\s++\d++)\s++)?+"
_PAIR: Final = rf"\s*+{_TABLE}{_WAIT}TO\s++{_TABLE}\s*+"
# No grammar reads MySQL's RENAME TABLE, nor Oracle's RENAME of a table.
_RENAME: Final = re.compile(r"\s*+RENAME\s++(TABLES?+\s++(?:IF\s++EXISTS\s++)?)?", re.IGNORECASE)
_PAIRS: Final = re.compile(rf"{_PAIR}(?:,{_PAIR})*+;?\s*+", re.IGNORECASE)
_ALTER_AS: Final = re.compile(r"\bRENAME\s++AS\b", re.IGNORECASE)
_ALTERS: Final = words("ALTER", "TABLE", r"RENAME\s++TO")


@dataclass(frozen=True)
class TableName:
    """A table; `schema`: the stated schema, or MySQL's database, '' if none is stated."""

    name: str
    schema: str = ""

    def may_be(self, other: TableName) -> bool:
        """Whether two names may mean one table, ignoring case."""
        schemas = {self.schema.lower(), other.schema.lower()} - {""}
        return self.name.lower() == other.name.lower() and len(schemas) < 2


@dataclass(frozen=True)
class RenamedTable:
    """A table's former and new name."""

    old: TableName
    new: TableName


def renamed_tables(text: str) -> list[RenamedTable]:
    """Return the tables that statements rename.

    `ALTER TABLE … RENAME TO …`, MySQL's `RENAME TABLE a TO b, …`, Oracle's `RENAME a TO b`. Tables
    that swap names in one statement are left out: online schema change tools replace a table by its
    copy this way. Raises UnreadableDdlError for a statement that renames a table and that no
    grammar reads.
    """
    if not re.search(MENTIONS_TABLE_RENAMES, text):
        return []
    refuse_long(text)
    plain = readable(text)
    begins = _RENAME.match(plain)
    renames = _of_rename(plain, begins) if begins else _of_alters(plain)
    return [one for one in renames if not any(_swap(one, other) for other in renames)]


def _swap(one: RenamedTable, other: RenamedTable) -> bool:
    """Whether a table takes another one's former name, or the other takes its own."""
    takes, gives = one.new.may_be(other.old), one.old.may_be(other.new)
    return one != other and (takes or gives)


def _of_rename(text: str, begins: re.Match[str]) -> list[RenamedTable]:
    rest = text[begins.end() :]
    if not _PAIRS.fullmatch(rest):
        if begins[1]:
            raise UnreadableDdlError
        return []  # of a user, an index …
    pairs = re.finditer(_PAIR, rest, re.IGNORECASE)
    return [RenamedTable(_table(pair[1]), _table(pair[2])) for pair in pairs]


def _table(dotted: str) -> TableName:
    *schema, name = (_plain(part) for part in re.findall(_NAME, dotted))
    return TableName(name, *schema)


def _plain(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in '`"' else name


def _of_alters(text: str) -> list[RenamedTable]:
    plain = _ALTER_AS.sub("RENAME TO", text)
    read = statements(plain)
    if read is not None:
        return [renamed for statement in read for renamed in _of_statement(statement)]
    if has_in_order(plain, _ALTERS):
        raise UnreadableDdlError
    return []


def _of_statement(statement: exp.Expr | None) -> Iterator[RenamedTable]:
    from sqlglot import exp

    if not isinstance(statement, exp.Alter) or statement.args.get("kind") != "TABLE":
        return
    old = statement.this
    for action in statement.args.get("actions") or []:
        new = action.this if isinstance(action, exp.AlterRename) else None
        if isinstance(old, exp.Table) and isinstance(new, exp.Table):
            yield RenamedTable(TableName(old.name, old.db), TableName(new.name, new.db))
