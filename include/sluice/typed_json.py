"""Dataclasses as JSON, which another program may have written."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

from pydantic import TypeAdapter


@dataclass(frozen=True)
class TypedJson:
    """A dataclass that a driver returns as one line of JSON."""

    def to_json(self) -> str:
        """Return the JSON document as one line."""
        return json.dumps(self.as_dict(), sort_keys=True)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON document as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raises ValueError for another document.

        Keys with defaults may be absent and unknown keys are ignored, for an older or newer Sluice
        may have written it.
        """
        return TypeAdapter(cls).validate_json(text, strict=True)
