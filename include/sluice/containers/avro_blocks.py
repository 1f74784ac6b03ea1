"""Check that a block's bytes are records as Java's Avro reads them, within the limits set for it.

A walk over the bytes by the schema, which makes no value: a claim of items without bytes would take
any memory. fastavro is no judge: it takes numbers that are too long, negative symbols of an enum
and bytes behind the last record, at each of which Java's reader fails. Source: "Binary Encoding" of
Avro's specification, and `BinaryDecoder` and `DataFileStream` of Avro 1.12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import fastavro

from sluice.bounds import MOST_AVRO_BYTES, MOST_AVRO_ITEMS

_Skip = Callable[[bytes, int], int]
"""The bytes and where a value begins → where it ends."""
_SkipItems = Callable[[bytes, int, int], int]
"""The bytes, where items begin and how many → where they end."""
_LONG_BYTES: Final = 10
_INT_BYTES: Final = 5


class BlockCheck:
    """The check by one schema; raises whatever fastavro does for a schema that is none.

    `may_be_empty`: there are arrays whose items take no bytes.
    """

    def __init__(self, schema: Any) -> None:
        self.may_be_empty = False
        self._types: dict[str, _Skip] = {}
        self._empty = 0
        self._datum = self._skip(fastavro.parse_schema(schema, {}, _write_hint=False))

    def check(self, records: int, body: bytes) -> int:
        """Return how many items without bytes a block's `records` have.

        Raises ValueError or IndexError if one of them is damaged or claims too much, or if they are
        not the whole block.
        """
        at = self._empty = 0
        for _ in range(records if self._datum is not _nothing else 0):
            at = self._datum(body, at)
        if at != len(body):
            raise ValueError("bytes behind the last record")
        return self._empty

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
                return self._keep(kind, _enum(len(kind["symbols"])))
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
        self.may_be_empty |= item is _nothing
        return _collection(self._passed if item is _nothing else _each(item))

    def _passed(self, body: bytes, at: int, count: int) -> int:
        """Count items without bytes."""
        self._empty += count
        return at


def _nothing(body: bytes, at: int) -> int:
    return at


def _number(body: bytes, at: int, most: int = _LONG_BYTES) -> tuple[int, int]:
    """Return a zigzag-encoded number of at most so many bytes, and where it ends."""
    value = 0
    for shift in range(0, 7 * most, 7):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError(f"a number of more than {most} bytes")


def _whole(most: int) -> _Skip:
    def skip(body: bytes, at: int) -> int:
        for end in range(at, at + most):
            if body[end] < 0x80:
                return end + 1
        raise ValueError(f"a number of more than {most} bytes")

    return skip


def _within(body: bytes, at: int) -> tuple[int, int]:
    """Return where a value with a length before it begins and ends."""
    length, at = _number(body, at)
    if not 0 <= length <= min(MOST_AVRO_BYTES, len(body) - at):
        raise ValueError(f"a value of {length} bytes")
    return at, at + length


def _bytes(body: bytes, at: int) -> int:
    return _within(body, at)[1]


def _text(body: bytes, at: int) -> int:
    start, end = _within(body, at)
    str(body[start:end], "utf-8")
    return end


def _fixed(size: int) -> _Skip:
    def skip(body: bytes, at: int) -> int:
        if at + size > len(body):
            raise IndexError
        return at + size

    return skip if size else _nothing


def _enum(symbols: int) -> _Skip:
    def skip(body: bytes, at: int) -> int:
        return _index(body, at, symbols)[1]

    return skip


def _index(body: bytes, at: int, choices: int) -> tuple[int, int]:
    """Return the number of a symbol or a branch, and where it ends."""
    index, at = _number(body, at, _INT_BYTES)
    if not 0 <= index < choices:
        raise ValueError(f"{index} of {choices}")
    return index, at


def _sequence(parts: list[_Skip]) -> _Skip:
    filled = [part for part in parts if part is not _nothing]

    def skip(body: bytes, at: int) -> int:
        for part in filled:
            at = part(body, at)
        return at

    return skip if filled else _nothing


def _union(branches: list[_Skip]) -> _Skip:
    def skip(body: bytes, at: int) -> int:
        branch, at = _index(body, at, len(branches))
        return branches[branch](body, at)

    return skip


def _each(item: _Skip) -> _SkipItems:
    def skip(body: bytes, at: int, count: int) -> int:
        for _ in range(count):
            at = item(body, at)
        return at

    return skip


def _collection(items: _SkipItems) -> _Skip:
    """An array or a map, in blocks of a count each; behind a negative one is the block's size."""

    def skip(body: bytes, at: int) -> int:
        total = 0
        while True:
            count, at = _count(body, at)
            total += count
            if total > MOST_AVRO_ITEMS:
                raise ValueError(f"a collection of {total} items")
            if count == 0:
                return at
            at = items(body, at, count)

    return skip


def _count(body: bytes, at: int) -> tuple[int, int]:
    """Return the number of items of a collection's block; a negative one has the size behind it."""
    count, at = _number(body, at)
    return (-count, _number(body, at)[1]) if count < 0 else (count, at)


_PRIMITIVES: Final[dict[str, _Skip]] = {
    "null": _nothing, "boolean": _fixed(1), "int": _whole(_INT_BYTES),
    "long": _whole(_LONG_BYTES), "float": _fixed(4), "double": _fixed(8), "bytes": _bytes,
    "string": _text,
}  # fmt: skip
