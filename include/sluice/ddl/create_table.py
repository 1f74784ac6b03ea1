"""Tables, columns, types and keys in the CREATE TABLE statements of a script.

For schema dumps. sqlglot's grammars do not read these statements whole (Oracle's ENABLE and
STORAGE, SQL Server's ROWGUIDCOL, MySQL's inet6), but its tokenizers tell names, texts, comments and
function bodies apart in each dialect. A column's name and type have the same place in all dialects;
the rest is skipped. Nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from sluice.ddl.dialects import MYSQL, POSTGRES, SQL_SERVER

_CREATE: Final = "CREATE"
_ALTER: Final = "ALTER"
_MOST_WORDS: Final = 4
"""Between CREATE or ALTER and TABLE; and of a type's name after its first: timestamp with …."""
_PRIMARY_KEY: Final = "PRIMARY KEY"
_ARRAY: Final = "ARRAY"
_TEMPORARY: Final = frozenset({"TEMPORARY", "TEMP"})
_BEFORE_NAME: Final = frozenset({"IF", "NOT", "EXISTS", "ONLY"})
_OF_NO_COLUMN: Final = frozenset(
    {"CONSTRAINT", _PRIMARY_KEY, "FOREIGN KEY", "UNIQUE", "CHECK", "LIKE"}
)
# Words that may be column names where they are not reserved, such as pg_dump's `key integer`.
_INDEXES: Final = {
    MYSQL: frozenset({"KEY", "INDEX", "FULLTEXT", "SPATIAL"}),
    SQL_SERVER: frozenset({"INDEX"}),
}
_IN_TWO_WORDS: Final = (("PERIOD", "FOR"), ("SUPPLEMENTAL", "LOG"), ("EXCLUDE", "USING"))
_UNTYPED: Final = frozenset(
    {"AS", "CHECK", "CONSTRAINT", "DEFAULT", "GENERATED", "NOT", "NULL", _PRIMARY_KEY, "UNIQUE"}
)
_QUOTES_ELSEWHERE: Final = ("[", "`")
"""Signs that open no name, for where they do the tokenizer takes the whole name."""
_SIGNS: Final = frozenset("(),;.[")
_DEPTH: Final = {"(": 1, ")": -1}
# psql's own commands, which the server does not know.
_OF_PSQL: Final = re.compile(r"^\\.*$", re.MULTILINE)
# Commands of sqlcmd: the tokenizer takes everything after a `;` as a part of such a command. The
# replacement has the same length, since places in the text are used.
_OF_SQLCMD: Final = re.compile(
    r"^[ \t]*(GO([ \t]+\d+)?[ \t]*;?|PRINT\b.*)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE
)
_BEGINNING: Final = re.compile(
    r"^[ \t]*(ALTER|COMMENT|CREATE|DROP|GRANT|INSERT|SET|USE)\b.*", re.IGNORECASE | re.MULTILINE
)
_SHOWN: Final = 80


class UnreadableScriptError(ValueError):
    """A text or a column list in a script is not closed, or a name is of another dialect; the
    message says line and statement."""


@dataclass(frozen=True)
class SourceType:
    """A type as a statement names it.

    `words`: its name in lower case, with following words that may not belong to it. `numbers`: its
    arguments in parentheses, None for `*`. `text`: name and parentheses as written.
    """

    words: tuple[str, ...]
    numbers: tuple[int | None, ...]
    array: bool
    text: str


@dataclass(frozen=True)
class CreatedTable:
    """A table with its dotted name, and the line of its statement."""

    name: str
    line: int
    columns: Mapping[str, SourceType]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """The tables of a script; `keys`: primary keys set by ALTER TABLE, by table name."""

    tables: list[CreatedTable] = field(default_factory=list)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)


class _Token(NamedTuple):
    """A token; `word`: in upper case, '' for quoted names and other tokens; `sign`: a punctuation
    mark, `;` ends a statement in any dialect; `start`, `end`: its place in the script."""

    text: str
    word: str
    sign: str
    is_name: bool
    start: int
    end: int
    line: int


