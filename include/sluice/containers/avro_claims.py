"""Lengths that a datum claims, against the limits of Java's Avro, which fastavro has not.

A walk over the bytes by the schema, which makes no value: a claim of items without bytes would take
any memory. Source: "Binary Encoding" of Avro's specification.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import fastavro

from sluice.bounds import MOST_AVRO_BYTES, MOST_AVRO_ITEMS

_Skip = Callable[[bytes, int], int]
"""The bytes and where a value begins → where it ends."""
_BITS: Final = 63


class Claims:
    """The limits of one schema's data; raises whatever fastavro does for a schema that is none."""

    def __init__(self, schema: Any) -> None:
        self._types: dict[str, _Skip] = {}
        self._empty_items = False
        self._datum = self._skip(fastavro.parse_schema(schema, {}, _write_hint=False))

    def check(self, records: int, body: bytes) -> None:
        """Raise ValueError or IndexError if one of a block's `records` claims too much.

        Most blocks are too small to hold so many items, and need no walk.
        """
        if len(body) <= MOST_AVRO_ITEMS and not self._empty_items:
            return
        at = 0
        for _ in range(records if self._datum is not _nothing else 0):
            at = self._datum(body, at)

    def _skip(self, kind: Any) -> _Skip:
        if isinstance(kind, list):
            return _union([self._skip(branch) for branch in kind])
        if isinstance(kind, str):
            return _PRIMITIVES.get(kind) or self._named(kind)
        match kind["type"]:
            case "record" | "error":
                return self._record(kind)
            case "fixed":
                return self._keep(kind, _fixed(kind["size"]))
            case "enum":
                return self._keep(kind, _whole)
            case "array":
                return self._items(self._skip(kind["items"]))
            case "map":
                return self._items(_sequence([_text, self._skip(kind["values"])]))
            case other:
                return self._skip(other)

    def _named(self, name: str) -> _Skip:
        """Return the type of this name, which may be one whose fields are just being read."""
        return self._types.get(name) or (lambda body, at: self._types[name](body, at))

    def _keep(self, kind: Any, skip: _Skip) -> _Skip:
        self._types[kind["name"]] = skip
        return skip

    def _record(self, kind: Any) -> _Skip:
        return self._keep(kind, _sequence([self._skip(field["type"]) for field in kind["fields"]]))

    def _items(self, item: _Skip) -> _Skip:
        self._empty_items |= item is _nothing
        return _collection(item)


def _nothing(body: bytes, at: int) -> int:
    return at


def _number(body: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag-encoded long, and where it ends."""
    value = shift = 0
    while shift <= _BITS:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueError("a number of more than 64 bits")


def _whole(body: bytes, at: int) -> int:
    return _number(body, at)[1]


def _text(body: bytes, at: int) -> int:
    length, at = _number(body, at)
    if not 0 <= length <= min(MOST_AVRO_BYTES, len(body) - at):
        raise ValueError(f"a text of {length} bytes")
    return at + length


def _fixed(size: int) -> _Skip:
    return (lambda _, at: at + size) if size else _nothing


def _sequence(parts: list[_Skip]) -> _Skip:
    filled = [part for part in parts if part is not _nothing]

    def skip(body: bytes, at: int) -> int:
        for part in filled:
            at = part(body, at)
        return at

    return skip if filled else _nothing


def _union(branches: list[_Skip]) -> _Skip:
    def skip(body: bytes, at: int) -> int:
        branch, at = _number(body, at)
        if branch < 0:
            raise ValueError(f"a branch {branch}")
        return branches[branch](body, at)

    return skip


def _collection(item: _Skip) -> _Skip:
    """An array or a map, in blocks of a count each; behind a negative one is the block's size."""

    def skip(body: bytes, at: int) -> int:
        total = 0
        while True:
            count, at = _number(body, at)
            if count < 0:
                count, at = -count, _whole(body, at)
            total += count
            if total > MOST_AVRO_ITEMS:
                raise ValueError(f"a collection of {total} items")
            if count == 0:
                return at
            for _ in range(count if item is not _nothing else 0):
                at = item(body, at)

    return skip


_PRIMITIVES: Final[dict[str, _Skip]] = {
    "null": _nothing, "boolean": _fixed(1), "int": _whole, "long": _whole, "float": _fixed(4),
    "double": _fixed(8), "bytes": _text, "string": _text,
}  # fmt: skip
