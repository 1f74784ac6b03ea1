"""Codecs of an Avro container's blocks, decompressed piece by piece since they may unfold to any
size.

fastavro needs another library for some of them, or decompresses without a bound.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import zstandard

from sluice.containers.byte_stream import ByteStream
from sluice.containers.compression import STEP_BYTES, ZSTD_WINDOW_BYTES

DEFLATE: Final = b"deflate"
_SNAPPY: Final = b"snappy"
DAMAGED: Final = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)


def unpacked(codec: bytes, body: bytes, most: int) -> bytes:
    """Return a block's bytes; raises ValueError, or what the codec's library raises, for one that
    is damaged, cut, or has more than `most` bytes."""
    if codec == _SNAPPY:
        return _without_snappy(body, most)
    if codec not in _PIECES:
        return body
    pieces, size = [], 0
    for piece in _PIECES[codec](body):
        size += len(piece)
        _refuse_more_than(most, size)
        pieces.append(piece)
    return b"".join(pieces)


def piece_sizes(codec: bytes, body: bytes) -> Iterator[int]:
    """Yield the sizes of a block's decompressed pieces; raises one of DAMAGED where they end early.

    Snappy states the whole size before the body, and Java allocates it at once.
    """
    return iter([_snappy_size(body)]) if codec == _SNAPPY else map(len, _PIECES[codec](body))


def _without_snappy(body: bytes, most: int) -> bytes:
    size = _snappy_size(body)
    _refuse_more_than(most, size)
    plain: bytes = pa.decompress(body[:-4], size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(body[-4:], "big"):
        raise ValueError("the checksum is that of other bytes")
    return plain


def _snappy_size(body: bytes) -> int:
    return ByteStream(iter([body])).varint()


def _refuse_more_than(most: int, size: int) -> None:
    if size > most:
        raise ValueError(f"a block of more than {most} bytes")


def _zstd(body: bytes) -> Iterator[bytes]:
    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES).stream_reader(
        body, read_across_frames=True
    )
    while piece := reader.read(STEP_BYTES):
        yield piece


def _streamed(stream: Callable[[], Any]) -> Callable[[bytes], Iterator[bytes]]:
    """Yield pieces by an object of zlib, bz2 or lzma; zlib's keeps its unconsumed input."""

    def pieces(body: bytes) -> Iterator[bytes]:
        decompressor, left = stream(), body
        while not decompressor.eof:
            piece = decompressor.decompress(left, STEP_BYTES)
            if not piece and not decompressor.eof:
                raise ValueError("a block that is cut")
            yield piece
            left = getattr(decompressor, "unconsumed_tail", b"")

    return pieces


_PIECES: Final[dict[bytes, Callable[[bytes], Iterator[bytes]]]] = {
    DEFLATE: _streamed(lambda: zlib.decompressobj(-15)),
    b"bzip2": _streamed(bz2.BZ2Decompressor),
    b"xz": _streamed(lzma.LZMADecompressor),
    b"zstandard": _zstd,
}
PACKED: Final = (_SNAPPY, *_PIECES)
"""The codecs that compress."""
