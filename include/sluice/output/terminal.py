"""Text of unknown origin on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from sluice.escaping import shown


def for_terminal(text: str, keep: str = "") -> str:
    """Return text without control characters or markup, for a terminal; `keep` as for `shown`."""
    return escape(shown(text, keep))


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print text as one line of any length, whatever is in it."""
    console.print(for_terminal(text), style=style, highlight=False, soft_wrap=True)
