"""Spell DDL statements as the grammars know them, with and without comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from sluice.ddl.brackets import each_alone
from sluice.ddl.dialects import MYSQL

# A comment without an end goes on to the end of the text: searching for each end would take long.
_QUOTED_OR_COMMENT: Final = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\\.|--[^\n]*"
    r"|/\*(?P<executed>M?!\d*)?(?P<text>.*?)(?:(?P<end>\*/)|\Z)",
    re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*[\s\S]*?\*/|--[^\n]*")
_LINE_COMMENT: Final = re.compile(r"--[^\n]*")
_DROPPED_SO: Final = r"(?:\s+(?:CASCADE\s+CONSTRAINTS|INVALIDATE|ONLINE|CHECKPOINT(?:\s+\d+)?)\b)*+"
_SPELLED: Final = tuple(
    (re.compile(unknown, re.IGNORECASE), known)
    for unknown, known in (
        # MySQL and MariaDB
        (r"\bALTER\s+(ONLINE|OFFLINE|IGNORE)\s+TABLE\b", "ALTER TABLE"),
        (r"(\b(?:ALTER|DROP)\s+TABLE\s+(?:IF\s+EXISTS\s+)?\S+)\s+(NOWAIT|WAIT\s+\d+)\b", r"\1"),
        (r"\bADD\s+COLUMN\s+\(", "ADD ("),
        (r"\b(CHANGE|MODIFY)\s+(COLUMN\s+)?IF\s+EXISTS\b", r"\1 COLUMN"),
        (r"\b(INDEX|KEY)\s+IF\s+NOT\s+EXISTS\b", r"\1"),
        (r"\b(DISABLE|ENABLE)\s+KEYS\b", "ENGINE = x"),
        (r"(\))\s*(NOT\s+)?ENFORCED\b", r"\1"),
        (r"(TEXT|BLOB|\))\s+COMPRESSED\b(\s*=\s*\w+)?", r"\1"),
        (r"\bCOLUMN_FORMAT\s+(FIXED|DYNAMIC|DEFAULT)\b|\bSTORAGE\s+(DISK|MEMORY)\b", ""),
        (
            r"\bCONVERT\s+TO\s+(CHARACTER\s+SET|CHARSET)\s+[^\s,;]+(\s+COLLATE\s+[^\s,;]+)?",
            "ENGINE = x",
        ),
        (r"\bSRID\s+\d+", ""),
        (r"\b(ADD|DROP)\s+SYSTEM\s+VERSIONING\b", "ENGINE = x"),
        (r"\b(ADD|DROP)\s+PERIOD\s+FOR\s+[^\s(),;]+(\s*\([^()]*\))?", "ENGINE = x"),
        (r"\bADD\s+VECTOR\s+(INDEX|KEY)\b", r"ADD \1"),
        # PostgreSQL
        (
            r"\bALTER\s+(?:COLUMN\s+)?(\S+)\s+(?:DROP\s+(?:IDENTITY|EXPRESSION)(?:\s+IF\s+EXISTS)?"
            r"|ADD\s+GENERATED\s+(?:ALWAYS|BY\s+DEFAULT)\s+AS\s+IDENTITY(?:\s*\([^()]*\))?)",
            r"ALTER COLUMN \1 DROP DEFAULT",
        ),
        # Oracle
        (r"\bDEFAULT\s+ON\s+NULL\b(\s+FOR\s+INSERT\s+(ONLY|AND\s+UPDATE)\b)?", "DEFAULT"),
        (r"\bMODIFY\s*\((?:[^()]|\([^()]*\))*\)", "ENGINE = x"),
        (r"(\bNULL|\bUNIQUE|\bKEY)\s+ENABLE\b", r"\1"),
        (rf"\b(DROP|SET\s+UNUSED)\s*(COLUMNS?\s*)?\(([^()]*)\){_DROPPED_SO}", r"DROP COLUMN \3"),
        (r"\bSET\s+UNUSED\s+COLUMN\b", "DROP COLUMN"),
        (rf"(\bDROP\s+COLUMN\s+[^\s(),;]+){_DROPPED_SO}(?=\s*+(?:;|\Z))", r"\1"),
        (r"(\)|ENGINE = x)\s+(?=ADD\s*\(|ENGINE = x)", r"\1, "),
        (r"\bDROP\s+UNUSED\s+COLUMNS\b", ""),
        # SQL Server
        (r"\bADD\s+DEFAULT\b", "ADD CONSTRAINT x DEFAULT"),
        (r"\bDROP\s+(CONSTRAINT\s[^,;]+),\s*COLUMN\b", r"DROP \1, DROP COLUMN"),
        (r",\s*COLUMN\s+(IF\s+EXISTS\b)?", ", "),
        # It fills existing rows, like a column that is NOT NULL.
        (r"\bWITH\s+VALUES\b", "NOT NULL"),
    )
)
"""Spellings unknown to the grammars, with a known one; parts that concern no column are dropped."""
_CLOSING: Final = {"'": "'", '"': '"', "`": "`", "[": "]"}
_QUOTES: Final = "'\"`["
_BACKTICK: Final = "`"
_ASIDE: Final = re.compile("\0([0-9]+)\0")


def readable(text: str) -> str:
    """Return a text with MySQL's executable comments unwrapped and other comments removed."""
    plain = executed(text)
    end = _after_comments(plain)
    return _COMMENT.sub(" ", plain[:end]) + _LINE_COMMENT.sub(" ", plain[end:])


