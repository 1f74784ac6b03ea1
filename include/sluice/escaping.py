"""Text of unknown origin, made harmless to look at.

Names and values come from files that anybody may have written: an escape sequence in one would
move a terminal's cursor, a newline would begin a log line of its own, and a mark of direction would
show the characters after it in another order.
"""

from __future__ import annotations

import unicodedata
from typing import Final

LINES: Final = "\n\t"
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def shown(text: str, keep: str = "") -> str:
    """The text with every control and format character as `\\u001b`, but those of `keep`.

    JSON that goes through it means the same. `keep`: LINES, where the program lays text out itself.
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN:
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
