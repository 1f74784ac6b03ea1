"""The copy of a landed file that Spark reads instead: in memory while small, and bounded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sluice.errors import NoRoom
from sluice.objects.store import FULL

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


@contextmanager
def room_for_a_copy(key: str, folder: str = "") -> Iterator[None]:
    """Make a disk that is full an error of the one object that is copied to it, in a `folder` of
    the warehouse, else in the temporary one; raises NoRoom.

    Goes around the copy's own `with`: a file that could not be written fails again when it closes.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        elsewhere = "" if folder else " set TMPDIR,"
        raise NoRoom(
            f"{key}: no room in {folder or tempfile.gettempdir()} for its copy; make room there,"
            f"{elsewhere} or lower max_staged_bytes_per_file"
        ) from error
