"""A moving window over a file's text, however long the file is."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

from sluice.containers.compression import DamageError
from sluice.containers.json_text import NEAR_END, Document, read_document

_LINE: Final = re.compile(r"[^\r\n]*")


class _Text(str):
    """Text without line numbers in its errors.

    A JSONDecodeError counts the lines before it, so each of many broken lines would cost a scan of
    all text before it.
    """

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return -1


class TextWindow:
    """The text from `at` on, as far as it is read; bytes that are not UTF-8 are surrogates.

    `passed`: characters before the window. `cut`: why the file ends early. `limit`: about how many
    characters may be buffered.
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
        """Read at least as much again as is buffered; false at the end."""
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
        except DamageError as damage:
            if not damage.trusted:
                raise
            self.cut = damage.reason
        self.ended = True
        return self.decoder.decode(b"", final=True)

    def more_within_limit(self) -> bool:
        """Read on as `more` does unless the limit is reached; false if nothing was read."""
        return self.within_limit() and self.more()

    def within_limit(self) -> bool:
        """Whether no more than the limit is buffered."""
        return len(self.text) - self.at <= self.limit

    def read_line(self, offset: int) -> None:
        """Read the rest of the line from `offset` into the window, as far as the limit allows."""
        while not self._has_line(offset) and self.more_within_limit():
            pass

    def _has_line(self, offset: int) -> bool:
        return self.ended or self.line_end(self.at + offset) < len(self.text)

    def line_end(self, at: int) -> int:
        """Return where the line at `at` ends; text without a line end is scanned once."""
        first, last = self._unbroken
        place = self.passed + at
        scanned = first <= place <= last
        end = _LINE.match(self.text, last - self.passed if scanned else at).end()  # type: ignore[union-attr]
        self._unbroken = (first if scanned else place, self.passed + end)
        return end

    def line_from(self, at: int) -> str:
        """Return the rest of the line from `at`."""
        return self.text[at : self.line_end(at)]

    def pass_to(self, end: int) -> str:
        """Return the text before `end` and move the window there."""
        text = self.text[self.at : end]
        self.at = end
        return text

    def document(self, offset: int) -> Document:
        """Parse the document at `offset` from here; read on as long as that could complete it."""
        while True:
            parsed = read_document(self.text, self.at + offset)
            at_edge = parsed.found and parsed.end + NEAR_END > len(self.text)
            if not (parsed.incomplete or at_edge) or self.ended:
                return parsed
            if not self.within_limit():
                return parsed
            self.more()