def script(text: str, dialect: str) -> Script:
    """Parse the tables of a script in one of sqlglot's dialects; raises UnreadableScriptError.

    Temporary tables and those without columns of their own (AS SELECT, LIKE) are left out.
    """
    plain = _OF_PSQL.sub("", text) if dialect == POSTGRES else text
    if dialect == SQL_SERVER:
        plain = _OF_SQLCMD.sub(lambda match: ";".ljust(len(match[0])), plain)
    tokens, parsed, database = _tokens(plain, dialect), Script(), ""
    for at, token in enumerate(tokens):
        if dialect == MYSQL and token.word == "USE" and (at == 0 or tokens[at - 1].sign == ";"):
            database = _name(tokens, at + 1)[0]
        verb = _verb(tokens, at) if token.word == "TABLE" else ""
        if not verb:
            continue
        name, behind = _name(tokens, at + 1)
        if verb == _CREATE and behind < len(tokens):
            _refuse_quotes_elsewhere(tokens[behind], name, dialect)
        dotted = name if "." in name or not database else f"{database}.{name}"
        if verb == _ALTER and (key := _key(_statement(tokens, behind))):
            parsed.keys[dotted] = key
        elif verb == _CREATE and name and _sign(tokens, behind) == "(":
            parsed.tables.extend(_table(dotted, tokens, behind, plain, dialect))
    return parsed


def _tokens(text: str, dialect: str) -> list[_Token]:
    from sqlglot import Dialect, Token, TokenType
    from sqlglot.errors import SqlglotError

    tokenize = Dialect.get_or_raise(dialect).tokenize
    # In MySQL's ANSI mode a double-quoted string is an identifier.
    quoted = (TokenType.IDENTIFIER, TokenType.STRING)

    def read(token: Token) -> _Token:
        text, in_quotes = token.text, token.token_type in quoted
        word = text.upper() if not in_quotes and (text[:1].isalpha() or text[:1] == "_") else ""
        sign = text if not in_quotes and text in _SIGNS else ""
        place = (token.start, token.end, token.line)
        return _Token(text, word, sign, in_quotes or bool(word), *place)

    try:
        return [read(token) for token in tokenize(text)]
    except SqlglotError as error:
        raise _unclosed(text, tokenize) from error


