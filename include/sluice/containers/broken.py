"""Where a document that cannot be read ends, as far as its text still tells."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sluice.containers.json_text import NEAR_END
from sluice.containers.text_window import TextWindow

# What kafka-console-consumer writes behind a key by default; a null value is a word there.
TAB: Final = r"\t(?=\{|null[ \t]*(?:[\r\n]|\Z))"
# Where a line begins that may be a document's, and behind a key one that has a key, too.
NEXT_START: Final = re.compile(r"[\r\n](?=[{\[])")
_KEYED: Final = r"[^\r\n^{}\[\]]*+\^(?=[ \t]*+(?:[{\[\r\n]|null\b))" rf"|[^\t\r\n^{{}}\[\]]*+{TAB}"
NEXT_KEYED: Final = re.compile(rf"[\r\n](?=[{{\[]|{_KEYED})")
_STRING: Final = r'"(?:[^"\\\r\n]|\\[^\r\n])*+'
_FIELD: Final = rf'[ \t\r\n]*+{_STRING}"[ \t\r\n]*+:'
# What may stand behind an element of an array, or behind a document on its line: not more of it.
_FOLLOWS: Final = rf"[ \t\ufeff]*+(?:(?:,|(?=[\r\n]))(?!{_FIELD})|[\]{{/]|\Z)"
FOLLOWS: Final = re.compile(_FOLLOWS)
# One character too many between those; a digit, a quote or a colon may be the rest of a field.
STRAY: Final = re.compile(rf"[ \t]*+[^\s\d\",:^{{\[\]]{_FOLLOWS}")
_MARK: Final = rf'{_STRING}("?)|[{{}}\[\]]'
_TOKENS: Final = {
    start: re.compile(rf"{_MARK}|{start.pattern}") for start in (NEXT_START, NEXT_KEYED)
}
_LIST: Final = re.compile(r"\[[ \t\r\n]*+\{")
# How far the end of a broken document may be, where none was whole before it.
_FAR: Final = 1 << 16
# Characters that may be looked at in vain: at first, and for each that was passed.
_SPARE: Final = 1 << 20
_EACH: Final = 4
# Places that may each begin a document behind a broken one, and do not.
_FALSE_STARTS: Final = 16
_CLOSED_BY: Final = {"{": "}", "[": "]"}


def next_start(offset: int) -> re.Pattern[str]:
    """Where the next line begins as a document's does, behind one that begins at `offset`."""
    return NEXT_KEYED if offset else NEXT_START


@dataclass(frozen=True)
class Balance:
    """How far a look went, and whether there all was closed that had been opened."""

    end: int
    closed: bool = False


def balance(text: str, at: int, until: int, next_start: re.Pattern[str] = NEXT_START) -> Balance:
    """Look for the brace or bracket that closes the one at `at`; those in strings are none.

    None does where a string is not closed on its line, a bracket closes a brace, or a line begins
    as the next document's does.
    """
    waiting: list[str] = []
    for token in _TOKENS[next_start].finditer(text, at, until):
        mark = text[token.start()]
        if token[1]:
            continue
        if mark in _CLOSED_BY:
            waiting.append(_CLOSED_BY[mark])
        elif not waiting or mark != waiting.pop():
            return Balance(token.end())
        elif not waiting:
            return Balance(token.end(), closed=True)
    return Balance(until)


def ends_another(text: str) -> bool:
    """Whether what is broken ends with a bracket that is not known to close one of its own."""
    looked = balance(text + "\n", 0, len(text) + 1)
    return text.endswith("]") and looked.end <= len(text)


def starts_like(first_key: str) -> re.Pattern[str]:
    """Where a document may begin: a line does, or behind a comma, or a brace and a line break, one
    that has `first_key` first, which the group shows."""
    behind = r"(?:,[ \t\r\n]*+|(?<=\})[ \t]*+[\r\n][ \t\r\n]*+)"
    return re.compile(rf"{NEXT_START.pattern}|{behind}({_first(first_key)})")


def _within_like(first_key: str) -> re.Pattern[str]:
    """Where one begins that has `first_key` first, but behind no other: within another."""
    return re.compile(rf"[^ \t\r\n,}}][ \t\r\n]*+({_first(first_key)})")


