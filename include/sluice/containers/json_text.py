"""One JSON document in a text. Numbers are never read as numbers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

# No token but a string is longer; an error this near the end may only mean that more is to come.
NEAR_END: Final = 32
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _as_text(number: str) -> str:
    return number


_DECODER: Final = JSONDecoder(parse_float=_as_text, parse_int=_as_text, parse_constant=_as_text)


@dataclass(frozen=True)
class Document:
    """What `read_document` found: the place after it, or why there is none.

    `error_at`: how far behind its beginning.
    """

    end: int = 0
    value: Any = None
    error_at: int = -1
    incomplete: bool = False

    @property
    def found(self) -> bool:
        """True for a document."""
        return self.error_at < 0


def read_document(text: str, at: int) -> Document:
    """Read the JSON document that begins at `at`; `incomplete` when more text could mend it."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except JSONDecodeError as error:
        unterminated = error.msg.startswith("Unterminated string")
        return Document(
            error_at=error.pos - at, incomplete=unterminated or error.pos + NEAR_END > len(text)
        )
    except RecursionError:
        return Document(error_at=0)
    return Document(end=end, value=value)


def is_lossy(text: str, value: Any) -> bool:
    """True when a string of the document holds half a surrogate pair, which UTF-8 cannot say."""
    if not _SURROGATE_ESCAPE.search(text):
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
