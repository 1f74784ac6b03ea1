"""What DDL statements do to columns and tables: parsed by grammars, never executed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sluice.ddl.defaults import AddedColumn, ColumnChange, added_column, source_of
from sluice.ddl.dialects import MYSQL, ORACLE, POSTGRES, SQL_SERVER
from sluice.ddl.parsing import TooIntricateError, parsed
from sluice.ddl.spelling import (
    as_known,
    executed,
    has_backtick,
    has_in_order,
    outside_quotes,
    plain_parts,
    readable,
    words,
)

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST: Final = 64 * 1024
"""Most characters of a statement that are parsed."""
MENTIONS_COLUMNS: Final = r"(?i)\b(rename|change|sp_rename|drop|unused|add)\b"
"""Words of every statement that renames, drops or adds a column."""
# Atomic against backtracking: what follows the first of them is all that follows any.
MENTIONS_DROPS: Final = r"(?i)\A(?>[\s\S]*?\b(?:drop|replace)\b)[\s\S]*\btable\b"
"""Words of every statement that drops a table."""
_MENTIONS: Final = re.compile(MENTIONS_COLUMNS)
# A statement that no grammar reads is reported if it may be one of these.
_OF_NO_COLUMN: Final = (
    r"(?!((SUB)?PARTITION|INDEX|KEY|PRIMARY|FOREIGN|CONSTRAINT|CHECK|UNIQUE|FULLTEXT|SPATIAL"
    r"|SUPPLEMENTAL|EXCLUDE\s+USING)\b)"
)
_CHANGES_COLUMNS: Final = re.compile(
    r"\bRENAME\b(?!\s+(CONSTRAINT|(SUB)?PARTITION|INDEX|KEY)\s++(?!TO\b))"
    r"|\b(CHANGE|SP_RENAME)\b|\bSET\s+UNUSED\b|,\s*COLUMN\b"
    rf"|\b(DROP|ADD)\s+{_OF_NO_COLUMN}|\bADD\(",
    re.IGNORECASE,
)
# A rename of a table, an index or a user changes no column.
_CONCERNS: Final = (words("ALTER", "TABLE"), words("sp_rename", "COLUMN"))
_COLUMNS_ALONE: Final = re.compile(
    r"(\A|;)\s*((?:ADD|CHANGE|DROP|RENAME)\s+COLUMN\b)", re.IGNORECASE
)
_UNNAMED: Final = "sluice_unnamed"
_DROPS_TABLE: Final = re.compile(r"(\A|;)\s*(DROP|CREATE\s+OR\s+REPLACE)\s+TABLE\b", re.IGNORECASE)
_NAME_WITH_HASH: Final = re.compile(r"[\w$]#")
_GRAMMARS: Final = (MYSQL, ORACLE, POSTGRES, SQL_SERVER)
_RENAMES: Final = "sp_rename"
_RENAMES_GIVEN: Final = ("objname", "newname", "objtype")
_KEYWORDS: Final = frozenset({"add", "alter", "change", "drop", "modify", "rename"})
_ESCAPE: Final = "\\"
PARSER_BUGS: Final = (TypeError, AttributeError, LookupError, ValueError)
"""What parsing an unknown text, or reading its result, may raise."""
_TABLE: Final = "TABLE"
_COLUMN: Final = "COLUMN"


class UnreadableDdlError(ValueError):
    """No grammar reads a statement that may rename or drop a column, or drop a table."""

    def __init__(self, why: str = "no grammar reads it") -> None:
        super().__init__(why)


@dataclass(frozen=True)
class Altered:
    """Columns of one table that changed their names together.

    `table`: '' if the text is about columns only. `schema`: the stated schema, or MySQL's database;
    '' if none is stated. `added`: added columns whose value in existing rows the statement states.
    """

    table: str
    columns: tuple[ColumnChange, ...]
    schema: str = ""
    added: tuple[AddedColumn, ...] = ()


def altered(text: str) -> list[Altered]:
    """Return what statements rename, drop and add; column names are case-insensitive.

    `ALTER TABLE … RENAME [COLUMN] a TO b`, MySQL's `CHANGE a b …`, SQL Server's `sp_rename`, `DROP
    [COLUMN] a`, Oracle's `SET UNUSED (a)`, `ADD [COLUMN] a …`; for a table without a name a text
    about columns only, as StreamX writes (DataWorks, "Appendix: DataHub message formats"): `ADD
    COLUMN a …`. Raises UnreadableDdlError for a statement that may rename or drop a column and that
    no grammar reads.
    """
    alone = _COLUMNS_ALONE.search(text)
    if not (
        _MENTIONS.search(text) and (alone or any(has_in_order(text, one) for one in _CONCERNS))
    ):
        return []
    refuse_long(text)
    plain = executed(outside_quotes(text, _of_unnamed) if alone else text)
    of_all = as_known(plain)
    with suppress(TooIntricateError):
        for grammar in _grammars(plain):
            spelled = as_known(plain, grammar) if grammar == MYSQL else of_all
            changes = _altered(spelled, grammar)
            if changes is not None:
                return [replace(a, table="") if a.table == _UNNAMED else a for a in changes]
    if _CHANGES_COLUMNS.search(of_all):
        raise UnreadableDdlError
    return []


def _of_unnamed(plain: str) -> str:
    return _COLUMNS_ALONE.sub(rf"\1ALTER TABLE {_UNNAMED} \2", plain)


def in_turn(
    first: tuple[ColumnChange, ...], then: tuple[ColumnChange, ...]
) -> tuple[ColumnChange, ...]:
    """Combine two successive changes of a table's columns into one."""
    steps = {old.lower(): new for old, new in then if old is not None}
    changed = [(old, new if new is None else steps.pop(new.lower(), new)) for old, new in first]
    others = [(old, new) for old, new in then if old is None or old.lower() in steps]
    return tuple(pair for pair in (*changed, *others) if _changes(*pair))


