"""Lists of columns in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST: Final = 30


def shown_columns(columns: Sequence[str]) -> str:
    """Return the first columns, and how many more there are: a table may have thousands."""
    more = [f"{len(columns) - _MOST} more"] if len(columns) > _MOST else []
    return ", ".join([*columns[:_MOST], *more])
