"""Files that the store lists but does not return: the other files are loaded without them.

Nothing is recorded about them, so each run tries them again, and the first one that can read them
takes them. Until then each run that selects them ends with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tenacity import Retrying, retry_if_exception_type, retry_if_not_exception_type

from sluice.catalog.retries import pause
from sluice.counting import counted
from sluice.errors import (
    FileDeniedError,
    FilesLeftOutError,
    FilesUnreadError,
    NoRoomError,
    TransientError,
    UnstableFileError,
)
from sluice.landing.inspection import Inspection
from sluice.operations.context import MOST_FILES_NAMED, Say

TRIES: Final = 3
# This number of failures in a row, with no file read in between, means that the store is away.
AWAY_AFTER: Final = 8


@dataclass
class UnreadableFiles:
    """The files that a run could not read, and how often the store failed so far.

    `errors`: why a file could not be read, by its key. Threads count here without a lock, because
    the number at which the store counts as away need not be exact.
    """

    errors: dict[str, FileDeniedError | TransientError] = field(default_factory=dict)
    _answered: bool = False
    _failed: int = 0
    _in_a_row: int = 0

    @property
    def tries(self) -> int:
        """How often to try a file: only once if many have failed."""
        return TRIES if self._failed < AWAY_AFTER else 1

    def count_answer(self) -> None:
        """Count an answer of the store, even a refusal: the store is not away."""
        self._answered, self._in_a_row = True, 0

    def count_failure(self, key: str, error: TransientError) -> None:
        """Count a failure to return a file, or to find room for its copy; raise the store's error
        if the store seems to be away."""
        self._failed += 1
        self._in_a_row += 1
        if isinstance(error, NoRoomError):
            self.count_answer()
        if self._in_a_row >= AWAY_AFTER:
            raise error
        self.errors[key] = error

    def raise_if_store_is_away(self) -> None:
        """Raise an error of the store if it failed for all files that a run tried."""
        if self.errors and not self._answered:
            raise next(iter(self.errors.values()))


def inspect_or_skip(
    say: Say, key: str, look: Callable[[], Inspection], named: bool, tally: UnreadableFiles
) -> Inspection | None:
    """Inspect one object; return None if it is left out.

    An object is left out if it may still be written, if the store fails to return it or there is no
    room for its copy (not if it was `named`), and if reading it is denied.
    """
    try:
        inspection = with_retries(look, tally)
    except UnstableFileError as error:
        tally.count_answer()
        if named:
            raise
        say(f"land: {error}; it is left to the next run")
        return None
    except FileDeniedError as error:
        tally.count_answer()
        tally.errors[key] = error
        say(f"land: {key} is left out: {error}")
        return None
    except TransientError as error:
        if named:
            raise
        tally.count_failure(key, error)
        say(f"land: {key} is left out: {error}")
        return None
    tally.count_answer()
    return inspection


def with_retries(look: Callable[[], Inspection], tally: UnreadableFiles) -> Inspection:
    """Try again if the store fails, since it may have broken off in the middle of the bytes."""
    worth_it = retry_if_exception_type(TransientError)
    again = Retrying(
        stop=lambda state: state.attempt_number >= tally.tries,
        wait=lambda state: pause(state.attempt_number),
        retry=worth_it & retry_if_not_exception_type(UnstableFileError),
        reraise=True,
    )
    return again(look)


def files_left_out(
    pipeline: str, unreadable: UnreadableFiles
) -> FilesLeftOutError | FilesUnreadError | None:
    """Return the error of a run that took only the files it could read; None if it read all."""
    if not unreadable.errors:
        return None
    errors = unreadable.errors
    message = (
        f"pipeline {pipeline}: {counted(len(errors), 'file')} that landed cannot be read or "
        f"loaded; every other file is taken:\n{listed_errors(errors)}\n"
        "The next run that may read them loads them, each at its own place. Or take them out of "
        "the landing folder"
    )
    if any(isinstance(error, FileDeniedError) for error in errors.values()):
        return FilesLeftOutError(message)
    return FilesUnreadError(message)


def listed_errors(errors: Mapping[str, Exception]) -> str:
    """Return one line for each of the first MOST_FILES_NAMED files, with its reason."""
    lines = [str(why) for _, why in sorted(errors.items())]
    more = len(lines) - MOST_FILES_NAMED
    return "\n".join(lines[:MOST_FILES_NAMED] + ([f"and {more} more"] if more > 0 else []))
