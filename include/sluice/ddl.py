"""Which columns a DDL statement renames: read by sqlglot's grammars, never executed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST: Final = 64 * 1024
"""Characters of a statement that are looked at."""
SPEAKS_OF_RENAME: Final = r"(?i)\b(rename|change|sp_rename)\b"
"""What every statement that renames a column has in it."""
_GRAMMARS: Final = ("mysql", "oracle", "postgres", "tsql")
_SPEAKS: Final = re.compile(SPEAKS_OF_RENAME)
# A rename of a table, an index or a user changes no column.
_CONCERNS: Final = re.compile(
    r"\bALTER\b[\s\S]*\bTABLE\b|\bsp_rename\b[\s\S]*'COLUMN'", re.IGNORECASE
)
_EXECUTED_COMMENT: Final = re.compile(r"/\*!\d*([\s\S]*?)\*/")
_TABLE: Final = "TABLE"


class UnreadableDdl(ValueError):
    """No grammar reads a statement that may rename a column."""


@dataclass(frozen=True)
class Renamed:
    """The columns of one table that got another name, all at once: former name, name since."""

    table: str
    columns: tuple[tuple[str, str], ...]


def renamed(text: str) -> list[Renamed]:
    """What the statements rename, in their order; case counts for nothing in a column's name.

    `ALTER TABLE … RENAME [COLUMN] a TO b` and MySQL's `CHANGE a b …`. Raises UnreadableDdl for
    a statement that has such words and that no grammar reads.
    """
    if not (_SPEAKS.search(text) and _CONCERNS.search(text)):
        return []
    if len(text) >= LONGEST:
        raise UnreadableDdl(f"longer than {LONGEST} characters")
    plain = _EXECUTED_COMMENT.sub(r" \1 ", text)
    for grammar in _GRAMMARS:
        found = _read(plain, grammar)
        if found is not None:
            return found
    raise UnreadableDdl("no grammar reads it")


def _read(text: str, grammar: str) -> list[Renamed] | None:
    """None where this grammar does not read all of it."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        with _quiet():
            statements = sqlglot.parse(_spelled_out(text, grammar), dialect=grammar)
    except (SqlglotError, RecursionError):
        return None
    if any(isinstance(s, exp.Command | exp.Execute) for s in statements):
        return None
    told = [_of_alter(s) for s in statements if isinstance(s, exp.Alter)]
    return None if None in told else [t for t in told if t is not None and t.columns]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the parser's remarks: texts from files are not for the log."""
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _spelled_out(text: str, grammar: str) -> str:
    """PostgreSQL's `RENAME a TO b` with its COLUMN, which the grammars ask for."""
    from sqlglot import Dialect

    tokens = Dialect.get_or_raise(grammar).tokenize(text)
    at = [
        tokens[i + 1].start
        for i in range(len(tokens) - 3)
        if tokens[i].text.upper() == "RENAME" and tokens[i + 2].text.upper() == "TO"
    ]
    for start in reversed(at):
        text = f"{text[:start]}COLUMN {text[start:]}"
    return text


def _of_alter(statement: exp.Expression) -> Renamed | None:
    """None where a name is written in a way that this grammar takes for something else."""
    from sqlglot import exp

    if statement.args.get("kind") != _TABLE:
        return Renamed("", ())
    pairs: list[tuple[Any, Any]] = []
    for action in statement.args.get("actions") or []:
        if isinstance(action, exp.RenameColumn):
            pairs.append((action.this, action.args.get("to")))
        elif isinstance(action, exp.ModifyColumn) and action.args.get("rename_from") is not None:
            pairs.append((action.args["rename_from"], action.this.this))
        elif isinstance(action, exp.Command):
            return None
    if not all(_is_name(part) for pair in pairs for part in pair):
        return None
    named = ((old.name, new.name) for old, new in pairs)
    moved = tuple((old, new) for old, new in named if old.lower() != new.lower())
    table = statement.this
    return Renamed(table.name if isinstance(table, exp.Table) else "", moved)


def _is_name(part: Any) -> bool:
    from sqlglot import exp

    return isinstance(part, exp.Column | exp.Identifier) and bool(part.name)
