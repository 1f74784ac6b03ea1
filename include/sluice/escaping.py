"""Text of unknown origin, made safe to display.

Names and values come from files that anybody may have written: an escape sequence could move a
terminal's cursor, a newline could forge a log line, and a direction mark could reorder the
characters after it.
"""

from __future__ import annotations

import unicodedata
from typing import Final

LINES: Final = "\n\t"
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def shown(text: str, keep: str = "") -> str:
    r"""Return the text with all control and format characters except `keep` as `\u001b`.

    Escaped JSON keeps its meaning. `keep`: LINES, for text that Sluice lays out itself.
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN:
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
