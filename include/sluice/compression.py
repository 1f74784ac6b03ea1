"""Compressed bytes as an iterator of plain ones; damage is an error that says what to trust."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import zstandard

NONE: Final = ""
GZIP: Final = "gzip"
BZIP2: Final = "bzip2"
ZSTD: Final = "zstd"

# What one piece of input may grow to bounds the memory: zstd packs far tighter than the others.
PIECE_BYTES: Final = {GZIP: 1 << 16, BZIP2: 1 << 14, ZSTD: 1 << 12}

_MAGIC: Final = {b"\x1f\x8b\x08": GZIP, b"BZh": BZIP2, b"\x28\xb5\x2f\xfd": ZSTD}


class Damage(Exception):
    """Compressed bytes end early or are not what they were.

    `trusted`: all that came before is as it was written; else any of it may be wrong.
    """

    def __init__(self, reason: str, trusted: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.trusted = trusted


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def detect(head: bytes) -> str:
    """The compression by its magic bytes, whatever the name says; "" for none."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), NONE)


class Plain(Iterator[bytes]):
    """The plain bytes of compressed ones; raises Damage at their end.

    `padded` once zeros stood after the last member: harmless, but Java's reader fails on them.
    """

    def __init__(self, chunks: Iterator[bytes], compression: str) -> None:
        self.padded = False
        self._source = self._explained(chunks, compression) if compression else chunks

    def __next__(self) -> bytes:
        return next(self._source)

    def _explained(self, chunks: Iterator[bytes], compression: str) -> Iterator[bytes]:
        try:
            yield from self._members(chunks, compression)
        except (zlib.error, OSError, EOFError, zstandard.ZstdError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the data
            raise Damage(f"damaged_{compression}", trusted=False) from error

    def _members(self, chunks: Iterator[bytes], compression: str) -> Iterator[bytes]:
        """A file may be several compressed members on end, as `cat a.gz b.gz` makes."""
        current = _new(compression)
        for data in _pieces(chunks, PIECE_BYTES[compression]):
            while data:
                if current.eof:
                    if self._is_padding(data):
                        break
                    current = _next_member(data, compression)
                yield current.decompress(data)
                data = current.unused_data if current.eof else b""
        if not current.eof:
            raise Damage(f"truncated_{compression}", trusted=True)

    def _is_padding(self, data: bytes) -> bool:
        padding = not data.strip(b"\0")
        self.padded = self.padded or padding
        return padding


def _next_member(data: bytes, compression: str) -> _Decompressor:
    if not _detect_member(data, compression):
        raise Damage(f"damaged_{compression}", trusted=True)
    return _new(compression)


def _detect_member(data: bytes, compression: str) -> bool:
    """True when another member may begin here; the magic may be cut by the end of a piece."""
    return any(
        name == compression and magic.startswith(data[: len(magic)])
        for magic, name in _MAGIC.items()
    )


def _pieces(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size]


def _new(compression: str) -> _Decompressor:
    make: dict[str, Callable[[], _Decompressor]] = {
        GZIP: lambda: zlib.decompressobj(wbits=31),
        BZIP2: bz2.BZ2Decompressor,
        ZSTD: lambda: zstandard.ZstdDecompressor().decompressobj(),
    }
    return make[compression]()
