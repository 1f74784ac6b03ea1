"""Numbers of things in messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: 1 file, 2 files, 3,000 batches."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"


def are(number: int) -> str:
    """Return the verb of that many things: 1 is, 2 are."""
    return "is" if number == 1 else "are"
