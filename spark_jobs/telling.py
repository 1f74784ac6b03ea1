"""What a driver says on its way: on standard error, for standard output ends with its result."""

from __future__ import annotations

import sys

from sluice.shown import shown


def tell(text: str, layout: str = "") -> None:
    """Say a line at once. Names in it may be from files: no character of theirs gets further.

    `layout`: `sluice.shown.LINES` where the text is an error's and has lines of its own.
    """
    print(shown(text, layout), file=sys.stderr, flush=True)
