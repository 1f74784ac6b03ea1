"""A stream of chunks for Avro containers: numbers, bytes ahead, and the next sync marker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.bounds import MEBIBYTE

MOST_HEADER_BYTES: Final = 16 * MEBIBYTE


@dataclass(frozen=True)
class Stretch:
    """A part of a file: its length, its first bytes, and whether a sync marker ends it."""

    raw: bytes
    length: int
    ended: bool


class ByteStream:
    """A stream over chunks that knows its offset; raises EOFError at the end.

    `header_left`: bytes that the header may still take, because a damaged length can claim any.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks = chunks
        self.waiting = b""
        self.at = 0
        self.passed = 0
        self.header_left: int | None = MOST_HEADER_BYTES

    @property
    def place(self) -> int:
        """How many bytes of the stream are consumed."""
        return self.passed + self.at

    def read(self, size: int) -> bytes:
        """Consume exactly `size` bytes; ValueError for a header of more than `header_left`."""
        if self.header_left is not None:
            self.header_left -= max(size, 0)
            if self.header_left < 0:
                raise ValueError(f"a header of more than {MOST_HEADER_BYTES} bytes")
        parts = []
        while size > 0:
            part = self.waiting[self.at : self.at + self._some(size)]
            self.at += len(part)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def ahead(self, size: int) -> bytes:
        """Return the next `size` bytes, or all that are left, without consuming them."""
        if len(self.waiting) - self.at >= size:
            return self.waiting[self.at : self.at + size]
        parts, waiting = [self.waiting[self.at :]], len(self.waiting) - self.at
        while waiting < size and (chunk := next(self.chunks, None)) is not None:
            parts.append(chunk)
            waiting += len(chunk)
        if len(parts) > 1:
            self.passed += self.at
            self.waiting, self.at = b"".join(parts), 0
        return self.waiting[self.at : self.at + size]

    def until(self, marker: bytes, keep: int) -> Stretch:
        """Consume up to and with the next `marker`, or to the end; keep the first `keep` bytes."""
        kept, length, held_back = [], 0, b""
        while not self.at_end():
            if held_back:  # a marker may begin in one chunk and end in the next
                self.passed += self.at - len(held_back)
                self.waiting, self.at = held_back + self.waiting[self.at :], 0
            marker_at = self.waiting.find(marker, self.at)
            last = max(self.at, len(self.waiting) - len(marker) + 1)
            end = marker_at + len(marker) if marker_at >= 0 else last
            kept.append(self.waiting[self.at : min(end, self.at + max(keep - length, 0))])
            length += end - self.at
            if marker_at >= 0:
                self.at = end
                return Stretch(b"".join(kept), length, ended=True)
            held_back, self.at = self.waiting[end:], len(self.waiting)
        return Stretch(b"".join([*kept, held_back])[:keep], length + len(held_back), ended=False)

    def _some(self, size: int) -> int:
        """Return how many of `size` bytes are buffered, at least one; EOFError at the end."""
        if self.at_end():
            raise EOFError
        return min(size, len(self.waiting) - self.at)

    def at_end(self) -> bool:
        """Whether no byte is left; fetches the next chunk if the last one is consumed."""
        while self.at == len(self.waiting):
            chunk = next(self.chunks, None)
            if chunk is None:
                return True
            self.passed += self.at
            self.waiting, self.at = chunk, 0
        return False

    def number(self) -> int:
        """Read a zigzag-encoded Avro long."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def varint(self) -> int:
        """Read a number of seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self.read(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
