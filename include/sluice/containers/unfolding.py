"""How far the blocks of an Avro container unfold: what reads one holds all of it in memory."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import zstandard

from sluice.bounds import RATIO, Bounds
from sluice.containers.compression import BOMB, TOO_MANY_ROWS, Damage

_STEP_BYTES: Final = 1 << 20
_WINDOW_BYTES: Final = 1 << 27
_DEFLATE: Final = b"deflate"
# How far deflate unfolds at most, by zlib's technical details.
_DEFLATE_MOST: Final = 1032
_DAMAGED: Final = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)


class Unfolding:
    """What the blocks of one file hold together, as its `bounds` allow.

    A block that is damaged counts as far as it can be read: what is wrong with it is told by
    whoever decodes it.
    """

    def __init__(self, codec: bytes, bounds: Bounds) -> None:
        self._codec = codec
        self._bounds = bounds
        self._records = 0
        self._plain = 0

    @property
    def wants(self) -> int:
        """How many bytes of a block's body are looked at."""
        return self._bounds.block_bytes if self._codec in _PIECES else 0

    def add(self, records: int, body: bytes, size: int, end: int) -> str:
        """Count a block, whose body has `size` bytes of which `body` are the first, and which ends
        at `end` of the file, and say why it alone is too much, if it is. Such a one does not count,
        for a damaged byte may have it claim anything.

        Raises Damage, not trusted, where the blocks together are too much.
        """
        if self._bounds.has_too_many_rows(size, records):
            return TOO_MANY_ROWS
        unfolded = self._unfolded(body, size, end)
        if unfolded > self._bounds.block_bytes:
            return BOMB
        self._records += records
        self._plain += unfolded
        if self._bounds.has_too_many_rows(end, self._records):
            raise Damage(TOO_MANY_ROWS, trusted=False)
        if self._bounds.unfolds_too_far(end, self._plain):
            raise Damage(BOMB, trusted=False)
        return ""

    def _is_within(self, size: int, end: int) -> bool:
        """Whether a block need not be unfolded to know that it is not too much: most files are of
        such, and to unfold them takes longer than all else that is looked at."""
        bounds = self._bounds
        small = size * _DEFLATE_MOST <= bounds.block_bytes
        few = end * _DEFLATE_MOST <= bounds.plain_bytes and bounds.ratio >= RATIO
        return self._codec == _DEFLATE and small and few

    def _unfolded(self, body: bytes, size: int, end: int) -> int:
        """As many bytes as a block is allowed, and one step more, at most; 0 for what is not
        compressed."""
        most = self._bounds.block_bytes
        if self._codec not in _PIECES:
            return 0
        if size > most or self._is_within(size, end):
            return size
        found = 0
        try:
            for piece in _PIECES[self._codec](body):
                found += piece
                if found > most:
                    break
        except _DAMAGED:
            pass
        return found


def _told(body: bytes) -> Iterator[int]:
    """Of snappy, which says it first, seven bits a byte; Java takes the memory for it at once."""
    value = 0
    for place, byte in enumerate(body[:5]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            yield value
            return


def _zstd(body: bytes) -> Iterator[int]:
    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).stream_reader(
        body, read_across_frames=True
    )
    while piece := reader.read(_STEP_BYTES):
        yield len(piece)


def _streamed(stream: Callable[[], Any]) -> Callable[[bytes], Iterator[int]]:
    """By an object of zlib, bz2 or lzma, of which the first leaves what it has not taken."""

    def pieces(body: bytes) -> Iterator[int]:
        found, left = stream(), body
        while not found.eof and (piece := found.decompress(left, _STEP_BYTES)):
            yield len(piece)
            left = getattr(found, "unconsumed_tail", b"")

    return pieces


_PIECES: Final[dict[bytes, Callable[[bytes], Iterator[int]]]] = {
    _DEFLATE: _streamed(lambda: zlib.decompressobj(-15)),
    b"bzip2": _streamed(bz2.BZ2Decompressor),
    b"xz": _streamed(lzma.LZMADecompressor),
    b"snappy": _told,
    b"zstandard": _zstd,
}
"""How many bytes each piece of a block has when it is unfolded, by codec."""
