"""Comments on tables and columns in DDL statements: parsed by grammars, never executed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sluice.ddl.dialects import MYSQL, ORACLE, POSTGRES
from sluice.ddl.parsing import TooIntricateError
from sluice.ddl.spelling import (
    as_known,
    executed,
    has_in_order,
    outside_quotes,
    readable,
    words,
)
from sluice.ddl.statements import (
    PARSER_BUGS,
    UnreadableDdlError,
    column_definitions,
    read_by,
    refuse_long,
)

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST: Final = 1024
"""Most characters of a comment that a table keeps: MySQL's limit for columns."""
MENTIONS_COMMENTS: Final = r"(?i)\b(comment|change|modify|add)\b"
"""Words of every statement that sets or removes a comment."""
_ON: Final = re.compile(r"(\A|;)\s*COMMENT\s+ON\s+(TABLE|COLUMN)\b", re.IGNORECASE)
_NOTHING: Final = re.compile(r"\bIS\s+NULL\s*(?=;|\Z)", re.IGNORECASE)
_INLINE: Final = re.compile(r"\bCOMMENT\b", re.IGNORECASE)
_REDEFINES: Final = words("ALTER", "TABLE", r"(CHANGE|MODIFY\s+COLUMN)")
# Oracle and PostgreSQL have no backslash escapes, MySQL has no COMMENT ON.
_GRAMMARS: Final = (ORACLE, POSTGRES)


@dataclass(frozen=True)
class Comment:
    """The comment that a statement sets on a table or a column; `text` None removes it.

    `schema` as in `sluice.ddl.statements.Altered`.
    """

    table: str
    column: str | None
    text: str | None
    schema: str = ""


def comments(text: str) -> list[Comment]:
    """Return the comments that the statements of a text set or remove, in order.

    PostgreSQL and Oracle: `COMMENT ON COLUMN t.a IS '…'` and `COMMENT ON TABLE`, where NULL and an
    empty text remove it. MySQL: `COMMENT '…'` of a column or table in CREATE and ALTER TABLE. A
    column that CHANGE or MODIFY COLUMN redefines, and a CREATE TABLE or ADD with comments, has only
    the comments stated there. A bare MODIFY without a comment may be Oracle's and removes none.

    Raises UnreadableDdlError for a statement with a comment that no grammar reads.
    """
    plain = readable(text)
    if _ON.search(plain):
        refuse_long(text)
        return _comments_on(outside_quotes(text, partial(_NOTHING.sub, "IS ''")))
    redefines = has_in_order(plain, _REDEFINES)
    if not (_INLINE.search(plain) or redefines):
        return []
    refuse_long(text)
    inline = _inline_comments(as_known(executed(text), MYSQL), redefines=redefines)
    if inline is None and _INLINE.search(plain):
        raise UnreadableDdlError
    return inline or []


def sanitised_comment(text: str) -> str | None:
    """Return a comment without control characters, at most LONGEST characters; None if
    nothing is left."""
    shown = "".join(" " if unicodedata.category(one)[0] in "CZ" else one for one in text).strip()
    return (shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…") or None


def _comments_on(text: str) -> list[Comment]:
    from sqlglot import exp

    with suppress(TooIntricateError):
        for grammar in _GRAMMARS:
            read = read_by(grammar, text)
            if read is not None:
                comments_on = [_of_comment(one) for one in read if isinstance(one, exp.Comment)]
                return [one for one in comments_on if one is not None]
    raise UnreadableDdlError


def _of_comment(statement: exp.Comment) -> Comment | None:
    """Return the comment of a table or column; None if it is on something else."""
    from sqlglot import exp

    of, text = statement.this, sanitised_comment(statement.expression.name)
    if isinstance(of, exp.Table):
        return Comment(of.name, None, text, of.db)
    if isinstance(of, exp.Column) and of.table:
        return Comment(of.table, of.name, text, of.db)
    return None


def _inline_comments(text: str, *, redefines: bool) -> list[Comment] | None:
    """Return the comments of MySQL's statements; None if its grammar does not read all of the text,
    or reads parts that are not understood here."""
    try:
        read = read_by(MYSQL, text)
        if read is None:
            return None
        return [one for part in read for one in _of_statement(part, redefines)]
    except PARSER_BUGS:
        return None


def _of_statement(statement: exp.Expr | None, redefines: bool) -> Iterator[Comment]:
    """Yield the comments of one MySQL statement."""
    from sqlglot import exp

    if isinstance(statement, exp.Alter):
        yield from _of_alter(statement, redefines)
    elif isinstance(statement, exp.Create) and not statement.args.get("exists"):
        yield from _of_create(statement)


def _of_alter(statement: exp.Alter, redefines: bool) -> Iterator[Comment]:
    from sqlglot import exp

    table = statement.this
    if statement.args.get("kind") != "TABLE" or not isinstance(table, exp.Table):
        return
    for action in statement.args.get("actions") or ():
        for column, defined in _definitions(action):
            text = _text_of(column)
            if text is not None or redefines or not defined:
                yield Comment(table.name, column.name, text, table.db)
    yield from _of_options(table, statement.args.get("options") or ())


def _definitions(action: exp.Expr) -> Iterator[tuple[exp.ColumnDef, bool]]:
    """Yield the columns that a part of an ALTER TABLE defines, and whether they existed before."""
    from sqlglot import exp

    if isinstance(action, exp.ModifyColumn):
        yield action.this, True
    else:
        yield from ((one, False) for one in column_definitions(action))


def _of_create(statement: exp.Create) -> Iterator[Comment]:
    """Yield the comments of a CREATE TABLE; none if it has none, for other databases set
    them separately."""
    from sqlglot import exp

    schema = statement.this
    if statement.args.get("kind") != "TABLE" or not isinstance(schema, exp.Schema):
        return
    table = schema.this
    properties = statement.args.get("properties")
    stated = list(_of_options(table, properties.expressions if properties else ()))
    columns = [one for one in schema.expressions if isinstance(one, exp.ColumnDef)]
    stated += [Comment(table.name, one.name, _text_of(one), table.db) for one in columns]
    if any(one.text is not None for one in stated):
        yield from stated


def _of_options(table: exp.Table, options: Any) -> Iterator[Comment]:
    from sqlglot import exp

    for option in options:
        if isinstance(option, exp.SchemaCommentProperty):
            yield Comment(table.name, None, sanitised_comment(option.this.name), table.db)


def _text_of(column: exp.ColumnDef) -> str | None:
    from sqlglot import exp

    kinds = (part.kind for part in column.args.get("constraints") or ())
    found = [kind.this.name for kind in kinds if isinstance(kind, exp.CommentColumnConstraint)]
    return sanitised_comment(found[-1]) if found else None
