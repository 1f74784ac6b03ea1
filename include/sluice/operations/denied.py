"""Files that the store lists and does not hand out: what else has landed is loaded without them.

Nothing is recorded of them, so each run asks for them again, and the first one that may read them
takes them. Until then each run that was asked for them ends as an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.catalog.patience import pause
from sluice.errors import FileDenied, FilesLeftOut, FilesUnread, NoRoom, TransientError, Unsettled
from sluice.landing.landed import Inspection
from sluice.operations.context import Say

NAMED_AT_MOST: Final = 20
TRIES: Final = 3
# Where so many files fail and none is read between them, it is the store, and not the files.
AWAY_AFTER: Final = 8


@dataclass
class Denied:
    """What a run could not read, and how the store answered it until now.

    `errors`: why a file could not be read, by its key. Threads count here without a lock: whether
    a store is away need not be told to the file.
    """

    errors: dict[str, FileDenied | TransientError] = field(default_factory=dict)
    _answered: bool = False
    _failed: int = 0
    _in_a_row: int = 0

    @property
    def tries(self) -> int:
        """How often to ask for a file: once, as soon as many have failed."""
        return TRIES if self._failed < AWAY_AFTER else 1

    def answer(self) -> None:
        """The store told of a file what there is to tell."""
        self._answered, self._in_a_row = True, 0

    def fail(self, key: str, error: TransientError) -> None:
        """The store failed to hand out a file, or there is no room for its copy; raises the store's
        error where it seems to be away."""
        self._failed += 1
        self._in_a_row += 1
        if isinstance(error, NoRoom):
            self.answer()
        if self._in_a_row >= AWAY_AFTER:
            raise error
        self.errors[key] = error

    def refuse_silence(self) -> None:
        """Raise an error of the store where it failed for all files that a run asked for."""
        if self.errors and not self._answered:
            raise next(iter(self.errors.values()))


def or_left_out(
    say: Say, key: str, look: Callable[[], Inspection], named: bool, denied: Denied | None
) -> Inspection | None:
    """What the look at one object tells; None for one that is left out.

    That is one that is not settled, that the store fails to hand out, or for whose copy there is no
    room, unless it was `named`; and one that is denied. Where there is no `denied` to tell, these
    raise.
    """
    asked = Denied() if denied is None else denied
    try:
        seen = _patiently(look, asked)
    except Unsettled as error:
        asked.answer()
        if named:
            raise
        say(f"land: {error}; it is left to the next run")
        return None
    except FileDenied as error:
        asked.answer()
        if denied is None:
            raise
        asked.errors[key] = error
        say(f"land: {key} is left out: {error}")
        return None
    except TransientError as error:
        if named or denied is None:
            raise
        asked.fail(key, error)
        say(f"land: {key} is left out: {error}")
        return None
    asked.answer()
    return seen


def _patiently(look: Callable[[], Inspection], asked: Denied) -> Inspection:
    """Look again where the store fails: it may have broken off in the middle of the bytes."""
    turn = 0
    while True:
        try:
            return look()
        except Unsettled:
            raise
        except TransientError:
            turn += 1
            if turn >= asked.tries:
                raise
            time.sleep(pause(turn))


def files_left_out(pipeline: str, denied: Denied) -> FilesLeftOut | FilesUnread | None:
    """The error of a run that took what it could read; None where that was everything."""
    if not denied.errors:
        return None
    told = (
        f"pipeline {pipeline}: {len(denied.errors)} files that landed cannot be read, and nothing "
        f"is loaded of them; every other file is taken:\n{listed_errors(denied.errors)}\n"
        "The next run that may read them loads them, each at its own place. Or take them out of "
        "the landing folder"
    )
    if any(isinstance(error, FileDenied) for error in denied.errors.values()):
        return FilesLeftOut(told)
    return FilesUnread(told)


def listed_errors(errors: Mapping[str, Exception]) -> str:
    """A line for each of the first files, with its reason."""
    lines = [str(why) for _, why in sorted(errors.items())]
    more = len(lines) - NAMED_AT_MOST
    return "\n".join(lines[:NAMED_AT_MOST] + ([f"and {more} more"] if more > 0 else []))
