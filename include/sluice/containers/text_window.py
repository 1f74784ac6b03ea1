"""A file's text as a window that moves over it, however long the file is."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

from sluice.containers.compression import Damage
from sluice.containers.json_text import NEAR_END, Document, read_document

_LINE: Final = re.compile(r"[^\r\n]*")


class _Text(str):
    """Text in which an error costs nothing but itself.

    A JSONDecodeError counts the lines before it: of many broken lines each would cost a look at
    all before it.
    """

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return -1


class TextWindow:
    """The text from `at` on, as far as it is read; bytes that are no UTF-8 are surrogates.

    `passed`: characters before the window. `cut`: why the file ends early. `limit`: about how many
    characters may wait.
    """

    def __init__(self, chunks: Iterator[bytes], limit: int) -> None:
        self.chunks = chunks
        self.limit = limit
        self.decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text: str = _Text()
        self.at = 0
        self.passed = 0
        self.ended = False
        self.cut = ""
        self._unbroken = (0, 0)

    def more(self) -> bool:
        """Read on, at least as much again as is waiting; false at the end."""
        if self.ended:
            return False
        pieces, size = [self.text[self.at :]], 0
        self.passed += self.at
        self.at = 0
        while size <= len(pieces[0]) and not self.ended:
            piece = self._decoded()
            pieces.append(piece)
            size += len(piece)
        self.text = _Text("".join(pieces))
        return True

    def _decoded(self) -> str:
        try:
            return self.decoder.decode(next(self.chunks))
        except StopIteration:
            pass
        except Damage as damage:
            if not damage.trusted:
                raise
            self.cut = damage.reason
        self.ended = True
        return self.decoder.decode(b"", final=True)

    def more_within_limit(self) -> bool:
        """The same, unless as much as may wait does."""
        return self.within_limit() and self.more()

    def within_limit(self) -> bool:
        """Whether what waits is no more than may."""
        return len(self.text) - self.at <= self.limit

    def read_line(self, offset: int) -> None:
        """Have the rest of the line from `offset` in the window, as far as the limit lets it."""
        while not self._has_line(offset) and self.more_within_limit():
            pass

    def _has_line(self, offset: int) -> bool:
        return self.ended or self.line_end(self.at + offset) < len(self.text)

    def line_end(self, at: int) -> int:
        """Where the line ends that goes on at `at`; what has no end in it is looked at once."""
        first, last = self._unbroken
        place = self.passed + at
        known = first <= place <= last
        end = _LINE.match(self.text, last - self.passed if known else at).end()  # type: ignore[union-attr]
        self._unbroken = (first if known else place, self.passed + end)
        return end

    def line_from(self, at: int) -> str:
        """The rest of the line."""
        return self.text[at : self.line_end(at)]

    def pass_to(self, end: int) -> str:
        """What stands before `end`; the window goes on there."""
        text = self.text[self.at : end]
        self.at = end
        return text

    def document(self, offset: int) -> Document:
        """The document at `offset` from here; reads on as long as that could complete it."""
        while True:
            found = read_document(self.text, self.at + offset)
            at_edge = found.found and found.end + NEAR_END > len(self.text)
            if not (found.incomplete or at_edge) or self.ended:
                return found
            if not self.within_limit():
                return found
            self.more()
