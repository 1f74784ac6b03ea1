"""The range of positions of a batch's changes in one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A lower bound and the highest position of a batch's changes in one table; None
    without changes."""

    lowest: str | None = None
    highest: str | None = None
