"""Limits on what landed files may take (decompressed bytes, rejects, schemas), since whoever wrote
them decides that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1 << 20
FILE_BYTES: Final = 20 * 1024 * MEBIBYTE
RATIO: Final = 1000
# A lone column of evenly spaced numbers, stored as differences, has 180 rows a byte; no real file
# has many more.
ROW_BYTES: Final = 4
LEAST_REJECTS: Final = 1000
MOST_REJECTS: Final = 10_000
# Bytes of a batch's distinct schemas, which are in the manifest and read by every task.
SCHEMA_BYTES_OF_A_BATCH: Final = 64 * MEBIBYTE
MOST_AVRO_BYTES: Final = 64 * MEBIBYTE
"""Of one text or binary value that a driver reads: Java's Avro allocates what damage claims."""
MOST_AVRO_ITEMS: Final = 1_000_000
"""Of one array or map."""


@dataclass(frozen=True)
class Bounds:
    """Limits per file; a file above one of them becomes a single reject.

    `plain_bytes`: decompressed bytes of a file. `ratio`: decompressed bytes per compressed byte,
    and bytes of the staged file per byte of the file; checked from `ratio_from` decompressed bytes
    on. `staged_bytes`: bytes of the staged file that Spark reads instead. `rejects`: number of
    records that landing rejects one by one. `block_bytes`: decompressed bytes of one Avro block,
    which a driver holds whole. `rows_from`: from this number of rows on, each row of a container
    counts as `ROW_BYTES` decompressed bytes.
    """

    plain_bytes: int = FILE_BYTES
    ratio: int = RATIO
    ratio_from: int = 256 * MEBIBYTE
    staged_bytes: int = FILE_BYTES
    rejects: int = LEAST_REJECTS
    block_bytes: int = 256 * MEBIBYTE
    rows_from: int = 10_000_000

    def staged_room(self, size: int) -> int:
        """Return how many bytes the staged file of one of `size` bytes may take."""
        return min(self.staged_bytes, max(self.ratio_from, self.ratio * size))

    def exceeds_ratio(self, packed: int, plain: int) -> bool:
        """Whether a file has too many decompressed bytes per compressed byte."""
        by_ratio = plain >= self.ratio_from and plain > self.ratio * packed
        return plain > self.plain_bytes or by_ratio

    def has_too_many_rows(self, packed: int, rows: int) -> bool:
        """Whether a container claims too many rows for its size."""
        return rows > self.rows_from and rows * ROW_BYTES > self.ratio * packed


DEFAULT: Final = Bounds()


def rejects_of(max_bad_records: int) -> int:
    """Return how many rejects of one file are kept one by one, given the batch's limit."""
    return min(max(max_bad_records + 1, LEAST_REJECTS), MOST_REJECTS)


def rejects_of_a_batch(max_bad_records: int) -> int:
    """Return how many rejects of all files are kept one by one; with more the batch fails."""
    return max(max_bad_records + 1, LEAST_REJECTS)