def _changes(old: str | None, new: str | None) -> bool:
    return (old or "").lower() != (new or "").lower()


def dropped_tables(text: str) -> list[str]:
    """Return the tables, without schemas, that statements drop, except temporary ones.

    MariaDB's CREATE OR REPLACE TABLE drops the existing table. Raises UnreadableDdlError for a
    statement that begins like one of these and that no grammar reads.
    """
    plain = readable(text)
    if not _DROPS_TABLE.search(plain):
        return []
    refuse_long(text)
    read = statements(as_known(plain))
    if read is None:
        raise UnreadableDdlError
    return [name for statement in read for name in _of_drop(statement)]


def replaces_table(text: str) -> bool:
    """Whether the first statement that drops a table is MariaDB's CREATE OR REPLACE TABLE."""
    match = _DROPS_TABLE.search(readable(text))
    return match is not None and match[2].upper() != "DROP"


def refuse_long(text: str) -> None:
    """Raise UnreadableDdlError for a text longer than LONGEST, which may be cut."""
    if len(text) >= LONGEST:
        raise UnreadableDdlError(f"longer than {LONGEST} characters")


def statements(text: str) -> list[exp.Expr | None] | None:
    """Parse a text with the first grammar that reads all of it; None if none does."""
    readings = (read_by(grammar, text) for grammar in _grammars(text))
    with suppress(TooIntricateError):
        return next((read for read in readings if read is not None), None)
    return None


def _grammars(text: str) -> list[str]:
    """Return the grammars that may apply.

    Only MySQL quotes names with backticks; `#` begins a comment there, elsewhere it may be part of
    a name.
    """
    if has_backtick(text):
        return [MYSQL]
    hash_in_name = any(map(_NAME_WITH_HASH.search, plain_parts(text)))
    return [grammar for grammar in _GRAMMARS if not (hash_in_name and grammar == MYSQL)]


def _altered(text: str, grammar: str) -> list[Altered] | None:
    """Return the changes; None if this grammar does not read everything, or cannot interpret it."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    read = read_by(grammar, text)
    if read is None or any(map(_is_conditional, read)):
        return None
    source = source_of(text, grammar)
    try:
        changes = [
            _of_call(s) if isinstance(s, exp.Execute) else _of_alter(s, text, source)
            for s in read
            if isinstance(s, exp.Alter | exp.Execute)
        ]
    except (SqlglotError, *PARSER_BUGS):
        return None
    return None if None in changes else [t for t in changes if t is not None and t.columns]


def _is_conditional(statement: exp.Expr | None) -> bool:
    """Whether SQL Server alone knows if it alters a table: `IF … ALTER TABLE …`."""
    from sqlglot import exp

    if statement is None or isinstance(statement, exp.Alter | exp.Create):
        return False
    return statement.find(exp.Alter) is not None


def read_by(grammar: str, text: str) -> list[exp.Expr | None] | None:
    """Parse a text with one grammar; None if it does not read all of it.

    Raises TooIntricateError for a text that no other grammar is to try in vain.
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        with _quiet():
            read = parsed(_spelled_out(text, grammar), grammar)
    except TooIntricateError:
        raise
    except (SqlglotError, *PARSER_BUGS):
        return None
    return None if any(isinstance(s, exp.Command) or _is_call(s) for s in read) else read


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the parser's warnings: texts from files do not belong in the log."""
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _spelled_out(text: str, grammar: str) -> str:
    """Add the COLUMN that grammars need to PostgreSQL's `RENAME a TO b`."""
    from sqlglot import Dialect

    tokens = Dialect.get_or_raise(grammar).tokenize(text)
    # Compared as written: in quotes they are names.
    words = [text[token.start : token.end + 1].upper() for token in tokens]
    at = [
        tokens[i + 1].start
        for i in range(len(tokens) - 3)
        if words[i] == "RENAME" and words[i + 2] == "TO"
    ]
    for start in reversed(at):
        text = f"{text[:start]}COLUMN {text[start:]}"
    return text


