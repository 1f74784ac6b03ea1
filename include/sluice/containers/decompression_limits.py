"""Limits on how far an Avro container's blocks decompress: readers hold a whole block in memory."""

from __future__ import annotations

from typing import Final

from sluice.bounds import RATIO, Bounds
from sluice.containers.avro_codecs import DAMAGED, DEFLATE, PACKED, piece_sizes
from sluice.containers.compression import BOMB, TOO_MANY_ROWS, DamageError

# The highest ratio of deflate, by zlib's technical details.
_DEFLATE_MOST: Final = 1032


class DecompressionGuard:
    """Counts the decompressed size of one file's blocks, against its `bounds`.

    A damaged block counts as far as it can be read; its decoder reports the damage.
    """

    def __init__(self, codec: bytes, bounds: Bounds) -> None:
        self._codec = codec
        self._bounds = bounds
        self._records = 0
        self._plain = 0

    @property
    def wants(self) -> int:
        """Number of bytes of a block's body that `add` needs."""
        return self._bounds.block_bytes if self._codec in PACKED else 0

    def add(self, records: int, body: bytes, size: int, end: int) -> str:
        """Count a block; return why it alone is too large, or "".

        Its body has `size` bytes, of which `body` are the first; it ends at `end` of the file. A
        block that is too large does not count, because a damaged byte can make it claim any size.
        Raises DamageError, not trusted, if the blocks together are too large.
        """
        if self._bounds.has_too_many_rows(size, records):
            return TOO_MANY_ROWS
        unfolded = self._unfolded(body, size, end)
        if unfolded > self._bounds.block_bytes:
            return BOMB
        self._records += records
        self._plain += unfolded
        if self._bounds.has_too_many_rows(end, self._records):
            raise DamageError(TOO_MANY_ROWS, trusted=False)
        if self._bounds.exceeds_ratio(end, self._plain):
            raise DamageError(BOMB, trusted=False)
        return ""

    def _is_within(self, size: int, end: int) -> bool:
        """Whether a block cannot be too large, so that it need not be decompressed.

        This holds for most blocks, and decompressing takes longer than all other checks.
        """
        bounds = self._bounds
        small = size * _DEFLATE_MOST <= bounds.block_bytes
        few = end * _DEFLATE_MOST <= bounds.plain_bytes and bounds.ratio >= RATIO
        return self._codec == DEFLATE and small and few

    def _unfolded(self, body: bytes, size: int, end: int) -> int:
        """Return a block's decompressed size, counted up to the bound; 0 if stored plain."""
        most = self._bounds.block_bytes
        if self._codec not in PACKED:
            return 0
        if size > most or self._is_within(size, end):
            return size
        unfolded = 0
        try:
            for piece in piece_sizes(self._codec, body):
                unfolded += piece
                if unfolded > most:
                    break
        except DAMAGED:
            pass
        return unfolded
