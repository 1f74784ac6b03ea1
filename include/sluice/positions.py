"""Positions: the source's order as text that sorts bytewise in that order.

A position is `epoch.kind.component…role`: the epoch in four digits; the kind (full load, then
arrival, then the source's own order); the components, each a number written as its length in two
digits and its digits (so that 9 < 10 holds as text), or a natural-sort key; and the role of the
half, old or new.
"""

from __future__ import annotations

import re
from typing import Final

KIND_FULL_LOAD: Final = "0"
KIND_ARRIVAL: Final = "1"
KIND_SOURCE: Final = "2"
KIND_AT: Final = 6
"""Index of the kind in a position, counted from 1 as in SQL."""
ROLE_OLD: Final = "0"
ROLE_NEW: Final = "1"
HALF_MARK: Final = "~"
"""Suffix for the half of an update that is a separate record; the delete of a Debezium tombstone
has the same sign (`spark_jobs/formats/debezium/tombstones.py`)."""

_DIGITS: Final = re.compile(r"[0-9]+")
# In a natural-sort key at least twenty digits follow this prefix.
_GENERATION: Final = re.compile(r"\.20[1-9][0-9]{1,9}\Z")
_CHANGE: Final = re.compile(r"\.30[1-9]([0-9]{1,9})\Z")


def encode_number(value: int | str) -> str:
    """Encode a non-negative integer of up to 99 digits so that text order is number order."""
    text = str(value)
    digits = text.lstrip("0") or "0"
    if not _DIGITS.fullmatch(text) or len(digits) > 99:
        raise ValueError(f"a position component must be 1 to 99 digits, got {value!r}")
    return f"{len(digits):02d}{digits}"


def natural_key(text: str) -> str:
    """Return a key with every run of digits encoded by `encode_number`: `part-9` sorts before
    `part-10`.

    Different texts have different keys. What the encoding drops of a run (leading zeros, and all
    but the last 99 digits) follows at the end behind `.00`, which begins no number, so it only
    decides between texts that are equal otherwise: `part-01` comes just before `part-1`.
    """
    key = _DIGITS.sub(lambda run: encode_number(run.group()[-99:]), text)
    left_out = "".join(f",{_left_out(run)}" for run in _DIGITS.findall(text)).rstrip(",")
    return f"{key}.00{left_out}" if left_out else key


def arrival_of(key: str) -> str:
    """Return an object's place in the order of arrival; its records' places follow after a dot.

    It ends in `.00`, which begins no number, so all of `x` is below all of `x.1`: a block's number,
    which depends on how Spark splits files, is no part of a name. Older manifests lack it.
    """
    return f"{natural_key(key)}.00"


def _left_out(digits: str) -> str:
    kept = digits[-99:].lstrip("0") or "0"
    return digits[: len(digits) - len(kept)]


def arrival_again(arrival: str, generation: int) -> str:
    """Return the arrival of a file that is decoded again: above its earlier places, below the next
    file.

    A record's place in Spark's reading depends on the batch's other files, so records cannot be
    matched one by one with an earlier reading; all of the earlier generation ranks below this one.
    Where `.00` is lacking, as in older manifests, a block's number may follow, which is below `.2`.
    """
    first = _GENERATION.sub("", arrival)
    return f"{first}.2{encode_number(generation)}"


def arrival_changed(before: str) -> str:
    """Return the arrival of an object that replaces the one that arrived as `before`: above all its
    places in any generation, below the next file."""
    match = _CHANGE.search(before)
    first, number = (before[: match.start()], int(match[1])) if match else (before, 0)
    return f"{first}.3{encode_number(number + 1)}"


def opening_position(epoch: int) -> str:
    """Return where an epoch's full load begins: above everything older, below
    everything else in it."""
    return f"{epoch_prefix(epoch)}.{KIND_FULL_LOAD}"


def epoch_prefix(epoch: int) -> str:
    """Return the leading component, which an operator raises when the source's
    positions restart."""
    return f"{epoch:04d}"
