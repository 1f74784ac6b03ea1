"""Positions: the source's own order as text that sorts, byte by byte, as the source orders.

A position is `epoch.kind.component…role`: the epoch in four digits; the kind (full load, then
arrival, then the source's own order); each component a number written as its length in two
digits and its digits (so 9 < 10 holds as text), or a natural-sort key; the role of the half.
"""

from __future__ import annotations

import re
from typing import Final

KIND_FULL_LOAD: Final = "0"
KIND_ARRIVAL: Final = "1"
KIND_SOURCE: Final = "2"
KIND_AT: Final = 6
"""Which character of a position is its kind, counted from 1 as SQL does."""
ROLE_OLD: Final = "0"
ROLE_NEW: Final = "1"
HALF_MARK: Final = "~"
"""Stands behind the number of an update's half that is a record of its own."""

_DIGITS: Final = re.compile(r"[0-9]+")
# In a natural-sort key twenty digits follow such a beginning, or more.
_GENERATION: Final = re.compile(r"\.20[1-9][0-9]{1,9}\Z")
_CHANGE: Final = re.compile(r"\.30[1-9]([0-9]{1,9})\Z")


def encode_number(value: int | str) -> str:
    """Write a non-negative integer of up to 99 digits so that text order is number order."""
    text = str(value)
    digits = text.lstrip("0") or "0"
    if not _DIGITS.fullmatch(text) or len(digits) > 99:
        raise ValueError(f"a position component must be 1 to 99 digits, got {value!r}")
    return f"{len(digits):02d}{digits}"


def natural_key(text: str) -> str:
    """Rewrite every run of digits by `encode_number`: `part-9` sorts before `part-10`.

    No two texts have one key. What the numbers leave out of their runs (zeros in front, and what
    stands before the last 99 digits) follows at the end, behind `.00`, with which no number begins.
    So it tells apart only what is alike without it: `part-01` comes just before `part-1`. A text
    of which nothing is left out has nothing there.
    """
    key = _DIGITS.sub(lambda run: encode_number(run.group()[-99:]), text)
    left_out = "".join(f",{_left_out(run)}" for run in _DIGITS.findall(text)).rstrip(",")
    return f"{key}.00{left_out}" if left_out else key


def arrival_of(key: str) -> str:
    """An object's place in the order of arrival; its records' places follow behind a dot.

    It ends in `.00`, with which no number begins, so that all of `x` is below all of `x.1`: the
    number of a block, of which files have as many as Spark splits them in, is no part of a name.
    Earlier releases gave the natural key alone, and what they loaded keeps that, in its manifest.
    """
    return f"{natural_key(key)}.00"


def _left_out(digits: str) -> str:
    kept = digits[-99:].lstrip("0") or "0"
    return digits[: len(digits) - len(kept)]


def arrival_again(arrival: str, generation: int) -> str:
    """The arrival of a file that is decoded again: above all that it gave before, below the next.

    Where a record stands in Spark's reading depends on the other files of the batch, so records
    read again cannot be compared one by one with those of the first reading. Before, a block's
    number followed here, which begins with 0 or 1. An earlier generation gives way to this one.
    """
    first = _GENERATION.sub("", arrival)
    return f"{first}.2{encode_number(generation)}" if generation else first


def arrival_changed(before: str) -> str:
    """The arrival of an object that takes the place of the one that arrived as `before`: above all
    that that one gave, however often it was decoded, below the next file."""
    found = _CHANGE.search(before)
    first, number = (before[: found.start()], int(found[1])) if found else (before, 0)
    return f"{first}.3{encode_number(number + 1)}"


def opening_position(epoch: int) -> str:
    """Below all that an epoch can bring, above all that is older: where its full load begins."""
    return f"{epoch_prefix(epoch)}.{KIND_FULL_LOAD}"


def epoch_prefix(epoch: int) -> str:
    """The leading component: an operator raises it when the source starts counting anew."""
    return f"{epoch:04d}"
