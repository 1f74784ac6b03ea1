"""What a driver says on its way: on standard error, for standard output ends with its result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sluice.escaping import shown

_MOST_HEARD: Final = 100
_LISTENERS: Final[list[list[str]]] = []


def tell(text: str, layout: str = "") -> None:
    """Say a line at once. Names in it may be from files: no character of theirs gets further.

    `layout`: `sluice.shown.LINES` where the text is an error's and has lines of its own.
    """
    line = shown(text, layout)
    print(line, file=sys.stderr, flush=True)
    for heard in () if layout else _LISTENERS:
        if len(heard) < _MOST_HEARD and line not in heard:
            heard.append(line)


@contextmanager
def listening() -> Iterator[list[str]]:
    """The lines that are said meanwhile, by any thread, errors aside: who started a driver that
    ends well sees nothing of its standard error, and has them with its result."""
    heard: list[str] = []
    _LISTENERS.append(heard)
    try:
        yield heard
    finally:
        _LISTENERS.remove(heard)
