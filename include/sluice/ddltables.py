"""Which tables a DDL statement gives another name: read by grammars, never executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sluice.ddl import LONGEST, UnreadableDdl, readable, statements

if TYPE_CHECKING:
    from sqlglot import exp

SPEAKS_OF_TABLE_RENAMES: Final = r"(?i)\brename\b"
"""What every statement that renames a table has in it."""
_NAME: Final = r'(?:`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$#]+)'
_TABLE: Final = rf"({_NAME}(?:\s*\.\s*{_NAME})?)"
_PAIR: Final = rf"\s*{_TABLE}\s+TO\s+{_TABLE}\s*"
# No grammar reads MySQL's RENAME TABLE, nor Oracle's RENAME of a table.
_RENAME: Final = re.compile(r"\s*RENAME\s+(TABLES?\s+(?:IF\s+EXISTS\s+)?)?", re.IGNORECASE)
_PAIRS: Final = re.compile(rf"{_PAIR}(?:,{_PAIR})*;?\s*", re.IGNORECASE)
_ALTER_AS: Final = re.compile(r"\bRENAME\s+AS\b", re.IGNORECASE)
_ALTERS: Final = re.compile(r"\bALTER\b[\s\S]*\bTABLE\b[\s\S]*\bRENAME\s+TO\b", re.IGNORECASE)


@dataclass(frozen=True)
class RenamedTable:
    """A table's former name, and its name since; `schema`: the schema, or MySQL's database, that
    the statement gives it, empty where it names none."""

    old: str
    new: str
    schema: str = ""


def renamed_tables(text: str) -> list[RenamedTable]:
    """The tables that the statements rename, each without its schema.

    `ALTER TABLE … RENAME TO …`, MySQL's `RENAME TABLE a TO b, …`, Oracle's `RENAME a TO b`. A name
    that another table takes in the same statement is no rename: so tools that change a table
    online put a copy in its place. Raises UnreadableDdl for a statement that renames a table and
    that nobody reads.
    """
    plain = readable(text)
    if not re.search(SPEAKS_OF_TABLE_RENAMES, plain):
        return []
    if len(text) >= LONGEST:
        raise UnreadableDdl(f"longer than {LONGEST} characters")
    begins = _RENAME.match(plain)
    found = _of_rename(plain, begins) if begins else _of_alters(plain)
    taken = {renamed.new.lower() for renamed in found}
    return [renamed for renamed in found if renamed.old.lower() not in taken]


def _of_rename(text: str, begins: re.Match[str]) -> list[RenamedTable]:
    rest = text[begins.end() :]
    if not _PAIRS.fullmatch(rest):
        if begins[1]:
            raise UnreadableDdl("no grammar reads it")
        return []  # of a user, an index …
    pairs = re.finditer(_PAIR, rest, re.IGNORECASE)
    return [RenamedTable(_parts(a)[-1], _parts(b)[-1], _schema(b)) for a, b in map(_both, pairs)]


def _both(pair: re.Match[str]) -> tuple[str, str]:
    return pair[1], pair[2]


def _parts(name: str) -> list[str]:
    return [_plain(part) for part in re.findall(_NAME, name)]


def _plain(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in '`"' else name


def _schema(name: str) -> str:
    parts = _parts(name)
    return parts[0] if len(parts) > 1 else ""


def _of_alters(text: str) -> list[RenamedTable]:
    plain = _ALTER_AS.sub("RENAME TO", text)
    read = statements(plain)
    if read is not None:
        return [renamed for statement in read for renamed in _of_statement(statement)]
    if _ALTERS.search(plain):
        raise UnreadableDdl("no grammar reads it")
    return []


def _of_statement(statement: exp.Expr | None) -> Iterator[RenamedTable]:
    from sqlglot import exp

    if not isinstance(statement, exp.Alter) or statement.args.get("kind") != "TABLE":
        return
    for action in statement.args.get("actions") or []:
        if isinstance(action, exp.AlterRename) and isinstance(action.this, exp.Table):
            yield RenamedTable(statement.this.name, action.this.name, action.this.db)
