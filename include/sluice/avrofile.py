"""Avro object containers: the writer's schema, and whether every block is whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import fastavro

from sluice.bounds import MEBIBYTE

MAGIC: Final = b"Obj\x01"
TRUNCATED: Final = "truncated_avro"
DAMAGED: Final = "damaged_avro"
BAD_SCHEMA: Final = "bad_avro_schema"
MOST_HEADER_BYTES: Final = 16 * MEBIBYTE

_SYNC_BYTES: Final = 16
_HEADER: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC_BYTES}},
        ],
    }
)


@dataclass(frozen=True)
class AvroFile:
    """`whole` bytes from the start are header and whole blocks; `damage` says why no more."""

    schema: str = ""
    whole: int = 0
    damage: str = ""


class _Bytes:
    """Chunks as a stream that knows its place; raises EOFError at the end.

    `header_left`: bytes that the header may still take, for a length in it may be any number.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks = chunks
        self.waiting = b""
        self.at = 0
        self.passed = 0
        self.header_left: int | None = MOST_HEADER_BYTES

    @property
    def place(self) -> int:
        return self.passed + self.at

    def read(self, size: int) -> bytes:
        if self.header_left is not None:
            self.header_left -= max(size, 0)
            if self.header_left < 0:
                raise ValueError(f"a header of more than {MOST_HEADER_BYTES} bytes")
        parts = []
        while size > 0:
            part = self.waiting[self.at : self.at + self._some(size)]
            self.at += len(part)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        while size > 0:
            step = self._some(size)
            self.at += step
            size -= step

    def _some(self, size: int) -> int:
        """How many of `size` bytes are waiting, at least one."""
        if self.at_end():
            raise EOFError
        return min(size, len(self.waiting) - self.at)

    def at_end(self) -> bool:
        while self.at == len(self.waiting):
            chunk = next(self.chunks, None)
            if chunk is None:
                return True
            self.passed += self.at
            self.waiting, self.at = chunk, 0
        return False

    def number(self) -> int:
        """Avro's long: zigzag, seven bits a byte."""
        value = shift = 0
        while True:
            byte = self.read(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise ValueError("a number of more than 64 bits")


def walk(chunks: Iterator[bytes]) -> AvroFile:
    """Read a container to its end without decoding it."""
    stream = _Bytes(chunks)
    try:
        header = cast(Any, fastavro.schemaless_reader(cast(Any, stream), _HEADER, None))
        schema = header["meta"]["avro.schema"].decode()
    except (EOFError, ValueError, KeyError, IndexError) as error:
        return AvroFile(damage=TRUNCATED if isinstance(error, EOFError) else DAMAGED)
    stream.header_left = None
    whole, damage = _walk_blocks(stream, header["sync"])
    return AvroFile(schema, whole, damage)


def _walk_blocks(stream: _Bytes, sync: bytes) -> tuple[int, str]:
    whole = stream.place
    while not stream.at_end():
        try:
            records, size = stream.number(), stream.number()
            if records < 0 or size < 0:
                return whole, DAMAGED
            stream.skip(size)
            if stream.read(_SYNC_BYTES) != sync:
                return whole, DAMAGED
        except EOFError:
            return whole, TRUNCATED
        except ValueError:
            return whole, DAMAGED
        whole = stream.place
    return whole, ""