def _first(key: str) -> str:
    return rf"\{{[ \t\r\n]*+{re.escape(_as_json(key))}"


def _as_json(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _nests_alike(record: dict[str, Any], text: str) -> bool:
    """Whether a record, of this text, holds one that begins as it does and is alike."""
    first = next(iter(record), "")
    waiting = list(record.values()) if text.count(_as_json(first)) > 1 else []
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if next(iter(part), None) == first and are_alike(record, part):
                return True
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False


def are_alike(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether two records have more than half of their fields in common.

    A record within another, which may begin as that does, seldom has.
    """
    fields, others = set(one), set(other)
    return 2 * len(fields & others) > len(fields | others)


def may_go_on(line: str) -> bool:
    """Whether more documents may stand behind the broken one that a line begins with."""
    looked = balance(line, 0, len(line)) if line.startswith("{") else Balance(0)
    more = looked.closed and looked.end < len(line)
    return more and FOLLOWS.match(line, looked.end) is not None


class Ends:
    """Where the broken document at the beginning of a window ends, by those before it too.

    What is looked at in vain, and so again, is bounded by how far the window has moved.
    """

    def __init__(self, window: TextWindow) -> None:
        self._window = window
        self._fields: tuple[str, ...] = ()
        self._longest = 0
        self._unclosed = 0
        self._unlike = 0
        self._nests = False

    def learn(self, value: Any, text: str) -> None:
        """A whole document and its text."""
        if isinstance(value, dict):
            self._fields = tuple(value)
            self._nests = self._nests or _nests_alike(value, text)
        self._longest = max(self._longest, len(text))

    def own(self, offset: int) -> int:
        """Where what begins at `offset` closes, and no more of it follows; -1 where it does not."""
        window = self._window
        if not window.text.startswith(("{", "["), window.at + offset):
            return -1
        while True:
            begin = window.at + offset
            until = self._until(begin, self._unclosed, self._far)
            looked = balance(window.text, begin, until, next_start(offset))
            if looked.end + NEAR_END > len(window.text) and window.more_within_limit():
                continue
            if looked.closed and FOLLOWS.match(window.text, looked.end):
                return looked.end
            self._unclosed += looked.end - begin
            return -1

    @property
    def _far(self) -> int:
        """Not much farther than others', for behind a quote too few all is taken for strings."""
        return 2 * self._longest + 1024 if self._longest else _FAR

    def by_the_next(self) -> int:
        """Where the next begins, which is like the one before; -1 where none does.

        And where it may be a record within the broken one: those may be like it, too.
        """
        window, offset, false = self._window, 1, 0
        while self._fields and not self._nests and false < _FALSE_STARTS:
            start = self._next_start(offset)
            if start is None or not start[1]:
                return start.start() if start else -1
            offset = start.start() - window.at
            found = window.document(start.start(1) - window.at)
            if found.found and are_alike(self._fields, found.value):
                return -1 if self._holds_alike(offset) else window.at + offset
            self._unlike += max(found.end - window.at - offset, found.error_at)
            false += not found.found
            offset += 1
        return -1

    def _holds_alike(self, offset: int) -> bool:
        """Whether what is broken up to `offset` holds one alike, or a list without an end."""
        window = self._window
        self._unlike += offset
        end = window.at + offset
        begun = window.text[window.at + 1 : end]
        if _LIST.search(begun) and begun.count("[") > begun.count("]"):
            return True
        nested = _within_like(self._fields[0]).search(window.text, window.at, end)
        if nested is None:
            return False
        found = window.document(nested.start(1) - window.at)
        return found.found and are_alike(self._fields, found.value)

    def _next_start(self, offset: int) -> re.Match[str] | None:
        window, starts = self._window, starts_like(self._fields[0])
        while True:
            begin = window.at + offset
            until = self._until(begin, self._unlike)
            found = starts.search(window.text, begin, until)
            if found or until < len(window.text) or not window.more_within_limit():
                self._unlike += (found.end() if found else until) - begin
                return found

    def _until(self, begin: int, in_vain: int, far: int = sys.maxsize) -> int:
        window = self._window
        room = _SPARE + _EACH * (window.passed + window.at) - in_vain
        return min(len(window.text), begin + min(max(room, 0), far))
