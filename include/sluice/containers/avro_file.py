"""Avro object containers: the writer's schema, and whether every block is whole."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import fastavro
import pyarrow as pa
import zstandard

from sluice.bounds import DEFAULT, MEBIBYTE, Bounds
from sluice.containers.rejects import RAW_BYTES
from sluice.containers.unfolding import Unfolding

MAGIC: Final = b"Obj\x01"
TRUNCATED: Final = "truncated_avro"
DAMAGED: Final = "damaged_avro"
BAD_SCHEMA: Final = "bad_avro_schema"
BAD_CODEC: Final = "unknown_avro_codec"
MOST_HEADER_BYTES: Final = 16 * MEBIBYTE

MOST_DECODED_BYTES: Final = 256 * MEBIBYTE
# Two numbers of 64 bits, seven of them in each byte.
MOST_FRAME_BYTES: Final = 20
# The marker of a longer block is searched for: its size may be anything, and this much waits.
_MOST_AHEAD: Final = 16 * MEBIBYTE
# More in one file, and the rest of it is not looked at.
MOST_BAD_FRAMES: Final = 256

_SNAPPY: Final = b"snappy"
_ZSTANDARD: Final = b"zstandard"
_DEFLATE: Final = b"deflate"
_BZIP2: Final = b"bzip2"
_XZ: Final = b"xz"
_CODECS: Final = (b"null", _DEFLATE, _BZIP2, _XZ, _SNAPPY, _ZSTANDARD)
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
    """The bytes from `start` to `end` of a file, of which `raw` are the first: no records, for a
    `reason`."""

    start: int
    end: int
    raw: bytes
    reason: str = DAMAGED


@dataclass(frozen=True)
class AvroFile:
    """`whole` bytes are header and whole blocks, the `bad` ones not counted; `damage` says why no
    more. `known`: Spark reads what its blocks are compressed with."""

    schema: str = ""
    whole: int = 0
    damage: str = ""
    bad: tuple[BadBlock, ...] = ()
    known: bool = True


@dataclass(frozen=True)
class _Stretch:
    """So many bytes of a file, of which `raw` are the first; `ended` by the marker."""

    raw: bytes
    length: int
    ended: bool


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

    def ahead(self, size: int) -> bytes:
        """The next `size` bytes, or all that are left; they are still to be read."""
        parts, waiting = [self.waiting[self.at :]], len(self.waiting) - self.at
        while waiting < size and (chunk := next(self.chunks, None)) is not None:
            parts.append(chunk)
            waiting += len(chunk)
        if len(parts) > 1:
            self.passed += self.at
            self.waiting, self.at = b"".join(parts), 0
        return self.waiting[self.at : self.at + size]

    def until(self, marker: bytes, keep: int) -> _Stretch:
        """All up to the end of the next `marker`, or to the end; the first `keep` bytes of it."""
        kept, length, half = [], 0, b""
        while not self.at_end():
            if half:  # a marker may begin in one chunk and end in the next
                self.passed += self.at - len(half)
                self.waiting, self.at = half + self.waiting[self.at :], 0
            found = self.waiting.find(marker, self.at)
            last = max(self.at, len(self.waiting) - len(marker) + 1)
            end = found + len(marker) if found >= 0 else last
            kept.append(self.waiting[self.at : min(end, self.at + max(keep - length, 0))])
            length += end - self.at
            if found >= 0:
                self.at = end
                return _Stretch(b"".join(kept), length, ended=True)
            half, self.at = self.waiting[end:], len(self.waiting)
        return _Stretch(b"".join([*kept, half])[:keep], length + len(half), ended=False)

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
        """Avro's long: zigzag."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def varint(self) -> int:
        """Seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self.read(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number of more than 64 bits")


def walk(chunks: Iterator[bytes], thorough: bool = False, bounds: Bounds = DEFAULT) -> AvroFile:
    """Read a container to its end without decoding it, unless `thorough`: then each block is.

    A block that unfolds farther than `bounds` allow is bad; raises Damage, not trusted, where all
    of them together do.
    """
    stream = _Bytes(chunks)
    try:
        header = cast(Any, fastavro.schemaless_reader(cast(Any, stream), _HEADER, None))
        schema = header["meta"]["avro.schema"].decode()
    except (EOFError, ValueError, KeyError, IndexError) as error:
        return AvroFile(damage=TRUNCATED if isinstance(error, EOFError) else DAMAGED)
    stream.header_left = None
    known = _codec(header) in _CODECS
    alone = _Alone(header) if thorough and known else None
    unfolding = Unfolding(_codec(header), bounds)
    whole, damage, bad = _walk_blocks(stream, header["sync"], alone, unfolding)
    bad = sorted([*bad, *(alone.bad if alone else [])], key=lambda block: block.start)
    return AvroFile(schema, whole - sum(b.end - b.start for b in bad), damage, tuple(bad), known)


def without(chunks: Iterator[bytes], bad: Sequence[BadBlock]) -> Iterator[bytes]:
    """A file's bytes but those of bad blocks."""
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


