"""Tell by a file's beginning, which may be damaged, whether it is text with JSON documents."""

from __future__ import annotations

import codecs
import re
from typing import Final

from sluice.containers.json_documents import JSON_BEGINS, UTF16_MARKS

HEAD_BYTES: Final = 4096
# A document at the start of a line, or after a byte order mark, a comment or a key.
_DOCUMENT: Final = re.compile(rb"(?:\A|[\r\n\t^]|\*/|\xef\xbb\xbf)[ \t\r\n]*+[{\[]")
# How many bytes of a text may be damaged: this number, or one in so many.
_DAMAGED: Final = 2
_ONE_OF: Final = 256
_NO_TEXT: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\udc80-\udcff]")
_LETTERS: Final = re.compile(rb"[\t\r\n -~]{2}")
_UTF16: Final = dict(zip(UTF16_MARKS, ("utf-16-le", "utf-16-be"), strict=True))


def is_text(head: bytes) -> bool:
    """Whether a file begins with a document, or is text with one in its head."""
    head = head[:HEAD_BYTES]
    if head.lstrip()[:1] in JSON_BEGINS:
        return True
    return _DOCUMENT.search(head) is not None and _is_mostly_text(head)


def _is_mostly_text(head: bytes) -> bool:
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(head)
    return len(_NO_TEXT.findall(text)) <= max(_DAMAGED, len(head) // _ONE_OF)


def is_utf16(head: bytes) -> bool:
    """Whether a file is UTF-16, with or without its mark: ASCII has a zero in every two bytes."""
    head = head[:HEAD_BYTES]
    return any(_is(head, mark, codec) for mark, codec in _UTF16.items())


def _is(head: bytes, mark: bytes, codec: str) -> bool:
    zero = 1 if codec.endswith("le") else 0
    letters = _LETTERS.fullmatch(head[1 - zero : 4 : 2])
    alternate = head[zero:4:2] == b"\0\0" and letters
    if not (alternate or (head.startswith(mark) and b"\0" in head)):
        return False
    try:
        codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeDecodeError:
        return False
    return True
