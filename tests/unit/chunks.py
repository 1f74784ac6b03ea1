"""Bytes as they arrive: in pieces."""

from __future__ import annotations

from collections.abc import Iterator

PLAIN = b"".join(b'{"n":%d,"t":"%s"}\n' % (n, b"x" * (n % 50)) for n in range(5000))
"""Lines of JSON, of many lengths."""


def pieces(data: bytes, size: int = 7) -> Iterator[bytes]:
    """The bytes in pieces of this size; the last one may be shorter."""
    return (data[n : n + size] for n in range(0, len(data), size))
