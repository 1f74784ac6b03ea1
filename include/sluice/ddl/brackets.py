"""`ALTER TABLE t ADD (a INT, b INT), …`: columns in brackets with other changes behind them."""

from __future__ import annotations

import re
from typing import Final

_ADDS: Final = re.compile(
    r"(?P<more>,\s*)?\bADD\s*(COLUMN\s*)?(?P<unless>IF\s+NOT\s+EXISTS\s*)?\(", re.IGNORECASE
)
_MORE: Final = re.compile(r"\s*,")
_MARK: Final = re.compile(r"[(),]")


def each_alone(text: str, *, every: bool) -> str:
    """Spell each column of a bracketed ADD list as an ADD of its own.

    Grammars only read the brackets if nothing else follows and without IF NOT EXISTS (MySQL's and
    MariaDB's "ALTER TABLE", `ADD [COLUMN] [IF NOT EXISTS] (col_name …, …)`). `every`: also if
    nothing else follows, for grammars such as MySQL's that do not read every column and key inside.
    Quoted parts of the text must be masked, since brackets and commas in them do not count.
    """
    parts, at, end = [], 0, 0
    for begins in _ADDS.finditer(text):
        if begins.start() < end:  # in brackets, where it is no change of the table
            continue
        listed, end = _listed(text, begins.end())
        if every or begins["unless"] or begins["more"] or _MORE.match(text, end):
            add = "ADD COLUMN IF NOT EXISTS" if begins["unless"] else "ADD"
            parts += [text[at : begins.start()], begins["more"] or ""]
            parts.append(", ".join(f"{add} {one}" for one in listed))
            at = end
    return "".join([*parts, text[at:]])


def _listed(text: str, start: int) -> tuple[list[str], int]:
    """Return the comma-separated parts up to the closing bracket, and its place."""
    parts, depth, since = list[str](), 0, start
    for mark in _MARK.finditer(text, start):
        if depth == 0 and mark[0] != "(":
            parts.append(text[since : mark.start()].strip())
            since = mark.end()
            if mark[0] == ")":
                return parts, since
        depth += {"(": 1, ")": -1, ",": 0}[mark[0]]
    return [text[start:]], len(text)
