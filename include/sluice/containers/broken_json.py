"""Find where a document that cannot be parsed ends, as far as its text still shows it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sluice.containers.json_text import NEAR_END
from sluice.containers.text_window import TextWindow

# kafka-console-consumer writes a tab after a key by default, and the word null for a null value.
TAB: Final = r"\t(?=\{|null[ \t]*(?:[\r\n]|\Z))"
# What kafka-console-consumer prints before a key, if told to.
PRINTED_FIELD: Final = (
    r"(?:(?:CreateTime|LogAppendTime):-?\d++|(?:Partition|Offset|Delivery|Epoch):\d++"
    r"|NO_TIMESTAMP|NO_HEADERS)\t"
)
# The start of a line that may begin a document; after keyed lines, also of one with a key, and in
# what a console printed also of one with such a field. A damaged string may begin a line like that.
NEXT_START: Final = re.compile(r"[\r\n](?=[{\[])")
_KEYED: Final = r"[^\r\n^{}\[\]]*+\^(?=[ \t]*+(?:[{\[\r\n]|null\b))" rf"|[^\t\r\n^{{}}\[\]]*+{TAB}"
NEXT_KEYED: Final = re.compile(rf"[\r\n](?=[{{\[]|{_KEYED})")
_NEXT_PRINTED: Final = re.compile(rf"[\r\n](?=[{{\[]|{PRINTED_FIELD})")
_NEXT_PRINTED_KEYED: Final = re.compile(rf"[\r\n](?=[{{\[]|{PRINTED_FIELD}|{_KEYED})")
_STRING: Final = r'"(?:[^"\\\r\n]|\\[^\r\n])*+'
_FIELD: Final = rf'[ \t\r\n]*+{_STRING}"[ \t\r\n]*+:'
# What may follow a finished array element, or a document on its line.
_FOLLOWS: Final = rf"[ \t\ufeff]*+(?:(?:,|(?=[\r\n]))(?!{_FIELD})|[\]{{/]|\Z)"
FOLLOWS: Final = re.compile(_FOLLOWS)
# One stray character in between; a digit, a quote or a colon may be the rest of a field.
STRAY: Final = re.compile(rf"[ \t]*+[^\s\d\",:^{{\[\]]{_FOLLOWS}")
_MARK: Final = rf'{_STRING}("?)|[{{}}\[\]]'
_TOKENS: Final = {
    start: re.compile(rf"{_MARK}|{start.pattern}" if start else _MARK)
    for start in (NEXT_START, NEXT_KEYED, _NEXT_PRINTED, _NEXT_PRINTED_KEYED, None)
}
_LIST: Final = re.compile(r"\[[ \t\r\n]*+\{")
# How far the end of a broken document may be if no whole one came before it.
_FAR: Final = 1 << 16
# Budget of characters scanned in vain: a fixed part, and one for each character passed.
_SPARE: Final = 1 << 20
_EACH: Final = 4
# Candidate starts after a broken document that may turn out not to begin one.
_FALSE_STARTS: Final = 16
_CLOSED_BY: Final = {"{": "}", "[": "]"}


@dataclass(frozen=True)
class BracketScan:
    """How far a scan went (`end`), and whether all brackets were closed there."""

    end: int
    closed: bool = False


def find_closing_bracket(
    text: str, at: int, until: int, next_start: re.Pattern[str] | None = NEXT_START
) -> BracketScan:
    """Find the brace or bracket that closes the one at `at`; those in strings do not count.

    There is none if a string is not closed on its line, a bracket closes a brace, or a line starts
    like the next document.
    """
    open_brackets: list[str] = []
    for token in _TOKENS[next_start].finditer(text, at, until):
        mark = text[token.start()]
        if token[1]:
            continue
        if mark in _CLOSED_BY:
            open_brackets.append(_CLOSED_BY[mark])
        elif not open_brackets or mark != open_brackets.pop():
            return BracketScan(token.end())
        elif not open_brackets:
            return BracketScan(token.end(), closed=True)
    return BracketScan(until)


def ends_another(text: str) -> bool:
    """Whether a broken document ends with a bracket that closes none of its own brackets."""
    scanned = find_closing_bracket(text + "\n", 0, len(text) + 1)
    return text.endswith("]") and scanned.end <= len(text)


def starts_like(first_key: str) -> re.Pattern[str]:
    """Return the pattern of a possible document start.

    That is a line that starts like a document, or, as the group, one that has `first_key` first
    after a comma, or after a brace and a line break.
    """
    behind = r"(?:,[ \t\r\n]*+|(?<=\})[ \t]*+[\r\n][ \t\r\n]*+)"
    return re.compile(rf"{NEXT_START.pattern}|{behind}({_first(first_key)})")


def _within_like(first_key: str) -> re.Pattern[str]:
    """Return the pattern of a nested document that has `first_key` first."""
    return re.compile(rf"[^ \t\r\n,}}][ \t\r\n]*+({_first(first_key)})")


def _first(key: str) -> str:
    return rf"\{{[ \t\r\n]*+{re.escape(_as_json(key))}"


def _as_json(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _nests_alike(record: dict[str, Any], text: str) -> bool:
    """Whether a record (`text`) nests one with the same first field that is alike."""
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
    """Whether two records share more than half of their fields.

    A nested record seldom shares so many with the one around it, even if both start alike.
    """
    fields, others = set(one), set(other)
    return 2 * len(fields & others) > len(fields | others)


def may_go_on(line: str) -> bool:
    """Whether more documents may follow the broken one that a line begins with."""
    scanned = find_closing_bracket(line, 0, len(line)) if line.startswith("{") else BracketScan(0)
    more = scanned.closed and scanned.end < len(line)
    return more and FOLLOWS.match(line, scanned.end) is not None


class DocumentEnds:
    """Finds where the broken document at a window's start ends, judging by whole ones before it.

    How much is scanned in vain, and so again, is bounded by how far the window has moved.
    `printed`: a console printed fields before a document of the file.
    """

    def __init__(self, window: TextWindow) -> None:
        self.printed = False
        self._window = window
        self._fields: tuple[str, ...] = ()
        self._longest = 0
        self._unclosed = 0
        self._unlike = 0
        self._nests = False

    def learn(self, value: Any, text: str) -> None:
        """Remember a whole document and its text."""
        if isinstance(value, dict):
            self._fields = tuple(value)
            self._nests = self._nests or _nests_alike(value, text)
        self._longest = max(self._longest, len(text))

    def next_start(self, offset: int) -> re.Pattern[str]:
        """Return the pattern of the next document's start, after one that begins at `offset`."""
        if self.printed:
            return _NEXT_PRINTED_KEYED if offset else _NEXT_PRINTED
        return NEXT_KEYED if offset else NEXT_START

    def own(self, offset: int, too_deep: bool = False) -> int:
        """Return where the part at `offset` closes with no more of it after; -1 if nowhere.

        One that is `too_deep` to be parsed may be sound: what begins like a document on a line of
        it is a part of it, and it may be as long as any.
        """
        window, starts = self._window, None if too_deep else self.next_start(offset)
        if not window.text.startswith(("{", "["), window.at + offset):
            return -1
        while True:
            begin = window.at + offset
            until = self._until(begin, self._unclosed, sys.maxsize if too_deep else self._far)
            if too_deep and until > begin:
                until = len(window.text)
            scanned = find_closing_bracket(window.text, begin, until, starts)
            if scanned.end + NEAR_END > len(window.text) and window.more_within_limit():
                continue
            if scanned.closed and FOLLOWS.match(window.text, scanned.end):
                return scanned.end
            self._unclosed += scanned.end - begin
            return -1

    @property
    def _far(self) -> int:
        """A bit more than the longest document: a missing quote makes all that follows a string."""
        return 2 * self._longest + 1024 if self._longest else _FAR

    def by_the_next(self) -> int:
        """Return where the next document like the previous one begins; -1 if nowhere.

        Also -1 if it may be nested in the broken one: a nested record may be alike too.
        """
        window, offset, false_starts = self._window, 1, 0
        while self._fields and not self._nests and false_starts < _FALSE_STARTS:
            start = self._next_start(offset)
            if start is None or not start[1]:
                return start.start() if start else -1
            offset = start.start() - window.at
            candidate = window.document(start.start(1) - window.at)
            if candidate.found and are_alike(self._fields, candidate.value):
                return -1 if self._holds_alike(offset) else window.at + offset
            self._unlike += max(candidate.end - window.at - offset, candidate.error_at)
            false_starts += not candidate.found
            offset += 1
        return -1

    def _holds_alike(self, offset: int) -> bool:
        """Whether the broken part before `offset` nests a record alike, or an unclosed list."""
        window = self._window
        self._unlike += offset
        end = window.at + offset
        begun = window.text[window.at + 1 : end]
        if _LIST.search(begun) and begun.count("[") > begun.count("]"):
            return True
        nested = _within_like(self._fields[0]).search(window.text, window.at, end)
        if nested is None:
            return False
        inner = window.document(nested.start(1) - window.at)
        return inner.found and are_alike(self._fields, inner.value)

    def _next_start(self, offset: int) -> re.Match[str] | None:
        window, starts = self._window, starts_like(self._fields[0])
        while True:
            begin = window.at + offset
            until = self._until(begin, self._unlike)
            start = starts.search(window.text, begin, until)
            if start or until < len(window.text) or not window.more_within_limit():
                self._unlike += (start.end() if start else until) - begin
                return start

    def _until(self, begin: int, in_vain: int, far: int = sys.maxsize) -> int:
        window = self._window
        room = _SPARE + _EACH * (window.passed + window.at) - in_vain
        return min(len(window.text), begin + min(max(room, 0), far))
