"""Globs over object keys, and names that are always skipped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_PART: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", re.DOTALL)
_FOLDERS, _ANYTHING, _IN_FOLDER = "**/", "**", "*"
_STARS: Final = (_FOLDERS, _ANYTHING, _IN_FOLDER)
_MOST_STEPS_KEPT: Final = 1 << 16
_ONE_STAR: Final = r"[^*\[/]*+(\*[^*\[/]*+)?"
_ONE_WAY: Final = re.compile(rf"({_ONE_STAR}/)*+(\*\*/)?({_ONE_STAR}/)*+{_ONE_STAR}")
"""Globs that a regular expression matches in a time by the key's length: with one star in a folder,
that ends where the folder's name ends, and `**/` once, each folder is looked at a few times."""


class Glob:
    """A glob over keys: `*` and `?` stay in a folder, `**/` is any number of folders.

    A regular expression would try all ways to divide a key among the stars, of which there are too
    many in a key such as `_____` for the glob `*_*_*_*x`. Globs for which there is one way are
    matched by it all the same, as it is 20 times as fast; the others as an automaton, whose state
    is the set of all parts that a key may have come to. Raises re.error for a range that ends
    before it begins.
    """

    def __init__(self, pattern: str) -> None:
        self._parts = _PART.findall(pattern)
        self._characters = [re.compile(_character(part), re.DOTALL) for part in self._parts]
        self._start = frozenset(self._from(0))
        self._after = lru_cache(_MOST_STEPS_KEPT)(self._step)
        one_way = _ONE_WAY.fullmatch(pattern)
        self._regex = re.compile("".join(map(_regex, self._parts))) if one_way else None

    def matches(self, key: str) -> bool:
        """Whether the whole key matches."""
        if self._regex:
            return self._regex.fullmatch(key) is not None
        state = self._start
        for character in key:
            state = self._after(state, character)
        return len(self._parts) in state

    def _step(self, state: frozenset[int], character: str) -> frozenset[int]:
        return frozenset(part for at in state for part in self._next(at, character))

    def _next(self, at: int, character: str) -> Iterable[int]:
        """Return the parts that a key may be at after a character that it has at this part."""
        if at == len(self._parts) or not self._characters[at].match(character):
            return ()
        part = self._parts[at]
        if part == _FOLDERS and character != "/":
            return (at,)  # a folder has begun, and is to end
        return self._from(at if part in _STARS else at + 1)

    def _from(self, at: int) -> Iterable[int]:
        """Return a part and those behind it that a key is at too, since stars may be nothing."""
        end = at
        while end < len(self._parts) and self._parts[end] in _STARS:
            end += 1
        return range(at, end + 1)


def literal_start(pattern: str) -> str:
    """Return what all keys that match a glob begin with."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


def _character(part: str) -> str:
    """Return a regular expression of the single characters that a part of a glob takes."""
    special = {_FOLDERS: ".", _ANYTHING: ".", _IN_FOLDER: "[^/]", "?": "[^/]"}
    if part in special:
        return special[part]
    if len(part) > 1:
        inner = part[1:-1].replace("\\", "\\\\")
        return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(part)


def _regex(part: str) -> str:
    """Return a regular expression of a part of a glob with one way."""
    stars = {_FOLDERS: "(?:[^/]*/)*", _IN_FOLDER: "[^/]*"}
    return stars.get(part) or _character(part)


def is_hidden(key: str) -> bool:
    """Whether an object is skipped, as Spark skips it: a part of the key begins with `.`, or
    with `_` without being `_name=value`, or the key ends in `._COPYING_`, as Hadoop names
    unfinished files."""
    parts = key.split("/")
    hidden = any(p.startswith(".") or (p.startswith("_") and "=" not in p) for p in parts)
    return hidden or any(p.endswith("._COPYING_") for p in parts)


def matches_nothing(pattern: str) -> bool:
    """Whether a folder or name in a glob, such as `_in`, is one that is always skipped."""
    parts = pattern.split("/")
    literal = (part for part in parts if not re.search(r"[*?\[]", part))
    return any(part.startswith(".") for part in parts) or any(map(is_hidden, literal))
