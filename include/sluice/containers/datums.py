"""Bare Avro datums: records without a header, as in Kafka messages.

Landing copies them undecoded into an object container with a record of bytes for each datum. So
Spark reads them like any container, and each keeps its place and its own bytes.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import IO, Final

import fastavro

from sluice.config.format_options import Framing
from sluice.containers.compression import DamageError
from sluice.containers.json_documents import JSON_BEGINS, TOO_LARGE, UTF16_MARKS, Rejected
from sluice.manifest import JSON_LINES, SourceFile

ONE_PER_FILE: Final[Framing] = "one_per_file"
TRUNCATED: Final = "truncated_datum"

COLUMN: Final = "datum"
_SCHEMA: Final = {
    "type": "record",
    "name": "sluice.Datum",
    "fields": [{"name": COLUMN, "type": "bytes"}],
}
SCHEMA: Final = json.dumps(_SCHEMA)
_PARSED: Final = fastavro.parse_schema(_SCHEMA)
_LENGTH_BYTES: Final = 4
_SYNC_BYTES: Final = 16
_TEXT_BEGINS: Final = JSON_BEGINS + UTF16_MARKS
"""No datum begins so: as a version it would be far below zero, as a length above a gigabyte."""


def is_container(file: SourceFile) -> bool:
    """Whether a file holds typed records that Spark reads itself: no lines, no bare datums."""
    return file.container != JSON_LINES and file.avro_schema != SCHEMA


def are_in(head: bytes) -> bool:
    """Whether a file that is no container holds datums: it has zero bytes and begins unlike text.

    Damaged text may have zero bytes too.
    """
    return b"\0" in head and not head.removeprefix(codecs.BOM_UTF8).startswith(_TEXT_BEGINS)


def split(chunks: Iterator[bytes], framing: str, limit: int) -> Iterator[bytes | Rejected]:
    """Yield a file's datums in order; a truncated one or one above `limit` as Rejected."""
    return _whole(chunks, limit) if framing == ONE_PER_FILE else _prefixed(chunks, limit)


def _whole(chunks: Iterator[bytes], limit: int) -> Iterator[bytes | Rejected]:
    content, damage = _take(chunks, b"", limit + 1)
    if damage or len(content) > limit:
        yield Rejected(damage or TOO_LARGE, content)
    else:
        yield content


def _prefixed(chunks: Iterator[bytes], limit: int) -> Iterator[bytes | Rejected]:
    """Yield datums that each follow a length of four bytes, big-endian; a wrong one is the end."""
    waiting, at, damage = b"", 0, ""
    while True:
        if len(waiting) - at < _LENGTH_BYTES:
            (waiting, damage), at = _take(chunks, waiting[at:], _LENGTH_BYTES), 0
        if not (waiting or damage):
            return
        size = int.from_bytes(waiting[at : at + _LENGTH_BYTES], "big")
        length = _LENGTH_BYTES + min(size, limit)
        if not damage and len(waiting) - at < length:
            (waiting, damage), at = _take(chunks, waiting[at:], length), 0
        if damage or size > limit or len(waiting) - at < length:
            large = size > limit and len(waiting) - at >= _LENGTH_BYTES
            reason = damage or (TOO_LARGE if large else TRUNCATED)
            yield Rejected(reason, waiting[at:])
            return
        yield waiting[at + _LENGTH_BYTES : at + length]
        at += length


def _take(chunks: Iterator[bytes], waiting: bytes, size: int) -> tuple[bytes, str]:
    """Return at least `size` bytes if there are so many, and the damage that ends them."""
    parts, length = [waiting], len(waiting)
    try:
        while length < size and (chunk := next(chunks, None)) is not None:
            parts.append(chunk)
            length += len(chunk)
    except DamageError as damage:
        return b"".join(parts), damage.reason
    return b"".join(parts), ""


def write_container(out: IO[bytes], values: Iterable[bytes], identity: bytes) -> None:
    """Write datums as an object container; equal datums of one file give equal bytes."""
    records = ({COLUMN: datum} for datum in values)
    fastavro.writer(out, _PARSED, records, sync_marker=identity[:_SYNC_BYTES])