class _Alone:
    """Blocks as files of their own; the `bad` ones cannot be decoded."""

    def __init__(self, header: Any) -> None:
        start = io.BytesIO()
        self._codec = _codec(header)
        read = _UNPACKED.get(self._codec)
        meta = header["meta"] | ({"avro.codec": b"null"} if read else {})
        # A value may be beyond what Python's own dates can say, and sound.
        meta |= {"avro.schema": _without_logical_types(header["meta"]["avro.schema"])}
        fastavro.schemaless_writer(start, _HEADER, header | {"meta": meta})
        self._start = start.getvalue()
        self.bad: list[BadBlock] = []

    def look(self, start: int, end: int, records: int, body: bytes, sync: bytes) -> None:
        """Decode a block, which stands at `start` to `end` of the file."""
        try:
            plain = _UNPACKED.get(self._codec, bytes)(body)
            block = _block(records, plain, sync)
            deque(fastavro.reader(io.BytesIO(self._start + block)), maxlen=0)
        except Exception:  # whatever a decoder says to bytes that nobody wrote
            self.bad.append(BadBlock(start, end, _block(records, body, sync)[:RAW_BYTES]))


def _without_logical_types(schema: bytes) -> bytes:
    """As it is where it is no JSON: then no block can be decoded by it."""

    def bare(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in pairs if name != "logicalType"}

    try:
        return json.dumps(json.loads(schema, object_pairs_hook=bare)).encode()
    except (ValueError, RecursionError):
        return schema


def _block(records: int, body: bytes, sync: bytes) -> bytes:
    return _zigzag(records) + _zigzag(len(body)) + body + sync


def _codec(header: Any) -> bytes:
    codec: bytes = header["meta"].get("avro.codec", b"null")
    return codec


def _without_snappy(body: bytes) -> bytes:
    """Raises ValueError or an Arrow error where size or checksum are not those of the bytes."""
    size = _Bytes(iter([body])).varint()
    if size > MOST_DECODED_BYTES:
        raise ValueError(f"a block of more than {MOST_DECODED_BYTES} bytes")
    plain: bytes = pa.decompress(body[:-4], size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(body[-4:], "big"):
        raise ValueError("the checksum is that of other bytes")
    return plain


def _streamed(stream: Callable[[], Any]) -> Callable[[bytes], bytes]:
    """By an object of zlib, bz2 or lzma; raises ValueError for a stream that does not end."""

    def unpacked(body: bytes, most: int) -> bytes:
        found = stream()
        plain: bytes = found.decompress(body, most)
        if not found.eof and len(plain) < most:
            raise ValueError("a block that is cut")
        return plain

    return _bounded(unpacked)


def _bounded(unpack: Callable[[bytes, int], bytes]) -> Callable[[bytes], bytes]:
    def unpacked(body: bytes) -> bytes:
        plain = unpack(body, MOST_DECODED_BYTES + 1)
        if len(plain) > MOST_DECODED_BYTES:
            raise ValueError(f"a block of more than {MOST_DECODED_BYTES} bytes")
        return plain

    return unpacked


# What fastavro would ask another library for, or unfold without a bound.
_UNPACKED: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    _SNAPPY: _without_snappy,
    _ZSTANDARD: _bounded(
        lambda body, most: zstandard.ZstdDecompressor().stream_reader(body).read(most)
    ),
    _DEFLATE: _streamed(lambda: zlib.decompressobj(-15)),
    _BZIP2: _streamed(bz2.BZ2Decompressor),
    _XZ: _streamed(lzma.LZMADecompressor),
}


def _zigzag(value: int) -> bytes:
    found = io.BytesIO()
    fastavro.schemaless_writer(found, "long", value)
    return found.getvalue()


def _walk_blocks(
    stream: _Bytes, sync: bytes, alone: _Alone | None, unfolding: Unfolding
) -> tuple[int, str, list[BadBlock]]:
    """Where whole blocks end, why no more do, and what is none between them.

    Marker by marker, but where a block's size is sound.
    """
    start, bad = stream.place, list[BadBlock]()
    most = max(MOST_DECODED_BYTES if alone is not None else 0, unfolding.wants)
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
        elif alone is not None and 0 < frame.size <= MOST_DECODED_BYTES:
            alone.look(start, end, frame.records, body, sync)
        start = end
    return start, "", bad


def _block_ahead(stream: _Bytes, sync: bytes, keep: int) -> _Stretch | None:
    """The next block, where the marker stands as its size says: the body may hold one, too."""
    head = _Bytes(iter([stream.ahead(MOST_FRAME_BYTES)]))
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
    return _Stretch(block[:keep], length, ended=True)


@dataclass(frozen=True)
class _Frame:
    """What stands before a block's body, and why that cannot be."""

    damage: str = ""
    records: int = 0
    size: int = 0
    body_at: int = 0


def _frame(stretch: _Stretch) -> _Frame:
    head = _Bytes(iter([stretch.raw[:MOST_FRAME_BYTES]]))
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
