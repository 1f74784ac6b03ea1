"""Whether an Avro schema can be read: one file's that cannot would stop its whole batch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from sluice.bounds import MEBIBYTE

MOST_CHARACTERS: Final = MEBIBYTE
MOST_TYPES: Final = 100_000
MOST_DEPTH: Final = 100

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "string", "bytes")
)
_NAMED: Final = frozenset(("record", "error", "enum", "fixed"))
_INNER: Final = {"array": "items", "map": "values"}


def is_sound(schema: str) -> bool:
    """True for JSON whose types are all defined before they are used, and not too many or deep.

    And for what Avro's own reader takes: fields, symbols and the branches of a union once each.
    Named types count wherever they are used, for they are put in there.
    """
    if len(schema) > MOST_CHARACTERS:
        return False
    try:
        found = _Types().extent(json.loads(schema), "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
    return found.types <= MOST_TYPES and found.depth <= MOST_DEPTH


@dataclass(frozen=True)
class _Extent:
    """How many types one is made of, itself among them, and how deep they lie in it."""

    types: int = 1
    depth: int = 1


def _around(parts: Iterable[_Extent]) -> _Extent:
    types = depth = 1
    for part in parts:
        types += part.types
        depth = max(depth, part.depth + 1)
    return _Extent(types, depth)


@dataclass
class _Types:
    """The types that are defined so far, by full name and by name alone."""

    named: dict[str, _Extent] = field(default_factory=dict)

    def extent(self, node: Any, namespace: str) -> _Extent:
        """Of one type; raises one of the errors that `is_sound` takes for a wrong schema."""
        if isinstance(node, list):
            _once(self._branch(branch, namespace) for branch in node)
            return _around(self.extent(branch, namespace) for branch in node)
        if isinstance(node, str):
            return _Extent() if node in PRIMITIVES else self._known(node, namespace)
        kind = node["type"]
        if not isinstance(kind, str):
            return self.extent(kind, namespace)
        if kind in _INNER:
            return _around([self.extent(node[_INNER[kind]], namespace)])
        if kind in _NAMED:
            return self._defined(node, namespace)
        return self.extent(kind, namespace)

    def _branch(self, node: Any, namespace: str) -> str:
        """What tells a branch of a union from the others: its kind, or its name."""
        if isinstance(node, list):
            raise ValueError("a union within a union")
        kind = node if isinstance(node, str) else node["type"]
        if kind in _NAMED:
            return full_name(node, namespace)
        known = isinstance(kind, str) and kind not in PRIMITIVES and kind not in _INNER
        return f"{namespace}.{kind}" if known and "." not in kind else str(kind)

    def _known(self, name: str, namespace: str) -> _Extent:
        full = f"{namespace}.{name}"
        return self.named[full if full in self.named else name]

    def _defined(self, node: dict[str, Any], namespace: str) -> _Extent:
        namespace, _, name = full_name(node, namespace).rpartition(".")
        fields = node["fields"] if node["type"] in ("record", "error") else []
        _once(one["name"].encode() for one in fields)
        if node["type"] == "enum":
            _once(node["symbols"])
        if node["type"] == "fixed" and not node["size"] >= 0:
            raise ValueError("a negative size")
        found = _around(self.extent(one["type"], namespace) for one in fields)
        # The name alone too: some writers leave the namespace away where they use the type.
        self.named[name] = self.named[f"{namespace}.{name}"] = found
        return found


def _once(values: Iterable[Any]) -> None:
    listed = list(values)
    if len(set(listed)) < len(listed):
        raise ValueError("one of several comes twice")


def full_name(node: dict[str, Any], namespace: str) -> str:
    """The name of a type that is defined within a namespace."""
    name: str = node["name"]
    if "." in name:
        return name
    namespace = node.get("namespace", namespace)
    return f"{namespace}.{name}" if namespace else name