def _of_alter(statement: exp.Expression, text: str, source: str) -> Altered | None:
    """Return the changes of an ALTER TABLE; None for a name that this grammar misreads."""
    from sqlglot import exp

    if statement.args.get("kind") != _TABLE:
        return Altered("", ())
    pairs: list[tuple[Any, Any]] = []
    for action in statement.args.get("actions") or []:
        if isinstance(action, exp.Command) or _is_cut(action):
            return None
        pairs.extend(_names_in(action))
    if not all(_is_name(part) for pair in pairs for part in pair if part is not None):
        return None
    named = ((old and old.name, new and new.name) for old, new in pairs)
    changed = tuple((old, new) for old, new in named if _changes(old, new))
    # Grammars differ in the meaning of a backslash in a text.
    added = () if _ESCAPE in text else tuple(_added(statement, source))
    table = statement.this
    name, schema = (table.name, table.db) if isinstance(table, exp.Table) else ("", "")
    return Altered(name, changed, schema, added)


def _added(statement: exp.Expression, source: str) -> Iterator[AddedColumn]:
    for action in statement.args["actions"]:
        for column in column_definitions(action):
            found = added_column(column, source)
            if found is not None:
                yield found


def column_definitions(action: exp.Expr) -> list[exp.ColumnDef]:
    """Return the columns that a part of an ALTER TABLE adds."""
    from sqlglot import exp

    listed = action.expressions if isinstance(action, exp.Schema) else [action]
    return [column for column in listed if isinstance(column, exp.ColumnDef)]


def _is_call(statement: exp.Expr | None) -> bool:
    """Whether a statement calls a procedure other than `sp_rename`, which may do anything."""
    from sqlglot import exp

    return isinstance(statement, exp.Execute) and statement.this.name.lower() != _RENAMES


def _of_call(call: exp.Execute) -> Altered | None:
    """Read SQL Server's `sp_rename 'schema.table.column', 'name', 'COLUMN'`; the new name is taken
    literally.

    None if an argument is known only to the server, such as a variable.
    """
    from sqlglot import exp

    given = dict(_given(call))
    if None in given.values():
        return None
    if (given.get("objtype") or "").upper() != _COLUMN:
        return Altered("", ())
    old, new = _column_of_call(given.get("objname") or ""), given.get("newname")
    if not isinstance(old, exp.Column) or not _is_name(old) or not old.table or not new:
        return None
    return Altered(old.table, ((old.name, new),), old.db)


def _column_of_call(name: str) -> exp.Expr | None:
    """Read a dotted name; parts that no grammar reads, such as `a b`, are taken literally."""
    from sqlglot import exp
    from sqlglot.errors import ParseError

    try:
        read = parsed(name, SQL_SERVER, exp.Column)
    except ParseError:
        return exp.column(*reversed(name.split(".")))
    return read[0] if len(read) == 1 else None


def _given(call: exp.Execute) -> Iterator[tuple[str, str | None]]:
    """Yield name and text of each argument of `sp_rename`; None for an argument that is no text."""
    from sqlglot import exp

    for name, part in zip(_RENAMES_GIVEN, call.expressions, strict=False):
        named = isinstance(part, exp.EQ)
        value = part.expression if named else part
        yield part.this.name.lower() if named else name, value.name if _is_text(value) else None


def _is_text(value: exp.Expr) -> bool:
    """Whether an argument is a text; a procedure also takes bare and double-quoted words as
    texts."""
    from sqlglot import exp

    word = isinstance(value, exp.Column) and len(value.parts) == 1
    literal = isinstance(value, exp.Literal) and value.is_string
    return word or literal or isinstance(value, exp.National)


def _names_in(action: exp.Expression) -> Iterator[tuple[Any, Any]]:
    """Yield former and new name of each column that a part of an ALTER TABLE renames or drops."""
    from sqlglot import exp

    if isinstance(action, exp.RenameColumn):
        yield action.this, action.args.get("to")
    elif isinstance(action, exp.ModifyColumn) and action.args.get("rename_from") is not None:
        yield action.args["rename_from"], action.this.this
    elif isinstance(action, exp.Drop) and action.args.get("kind") == _COLUMN:
        yield from ((named, None) for named in action.args["tables"])
    else:
        yield from ((None, column.this) for column in column_definitions(action))


def _of_drop(statement: exp.Expr | None) -> Iterator[str]:
    from sqlglot import exp

    if statement is None or statement.args.get("kind") != _TABLE:
        return
    if isinstance(statement, exp.Create) and statement.args.get("replace"):
        yield from (table.name for table in [statement.find(exp.Table)] if table is not None)
    elif isinstance(statement, exp.Drop) and not statement.args.get("temporary"):
        yield from (table.name for table in statement.args["tables"])


def _is_cut(action: exp.Expression) -> bool:
    from sqlglot import exp

    if isinstance(action, exp.Drop) and action.args.get("kind") == _COLUMN:
        return not action.args.get("tables")
    return isinstance(action, exp.RenameColumn) and not action.args.get("to")


def _is_name(part: Any) -> bool:
    from sqlglot import exp

    if not isinstance(part, exp.Column | exp.Identifier) or not part.name:
        return False
    identifier = part if isinstance(part, exp.Identifier) else part.this
    return bool(identifier.args.get("quoted")) or part.name.lower() not in _KEYWORDS