def executed(text: str) -> str:
    """Return a text with the executable comments of MySQL and MariaDB (`/*M!`) unwrapped, except
    inside quotes."""

    def shown(found: re.Match[str]) -> str:
        return f" {found['text']} " if found["executed"] and found["end"] else found[0]

    return _QUOTED_OR_COMMENT.sub(shown, text)


def _after_comments(text: str) -> int:
    """Return the place after which no comment ends; searching for each end would be slow."""
    return text.rfind("*/") + 2 if "*/" in text else 0


def as_known(text: str, grammar: str = "") -> str:
    """Return a text in one grammar's spelling, or in that of all; quoted parts stay unchanged."""
    return outside_quotes(text, partial(_spelled, every=grammar == MYSQL))


def _spelled(plain: str, *, every: bool) -> str:
    for unknown, known in _SPELLED:
        plain = unknown.sub(known, plain)
    return each_alone(plain, every=every)


def outside_quotes(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to everything but quoted parts."""
    parts = _parts(text.replace("\0", " "))
    aside = (f"\0{at}\0" if at % 2 else part for at, part in enumerate(parts))
    return _ASIDE.sub(lambda found: parts[int(found[1])], change("".join(aside)))


def plain_parts(text: str) -> list[str]:
    """Return what is between the quoted parts of a text."""
    return _parts(text)[::2]


def _parts(text: str, quotes: str = _QUOTES) -> list[str]:
    """Split a text into plain and quoted parts in turn; a quote that nothing closes is plain.

    A regular expression would search for a missing end anew from each `[`, far more slowly.
    """
    parts, since, at = list[str](), 0, 0
    opening = re.compile(f"[{re.escape(quotes)}]")
    while found := opening.search(text, at):
        at = found.end()
        end = text.find(_CLOSING[found[0]], at)
        if end >= 0:
            parts += [text[since : found.start()], text[found.start() : end + 1]]
            since = at = end + 1
    return [*parts, text[since:]]


def words(*expected: str) -> tuple[re.Pattern[str], ...]:
    """Compile patterns of words for `has_in_order`."""
    return tuple(re.compile(rf"\b{word}\b", re.IGNORECASE) for word in expected)


def has_in_order(text: str, patterns: Iterable[re.Pattern[str]]) -> bool:
    """Whether a text has the words in order; a single pattern would be slow to fail."""
    at = 0
    for pattern in patterns:
        match = pattern.search(text, at)
        if match is None:
            return False
        at = match.end()
    return True


def has_backtick(text: str) -> bool:
    """Whether a text has a backtick outside of quotes: only MySQL quotes names with them."""
    return any(_BACKTICK in part for part in _parts(text, _QUOTES.replace(_BACKTICK, ""))[::2])
