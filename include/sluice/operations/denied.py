"""Files that the store lists and does not hand out: what else has landed is loaded without them.

Nothing is recorded of them, so each run asks for them again, and the first one that may read them
takes them. Until then each run that was asked for them ends as an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from sluice.errors import FilesLeftOut

NAMED_AT_MOST: Final = 20

Denied: TypeAlias = dict[str, str]
"""Why a run could not read a file, by the file's key."""


def files_left_out(pipeline: str, denied: Mapping[str, str]) -> FilesLeftOut | None:
    """The error of a run that took what it could read; None where that was everything."""
    if not denied:
        return None
    return FilesLeftOut(
        f"pipeline {pipeline}: {len(denied)} files that landed cannot be read, and nothing is "
        f"loaded of them; every other file is taken:\n{in_lines(denied)}\n"
        "The next run that may read them loads them, each at its own place. Or take them out of "
        "the landing folder"
    )


def in_lines(denied: Mapping[str, str]) -> str:
    """A line for each of the first files, with its reason."""
    lines = [why for _, why in sorted(denied.items())]
    more = len(lines) - NAMED_AT_MOST
    return "\n".join(lines[:NAMED_AT_MOST] + ([f"and {more} more"] if more > 0 else []))
