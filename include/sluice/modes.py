"""The modes of a table: which further tables are made from its events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator

from sluice.names import SOFT_DELETE_METADATA, TARGET_METADATA

CURRENT: Final = "current"
HISTORY: Final = "history"
SOFT_DELETE: Final = "soft_delete"
APPEND: Final = "append"

# Without a key it is unknown which rows are versions of one another.
_KEYED: Final = frozenset({HISTORY, SOFT_DELETE})
_OF_TARGET: Final = frozenset({CURRENT, SOFT_DELETE})


def needs_key(modes: Iterable[str]) -> list[str]:
    """Return those modes that a table without a key cannot have."""
    return sorted(_KEYED.intersection(modes))


def target_metadata(modes: Iterable[str]) -> tuple[str, ...]:
    """Return Sluice's own columns of a target."""
    return (*TARGET_METADATA, *(SOFT_DELETE_METADATA if SOFT_DELETE in modes else ()))


def _modes(value: list[str]) -> list[str]:
    if len(set(value)) < len(value) or len(_OF_TARGET.intersection(value)) != 1:
        raise ValueError("each mode once, and either current or soft_delete among them")
    return value


Modes = Annotated[
    list[Literal["current", "history", "soft_delete", "append"]], AfterValidator(_modes)
]
