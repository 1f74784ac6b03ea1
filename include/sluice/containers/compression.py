"""Decompression of a stream of bytes; an error for damage says what of it can be trusted."""

from __future__ import annotations

import bz2
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

import zstandard

from sluice.bounds import Bounds

NONE: Final = ""
GZIP: Final = "gzip"
BZIP2: Final = "bzip2"
ZSTD: Final = "zstd"

STEP_BYTES: Final = 1 << 20
BOMB: Final = "decompression_bomb"
TOO_MANY_ROWS: Final = "too_many_rows"
TOO_MUCH: Final = (BOMB, TOO_MANY_ROWS)

# zstd's own interface cannot stop half way, so its output is limited by the size of its input: four
# bytes may make a block of 128 KiB, so a piece of 256 bytes may make 8 MiB.
_PIECE_BYTES: Final = {GZIP: 1 << 16, BZIP2: 1 << 14, ZSTD: 1 << 8}
ZSTD_WINDOW_BYTES: Final = 1 << 27

# RFC 8878, 3.1.2: a frame that holds no data, as pzstd writes before each other one.
_SKIPPABLE: Final = [bytes([low]) + b"\x2a\x4d\x18" for low in range(0x50, 0x60)]
_MAGIC: Final = {
    b"\x1f\x8b\x08": GZIP,
    b"BZh": BZIP2,
    **dict.fromkeys((b"\x28\xb5\x2f\xfd", *_SKIPPABLE), ZSTD),
}


class DamageError(Exception):
    """Compressed bytes end early, or were changed.

    `trusted`: everything before the damage is as it was written; otherwise any of it may be wrong.
    """

    def __init__(self, reason: str, trusted: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.trusted = trusted


class _Member(Protocol):
    """A library's decompressor of one compressed member."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


_Inner = TypeVar("_Inner", bound=_Member)


class _Decompressor(ABC, Generic[_Inner]):
    """One compressed member."""

    def __init__(self, inner: _Inner) -> None:
        self._inner = inner

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        """What came after its end."""
        return self._inner.unused_data

    @abstractmethod
    def steps(self, data: bytes) -> Iterator[bytes]:
        """The plain bytes of `data`, a few MiB at a time."""


class _Gzip(_Decompressor["zlib._Decompress"]):
    def steps(self, data: bytes) -> Iterator[bytes]:
        """What did not fit may wait inside, with no input left."""
        plain = self._inner.decompress(data, STEP_BYTES)
        yield plain
        while not self.eof and (self._inner.unconsumed_tail or len(plain) == STEP_BYTES):
            plain = self._inner.decompress(self._inner.unconsumed_tail, STEP_BYTES)
            yield plain


class _Bzip2(_Decompressor[bz2.BZ2Decompressor]):
    def steps(self, data: bytes) -> Iterator[bytes]:
        yield self._inner.decompress(data, STEP_BYTES)
        while not (self.eof or self._inner.needs_input):
            yield self._inner.decompress(b"", STEP_BYTES)


class _Zstd(_Decompressor["zstandard.ZstdDecompressionObj"]):
    def steps(self, data: bytes) -> Iterator[bytes]:
        yield self._inner.decompress(data)


def detect(head: bytes) -> str:
    """The compression by its magic bytes, whatever the name says; "" for none."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), NONE)


class Plain(Iterator[bytes]):
    """The plain bytes of compressed ones; raises DamageError at their end.

    Also raises it, not trusted, as soon as they are more than `bounds` allow; few of them are in
    memory at a time. `padded` once zeros stood after the last member: harmless, but Java's reader
    fails on them.
    """

    def __init__(self, chunks: Iterator[bytes], compression: str, bounds: Bounds) -> None:
        self.padded = False
        self._packed = 0
        self._size = 0
        self._bounds = bounds
        self._source = self._explained(chunks, compression) if compression else chunks

    def __next__(self) -> bytes:
        return next(self._source)

    def _explained(self, chunks: Iterator[bytes], compression: str) -> Iterator[bytes]:
        try:
            yield from self._members(chunks, compression)
        except (zlib.error, OSError, EOFError, zstandard.ZstdError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the data
            raise DamageError(f"damaged_{compression}", trusted=False) from error

    def _members(self, chunks: Iterator[bytes], compression: str) -> Iterator[bytes]:
        """A file may be several compressed members on end, as `cat a.gz b.gz` makes."""
        current = _new(compression)
        for data in _pieces(chunks, _PIECE_BYTES[compression]):
            self._packed += len(data)
            while data:
                if current.eof:
                    if self._is_padding(data):
                        break
                    current = _next_member(data, compression)
                yield from map(self._counted, filter(None, current.steps(data)))
                data = current.unused_data if current.eof else b""
        if not current.eof:
            raise DamageError(f"truncated_{compression}", trusted=True)

    def _counted(self, plain: bytes) -> bytes:
        self._size += len(plain)
        if self._bounds.exceeds_ratio(self._packed, self._size):
            raise DamageError(BOMB, trusted=False)
        return plain

    def _is_padding(self, data: bytes) -> bool:
        padding = not data.strip(b"\0")
        self.padded = self.padded or padding
        return padding


def _next_member(data: bytes, compression: str) -> _Decompressor[Any]:
    if not _detect_member(data, compression):
        raise DamageError(f"damaged_{compression}", trusted=True)
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


def _new(compression: str) -> _Decompressor[Any]:
    if compression == GZIP:
        return _Gzip(zlib.decompressobj(wbits=31))
    if compression == BZIP2:
        return _Bzip2(bz2.BZ2Decompressor())
    zstd = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
    return _Zstd(zstd.decompressobj())
