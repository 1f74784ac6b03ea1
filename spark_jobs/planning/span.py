"""The range of positions of a batch's changes in one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """The highest position of a batch's changes in one table, and a lower bound of all.

    None without changes.
    """

    lowest: str | None = None
    highest: str | None = None
