"""Parse one JSON document in a text. Numbers stay text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

# Only strings are longer tokens; an error this near the end may just mean that more text follows.
NEAR_END: Final = 32
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_PAIR: Final = r"\\u[dD][89abAB]..\\u[dD][c-fC-F].."
_TO_A_LONE_SURROGATE: Final = re.compile(
    rf"(?:[^\\]++|{_PAIR}|\\(?!u[dD][89a-fA-F]).)*+{_SURROGATE_ESCAPE.pattern}", re.DOTALL
)


def _as_text(number: str) -> str:
    return number


_DECODER: Final = JSONDecoder(parse_float=_as_text, parse_int=_as_text, parse_constant=_as_text)


@dataclass(frozen=True)
class Document:
    """The result of `read_document`: the document and where it ends, or why there is none.

    `error_at`: offset of the error from where the document begins. `too_deep`: it nests more than
    can be parsed, so it may be sound.
    """

    end: int = 0
    value: Any = None
    error_at: int = -1
    incomplete: bool = False
    too_deep: bool = False

    @property
    def found(self) -> bool:
        """Whether there is a document."""
        return self.error_at < 0


def read_document(text: str, at: int) -> Document:
    """Parse the JSON document that begins at `at`; `incomplete` if more text could complete it."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except JSONDecodeError as error:
        unterminated = error.msg.startswith("Unterminated string")
        return Document(
            error_at=error.pos - at, incomplete=unterminated or error.pos + NEAR_END > len(text)
        )
    except RecursionError:
        return Document(error_at=0, too_deep=True)
    return Document(end=end, value=value)


def is_lossy(text: str) -> bool:
    """Whether a string of a document has half a surrogate pair, which UTF-8 cannot encode."""
    # Most texts have no such escape, which is found faster than that each of them is paired.
    return bool(_SURROGATE_ESCAPE.search(text) and _TO_A_LONE_SURROGATE.match(text))
