"""Avro object containers: read the writer's schema and check that every block is whole."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import fastavro

from sluice.bounds import MEBIBYTE, Bounds
from sluice.containers.avro_blocks import BlockCheck
from sluice.containers.avro_codecs import PACKED, unpacked
from sluice.containers.byte_stream import ByteStream, Stretch
from sluice.containers.compression import TOO_MANY_ROWS
from sluice.containers.decompression_limits import DecompressionGuard
from sluice.containers.rejects import RAW_BYTES, RAW_BYTES_OF_A_FILE, SHORT_RAW_BYTES

MAGIC: Final = b"Obj\x01"
TRUNCATED: Final = "truncated_avro"
DAMAGED: Final = "damaged_avro"
BAD_SCHEMA: Final = "bad_avro_schema"
BAD_CODEC: Final = "unknown_avro_codec"

MOST_DECODED_BYTES: Final = 256 * MEBIBYTE
# Two numbers of 64 bits, seven bits in each byte.
MOST_FRAME_BYTES: Final = 20
# A longer block's sync marker is searched for instead of buffering as much as its size claims.
_MOST_AHEAD: Final = 16 * MEBIBYTE
# After more of them in a file the rest of it is not read.
MOST_BAD_FRAMES: Final = 256

_PLAIN: Final = b"null"
_ARRAY: Final = b"array"
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
class BadBlock:
    """A block that cannot be read: its place in the file, its first bytes, and the reason."""

    start: int
    end: int
    raw: bytes
    reason: str = DAMAGED


@dataclass(frozen=True)
class AvroFile:
    """The result of `walk` for a container.

    `whole`: bytes of the header and the whole blocks without the `bad` ones; `damage`: why the file
    has no more of them; `supported`: whether Spark supports the codec.
    """

    schema: str = ""
    whole: int = 0
    damage: str = ""
    bad: tuple[BadBlock, ...] = ()
    supported: bool = True


def walk(chunks: Iterator[bytes], thorough: bool, bounds: Bounds) -> AvroFile:
    """Read a container to its end; decode its blocks only if `thorough`.

    A block that decompresses to more than `bounds` allow is bad. Raises DamageError, not trusted,
    if all blocks together do.
    """
    stream = ByteStream(chunks)
    try:
        header = cast(Any, fastavro.schemaless_reader(cast(Any, stream), _HEADER, None))
        schema = header["meta"]["avro.schema"].decode()
    except (EOFError, ValueError, KeyError, IndexError) as error:
        return AvroFile(damage=TRUNCATED if isinstance(error, EOFError) else DAMAGED)
    stream.header_left = None
    supported = _codec(header) in (_PLAIN, *PACKED)
    decoding = _decoder(header, thorough, bounds) if supported else None
    unfolding = DecompressionGuard(_codec(header), bounds)
    whole, damage, bad = _walk_blocks(stream, header["sync"], decoding, unfolding)
    bad = sorted([*bad, *(decoding.bad if decoding else [])], key=lambda block: block.start)
    return AvroFile(
        schema, whole - sum(b.end - b.start for b in bad), damage, tuple(bad), supported
    )


def without(chunks: Iterator[bytes], bad: Sequence[BadBlock]) -> Iterator[bytes]:
    """Yield a file's bytes without those of bad blocks."""
    at = 0
    for chunk in chunks:
        kept = at
        for block in bad:
            first, last = max(block.start, at), min(block.end, at + len(chunk))
            if first < last:
                yield chunk[kept - at : first - at]
                kept = last
        yield chunk[kept - at :]
        at += len(chunk)


class _BlockDecoder:
    """Checks the records of each block; `bad` collects those with damage.

    Items without bytes count as rows, see `Bounds`; a block that has too many does not count.
    """

    def __init__(self, codec: bytes, check: BlockCheck | None, bounds: Bounds) -> None:
        self._codec = codec
        self._check = check
        self._bounds = bounds
        self._empty_items = 0
        self._raw_bytes = 0
        self.bad: list[BadBlock] = []

    def decode(self, start: int, end: int, records: int, body: bytes, sync: bytes) -> None:
        """Check the block from `start` to `end` of the file."""
        try:
            reason = self._damage(end, records, unpacked(self._codec, body, MOST_DECODED_BYTES))
        except Exception:  # a decompressor may raise anything for damaged bytes
            reason = DAMAGED
        if reason:
            most = RAW_BYTES if self._raw_bytes < RAW_BYTES_OF_A_FILE else SHORT_RAW_BYTES
            raw = (_zigzag(records) + _zigzag(len(body)) + body[:most] + sync)[:most]
            self._raw_bytes += len(raw)
            self.bad.append(BadBlock(start, end, raw, reason))

    def _damage(self, end: int, records: int, plain: bytes) -> str:
        """Return why the block is bad, or ''; raises if its bytes do not fit the schema."""
        if self._check is None:
            return DAMAGED
        items = self._empty_items + self._check.check(records, plain)
        if self._bounds.has_too_many_rows(end, items):
            return TOO_MANY_ROWS
        self._empty_items = items
        return ""


