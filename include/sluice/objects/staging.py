"""The staged file, which Spark reads instead of a landed one: in memory while it is small, and of
limited size."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sluice.errors import NoRoomError
from sluice.objects.store import FULL

STAGED_TOO_LARGE: Final = "staged_copy_too_large"


class StagedTooLargeError(Exception):
    """The staged file exceeds its limit."""


class StagedFile(tempfile.SpooledTemporaryFile[bytes]):
    """A temporary file of at most `room` bytes, on disk above `in_memory` bytes."""

    def __init__(self, in_memory: int, room: int) -> None:
        super().__init__(in_memory)
        self._room = room

    def write(self, data: Any) -> int:
        """Append bytes; raises StagedTooLargeError."""
        self._room -= len(data)
        if self._room < 0:
            raise StagedTooLargeError
        return super().write(data)

    def empty(self) -> None:
        """Remove all content."""
        self.seek(0)
        self.truncate()


@contextmanager
def room_to_stage(key: str, folder: str = "") -> Iterator[None]:
    """Turn a full disk into NoRoomError, an error of the one object that is staged.

    `folder`: of the warehouse; '' for the temporary folder. Put this around the staged file's own
    `with`: a file that could not be written fails again when it is closed.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        elsewhere = "" if folder else " set TMPDIR,"
        raise NoRoomError(
            f"{key}: no room in {folder or tempfile.gettempdir()} for its copy; make room there,"
            f"{elsewhere} or lower max_staged_bytes_per_file"
        ) from error
