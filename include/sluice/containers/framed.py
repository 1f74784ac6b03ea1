"""Turn length-prefixed binary messages into JSON lines with base64 texts.

A length is four bytes, big-endian, as Kafka itself writes it; -1 is a null message without bytes.
A file holds values alone, or pairs of a key and its value.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

from sluice.config.format_options import Layout
from sluice.containers.compression import DamageError
from sluice.containers.json_documents import Line, Rejected

VALUES: Final[Layout] = "length_delimited"
PAIRS: Final[Layout] = "length_delimited_pairs"
LAYOUTS: Final = (VALUES, PAIRS)
TRUNCATED: Final = "truncated_message"
BAD_LENGTH: Final = "bad_message_length"
_LENGTH_BYTES: Final = 4
_NULL: Final = -1


def split(chunks: Iterator[bytes], limit: int, layout: str) -> Iterator[Line | Rejected]:
    """Yield every record as a line `{"key": …, "value": …}`; reject all from a bad length on.

    Raises DamageError if nothing of the file can be trusted.
    """
    stream = _Stream(chunks)
    while stream.has(1):
        start = stream.at
        try:
            key = _message(stream, limit) if layout == PAIRS else None
            value = _message(stream, limit)
        except _BadMessageError as bad:
            yield Rejected(stream.damage or bad.reason, stream.rest(start))
            return
        yield _line(key, value)
        stream.forget()
    if stream.damage:
        yield Rejected(stream.damage, b"")


class _BadMessageError(Exception):
    """A message has a wrong length, or the file ends within it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _message(stream: _Stream, limit: int) -> bytes | None:
    """Take the next message, None for a null one; raises _BadMessageError."""
    size = stream.length()
    if size is None:
        raise _BadMessageError(TRUNCATED)
    if size < _NULL or size > limit:
        raise _BadMessageError(BAD_LENGTH)
    if not stream.has(size):
        raise _BadMessageError(TRUNCATED)
    return None if size == _NULL else stream.take(size)


def _line(key: bytes | None, value: bytes | None) -> Line:
    shown = (b"null" if m is None else b'"' + base64.b64encode(m) + b'"' for m in (key, value))
    return Line(b'{"key":%s,"value":%s}' % tuple(shown))


class _Stream:
    """The bytes from the current record on; `damage` says why they end early."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.damage = ""
        self.at = 0
        self._chunks = chunks
        self._data = bytearray()

    def has(self, size: int) -> bool:
        """Read until `size` more bytes are buffered; false if the file ends before."""
        while len(self._data) - self.at < size:
            try:
                chunk = next(self._chunks, None)
            except DamageError as damage:
                if not damage.trusted:
                    raise
                self.damage, chunk = damage.reason, None
            if chunk is None:
                return False
            self._data += chunk
        return True

    def take(self, size: int) -> bytes:
        """Consume the next bytes, which must be buffered."""
        self.at += size
        return bytes(self._data[self.at - size : self.at])

    def length(self) -> int | None:
        """Consume the next message's length; None if the file ends in it."""
        if not self.has(_LENGTH_BYTES):
            return None
        return int.from_bytes(self.take(_LENGTH_BYTES), "big", signed=True)

    def rest(self, start: int) -> bytes:
        """Return what was read from `start` on."""
        return bytes(self._data[start:])

    def forget(self) -> None:
        """Finish the record; its bytes are dropped now and then."""
        if self.at > 1 << 20 or self.at == len(self._data):
            del self._data[: self.at]
            self.at = 0