def _unclosed(text: str, tokenize: Callable[[str], object]) -> UnreadableScriptError:
    from sqlglot.errors import SqlglotError

    why = "a text, a name or a comment in it does not end"
    for line, statement in _statements(text):
        try:
            tokenize(statement)
        except SqlglotError:
            return _unreadable(line, statement, why)
    return UnreadableScriptError(why)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Split roughly: from each line that looks like the start of a statement to the next."""
    starts = [0, *(found.start() for found in _BEGINNING.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        yield text.count("\n", 0, start) + 1, text[start:end]


def _unreadable(line: int, statement: str, why: str) -> UnreadableScriptError:
    shown = (statement.strip().splitlines() or [""])[0][:_SHOWN]
    return UnreadableScriptError(f"line {line}: {shown}: {why}")


def _sign(tokens: Sequence[_Token], at: int) -> str:
    return tokens[at].sign if at < len(tokens) else ""


def _verb(tokens: Sequence[_Token], at: int) -> str:
    """Return CREATE or ALTER if it precedes a permanent TABLE closely."""
    for token in reversed(tokens[max(0, at - _MOST_WORDS) : at]):
        if token.word in (_CREATE, _ALTER):
            return token.word
        if not token.word or token.word in _TEMPORARY:
            break
    return ""


def _name(tokens: Sequence[_Token], at: int) -> tuple[str, int]:
    """Parse a dotted name, '' for none; returns the rest too."""
    while at < len(tokens) and tokens[at].word in _BEFORE_NAME:
        at += 1
    parts = []
    while at < len(tokens) and tokens[at].is_name:
        parts.append(tokens[at].text)
        at += 1
        if _sign(tokens, at) != ".":
            break
        at += 1
    return ".".join(parts), at


def _refuse_quotes_elsewhere(token: _Token, before: str, dialect: str) -> None:
    """Raise UnreadableScriptError if a table's name is quoted as the dialect does not: the table
    would be left out, and its columns would be text."""
    if token.text in _QUOTES_ELSEWHERE and not token.is_name:
        why = f"its name has quotes of another dialect than {dialect}: is ddl.dialect right?"
        raise _unreadable(token.line, f"CREATE TABLE {before}", why)


def _statement(tokens: Sequence[_Token], at: int) -> list[_Token]:
    """Return the rest of a statement."""
    rest = []
    for number in range(at, len(tokens)):
        token = tokens[number]
        if token.sign == ";" or token.word in (_CREATE, _ALTER):
            break
        rest.append(token)
    return rest


def _table(
    name: str, tokens: Sequence[_Token], opening: int, text: str, dialect: str
) -> Iterator[CreatedTable]:
    """Yield the table whose column list begins at `opening`; nothing if it has no columns.

    Raises UnreadableScriptError if the list is not closed.
    """
    line, closing = tokens[opening].line, _closing(tokens, opening)
    if closing is None:
        raise _unreadable(line, f"CREATE TABLE {name}", "its ( is not closed")
    columns: dict[str, SourceType] = {}
    key: tuple[str, ...] = ()
    for part in _split(tokens[opening + 1 : closing]):
        column = "" if _is_apart(part, dialect) else part[0].text
        stated = _key(part)
        key = key or ((column,) if stated == () and column else stated or ())
        if column and (kind := _type(part[1:], text)):
            columns[column] = kind
    if columns:
        yield CreatedTable(name, line, columns, key)


def _closing(tokens: Sequence[_Token], opening: int) -> int | None:
    """Return the place of the closing parenthesis; None if the statement has none."""
    depth = 0
    for at in range(opening, len(tokens)):
        sign = tokens[at].sign
        depth += _DEPTH.get(sign, 0)
        if depth == 0:
            return at
        if sign == ";":
            break
    return None


def _inside(part: Sequence[_Token], opening: int) -> list[_Token]:
    """Return the tokens inside the parentheses of a part."""
    return list(part[opening + 1 : _closing(part, opening)])


def _split(inside: Sequence[_Token]) -> list[list[_Token]]:
    """Split at commas outside of parentheses."""
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in inside:
        depth += _DEPTH.get(token.sign, 0)
        if depth == 0 and token.sign == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _is_apart(part: Sequence[_Token], dialect: str) -> bool:
    """Whether a part of a column list is not a column."""
    words = _OF_NO_COLUMN | _INDEXES.get(dialect, frozenset())
    beginning = tuple(token.word for token in part[:2])
    return not part[0].is_name or beginning[0] in words or beginning in _IN_TWO_WORDS


def _key(part: Sequence[_Token]) -> tuple[str, ...] | None:
    """Return the columns of a PRIMARY KEY; () if it names none, None if there is none."""
    words = [token.word for token in part]
    if _PRIMARY_KEY not in words:
        return None
    at = words.index(_PRIMARY_KEY) + 1
    while at < len(part) and part[at].is_name:  # CLUSTERED, USING BTREE, a name of the index
        at += 1
    if _sign(part, at) != "(":
        return ()
    return tuple(names[0].text for names in _split(_inside(part, at)))


def _type(part: Sequence[_Token], text: str) -> SourceType | None:
    """Parse the type after a column's name; None if an expression gives the type."""
    name, behind = _name(part, 0)
    if not name or part[0].word in _UNTYPED:
        return None
    numbers: tuple[int | None, ...] = ()
    end = behind - 1
    if _sign(part, behind) == "(":
        numbers = tuple(map(_number, _split(_inside(part, behind))))
        end = _closing(part, behind) or end
    array = "[]" if _is_array(part[end + 1 :]) else ""
    words = " ".join((part[behind - 1].text, *_words(part[end + 1 :]))).lower().split()
    shown = text[part[0].start : part[end].end + 1] + array
    return SourceType(tuple(words), numbers, bool(array), shown)


def _is_array(rest: Sequence[_Token]) -> bool:
    """Whether array brackets follow a type, also after `with time zone`, before its constraints."""
    before_constraints = takewhile(lambda token: token.word not in _UNTYPED, rest)
    return any(token.sign == "[" or token.word == _ARRAY for token in before_constraints)


def _words(part: Sequence[_Token]) -> Iterator[str]:
    """Yield the words that follow, without those in parentheses."""
    depth, count = 0, 0
    for token in part:
        depth += _DEPTH.get(token.sign, 0)
        if depth or token.sign == ")":
            continue
        if not token.word or count == _MOST_WORDS:
            return
        count += 1
        yield token.text


def _number(part: Sequence[_Token]) -> int | None:
    """Parse a length, precision or scale: 10 of `10 CHAR`, -2; None for `*` and anything else."""
    text = "".join(token.text for token in part[:2])
    match = re.match(r"-?\d{1,6}", text)
    return int(match[0]) if match else None
