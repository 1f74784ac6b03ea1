"""Messages of a driver: they go to standard error, since standard output ends with the result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sluice.escaping import shown

_MOST_KEPT: Final = 100
_LISTENERS: Final[list[list[str]]] = []


def emit(text: str, layout: str = "") -> None:
    """Print a message at once. Control characters are escaped, since names in it may come from
    files.

    `layout`: `sluice.escaping.LINES` for an error, whose message may have several lines.
    """
    line = shown(text, layout)
    print(line, file=sys.stderr, flush=True)
    if layout:
        return
    for kept in _LISTENERS:
        if len(kept) < _MOST_KEPT and line not in kept:
            kept.append(line)


@contextmanager
def collecting() -> Iterator[list[str]]:
    """Collect the messages of all threads, except errors.

    The caller of a driver that succeeds does not see its standard error, and gets them with the
    result.
    """
    kept: list[str] = []
    _LISTENERS.append(kept)
    try:
        yield kept
    finally:
        _LISTENERS.remove(kept)
