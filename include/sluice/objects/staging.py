"""The copy of a landed file that Spark reads instead: in memory while small, and bounded."""

from __future__ import annotations

import tempfile
from typing import Any, Final

STAGED_TOO_LARGE: Final = "staged_copy_too_large"


class StagedTooLarge(Exception):
    """A file makes a larger copy than it may."""


class Copy(tempfile.SpooledTemporaryFile[bytes]):
    """A temporary file, on disk from `in_memory` bytes on, that takes at most `room` bytes."""

    def __init__(self, in_memory: int, room: int) -> None:
        super().__init__(in_memory)
        self._room = room

    def write(self, data: Any) -> int:
        """Append bytes; raises StagedTooLarge."""
        self._room -= len(data)
        if self._room < 0:
            raise StagedTooLarge
        return super().write(data)

    def empty(self) -> None:
        """Take all back that was written."""
        self.seek(0)
        self.truncate()
