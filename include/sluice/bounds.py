"""How much one landed file may make of itself: whoever writes files decides how they unfold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1 << 20
FILE_BYTES: Final = 20 * 1024 * MEBIBYTE
RATIO: Final = 1000
# At least: a column of numbers in even steps and nothing beside it, packed as their differences, is
# 180 rows a byte, and no file that somebody means is far beyond that.
ROW_BYTES: Final = 4
LEAST_REJECTS: Final = 1000
MOST_REJECTS: Final = 10_000
# Of distinct schemas, which a manifest tells and every task reads.
SCHEMA_BYTES_OF_A_BATCH: Final = 64 * MEBIBYTE


@dataclass(frozen=True)
class Bounds:
    """What is above one of these is refused, the whole file as one reject.

    `plain_bytes`: of a compressed file; `ratio`: plain bytes for each compressed one, looked at
    from `ratio_from` plain bytes on, and the same of a copy's bytes for each of the file.
    `staged_bytes`: of the copy that Spark reads instead of a file. `rejects`: records of a file
    that landing cannot hand on.
    `block_bytes`: of one compressed block of Avro, which a driver holds whole. `rows_from`: from so
    many rows on a container's rows count as `ROW_BYTES` plain bytes each.
    """

    plain_bytes: int = FILE_BYTES
    ratio: int = RATIO
    ratio_from: int = 256 * MEBIBYTE
    staged_bytes: int = FILE_BYTES
    rejects: int = LEAST_REJECTS
    block_bytes: int = 256 * MEBIBYTE
    rows_from: int = 10_000_000

    def staged_room(self, size: int) -> int:
        """How many bytes the copy of a file of `size` bytes may take."""
        return min(self.staged_bytes, max(self.ratio_from, self.ratio * size))

    def unfolds_too_far(self, packed: int, plain: int) -> bool:
        """True for a file that gave so many plain bytes for so many compressed ones."""
        by_ratio = plain >= self.ratio_from and plain > self.ratio * packed
        return plain > self.plain_bytes or by_ratio

    def has_too_many_rows(self, packed: int, rows: int) -> bool:
        """True for a container that says of so many bytes that they hold so many rows."""
        return rows > self.rows_from and rows * ROW_BYTES > self.ratio * packed


DEFAULT: Final = Bounds()


def rejects_of(max_bad_records: int) -> int:
    """How many rejects of one file are kept apart, where a batch may have so many."""
    return min(max(max_bad_records + 1, LEAST_REJECTS), MOST_REJECTS)


def rejects_of_a_batch(max_bad_records: int) -> int:
    """How many rejects of all files together are kept apart: with more of them the batch fails."""
    return max(max_bad_records + 1, LEAST_REJECTS)
