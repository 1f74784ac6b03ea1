"""Read dataclasses from JSON that another program wrote."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter

_T = TypeVar("_T")


def read_json(kind: type[_T], text: str) -> _T:
    """Read a dataclass; raises ValueError for another document.

    Keys with defaults may be absent and unknown keys are ignored, for an older or newer Sluice may
    have written it.
    """
    return TypeAdapter(kind).validate_json(text, strict=True)
