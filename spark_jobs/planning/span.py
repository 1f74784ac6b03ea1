"""How far a batch's changes of one table reach."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """The highest position of a batch's changes in one table, and one that none is below.

    None: no changes.
    """

    lowest: str | None = None
    highest: str | None = None
