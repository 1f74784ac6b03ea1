"""Check Avro schemas before Spark does: one that cannot be read would stop its whole batch."""

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
    """Whether a schema is JSON that defines each type before its use, neither too large nor deep.

    Fields, symbols and branches of a union must be unique, as Avro's own reader requires. A named
    type counts at each use, because readers expand it there.
    """
    if len(schema) > MOST_CHARACTERS:
        return False
    try:
        extent = _Types().extent(json.loads(schema), "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
    return extent.types <= MOST_TYPES and extent.depth <= MOST_DEPTH


@dataclass(frozen=True)
class _Extent:
    """How many types a type consists of, including itself, and how deeply they nest."""

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
    """The types defined so far, by full name and by bare name."""

    named: dict[str, _Extent] = field(default_factory=dict)

    def extent(self, node: Any, namespace: str) -> _Extent:
        """Return the extent of a type; raise an error that `is_sound` takes for a wrong schema."""
        if isinstance(node, list):
            _once(self._branch(branch, namespace) for branch in node)
            return _around(self.extent(branch, namespace) for branch in node)
        if isinstance(node, str):
            return _Extent() if node in PRIMITIVES else self._named(node, namespace)
        kind = node["type"]
        if not isinstance(kind, str):
            return self.extent(kind, namespace)
        if kind in _INNER:
            return _around([self.extent(node[_INNER[kind]], namespace)])
        if kind in _NAMED:
            return self._defined(node, namespace)
        return self.extent(kind, namespace)

    def _branch(self, node: Any, namespace: str) -> str:
        """Return what must be unique in a union: a branch's kind, or its full name."""
        if isinstance(node, list):
            raise ValueError("a union within a union")
        kind = node if isinstance(node, str) else node["type"]
        if kind in _NAMED:
            return full_name(node, namespace)
        is_name = isinstance(kind, str) and kind not in PRIMITIVES and kind not in _INNER
        return f"{namespace}.{kind}" if is_name and "." not in kind else str(kind)

    def _named(self, name: str, namespace: str) -> _Extent:
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
        extent = _around(self.extent(one["type"], namespace) for one in fields)
        # By the bare name too: some writers omit the namespace where they use the type.
        self.named[name] = self.named[f"{namespace}.{name}"] = extent
        return extent


def _once(values: Iterable[Any]) -> None:
    listed = list(values)
    if len(set(listed)) < len(listed):
        raise ValueError("one of several comes twice")


def full_name(node: dict[str, Any], namespace: str) -> str:
    """Return the full name of a type that is defined within `namespace`."""
    name: str = node["name"]
    if "." in name:
        return name
    namespace = node.get("namespace", namespace)
    return f"{namespace}.{name}" if namespace else name