def _decoder(header: Any, thorough: bool, bounds: Bounds) -> _BlockDecoder | None:
    """Return what checks the blocks of a file; None if that is not to be done.

    It is done in any case if arrays may claim items that take no bytes, and so no end of time.
    """
    schema = header["meta"]["avro.schema"]
    check = _block_check(schema) if thorough or _ARRAY in schema else None
    if not thorough and not (check and check.may_be_empty):
        return None
    return _BlockDecoder(_codec(header), check, bounds)


def _block_check(schema: bytes) -> BlockCheck | None:
    """Return the check by a schema; None if it is none."""

    def without_logical_types(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # fastavro refuses some that Spark ignores.
        return {name: value for name, value in pairs if name != "logicalType"}

    try:
        return BlockCheck(json.loads(schema, object_pairs_hook=without_logical_types))
    except Exception:  # a parser may raise anything for what is no schema
        return None


def _codec(header: Any) -> bytes:
    codec: bytes = header["meta"].get("avro.codec", _PLAIN)
    return codec


def _zigzag(value: int) -> bytes:
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, "long", value)
    return encoded.getvalue()


def _walk_blocks(
    stream: ByteStream, sync: bytes, decoding: _BlockDecoder | None, unfolding: DecompressionGuard
) -> tuple[int, str, list[BadBlock]]:
    """Return where the whole blocks end, why no more follow, and the bad ones between them.

    Goes by block sizes as long as they are sound, else from sync marker to sync marker.
    """
    start, bad = stream.place, list[BadBlock]()
    most = max(MOST_DECODED_BYTES if decoding is not None else 0, unfolding.wants)
    keep = max(most + MOST_FRAME_BYTES, RAW_BYTES)
    while not stream.at_end():
        stretch = _block_ahead(stream, sync, keep) or stream.until(sync, keep)
        frame, end = _frame(stretch), stream.place
        body = stretch.raw[frame.body_at : frame.body_at + min(frame.size, most)]
        reason = frame.damage or unfolding.add(frame.records, body, frame.size, end)
        if not stretch.ended or (reason and len(bad) == MOST_BAD_FRAMES):
            return start, reason, bad
        if reason:
            bad.append(BadBlock(start, end, stretch.raw[:RAW_BYTES], reason))
        elif decoding is not None and frame.size <= MOST_DECODED_BYTES:
            decoding.decode(start, end, frame.records, body, sync)
        start = end
    return start, "", bad


def _block_ahead(stream: ByteStream, sync: bytes, keep: int) -> Stretch | None:
    """Return the next block if the marker is where its size says: a body may hold one too."""
    head = ByteStream(iter([stream.ahead(MOST_FRAME_BYTES)]))
    try:
        _, size = head.number(), head.number()
    except (EOFError, ValueError):
        return None
    length = head.at + size + _SYNC_BYTES
    if size < 0 or length > _MOST_AHEAD:
        return None
    block = stream.ahead(length)
    if len(block) < length or not block.endswith(sync):
        return None
    stream.at += length
    return Stretch(block[:keep], length, ended=True)


@dataclass(frozen=True)
class _Frame:
    """The numbers before a block's body, and why they are wrong if they are."""

    damage: str
    records: int = 0
    size: int = 0
    body_at: int = 0


def _frame(stretch: Stretch) -> _Frame:
    head = ByteStream(iter([stretch.raw[:MOST_FRAME_BYTES]]))
    try:
        records, size = head.number(), head.number()
    except (EOFError, ValueError) as error:
        cut = isinstance(error, EOFError) and not stretch.ended
        return _Frame(TRUNCATED if cut else DAMAGED)
    length = head.at + size + _SYNC_BYTES
    if records < 0 or size < 0:
        return _Frame(DAMAGED)
    if stretch.length < length and not stretch.ended:
        return _Frame(TRUNCATED)
    whole = stretch.ended and stretch.length == length
    return _Frame("" if whole else DAMAGED, records, size, head.at)
