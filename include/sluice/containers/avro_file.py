"""Avro object containers: read the writer's schema and check that every block is whole."""

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
from sluice.containers.avro_claims import Claims
from sluice.containers.decompression_limits import DecompressionGuard
from sluice.containers.rejects import RAW_BYTES

MAGIC: Final = b"Obj\x01"
TRUNCATED: Final = "truncated_avro"
DAMAGED: Final = "damaged_avro"
BAD_SCHEMA: Final = "bad_avro_schema"
BAD_CODEC: Final = "unknown_avro_codec"
MOST_HEADER_BYTES: Final = 16 * MEBIBYTE

MOST_DECODED_BYTES: Final = 256 * MEBIBYTE
# Two numbers of 64 bits, seven bits in each byte.
MOST_FRAME_BYTES: Final = 20
# A longer block's sync marker is searched for instead of buffering as much as its size claims.
_MOST_AHEAD: Final = 16 * MEBIBYTE
# After more of them in a file the rest of it is not read.
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


@dataclass(frozen=True)
class _Stretch:
    """A part of a file: its length, its first bytes, and whether a sync marker ends it."""

    raw: bytes
    length: int
    ended: bool


class _Bytes:
    """A stream over chunks that knows its offset; raises EOFError at the end.

    `header_left`: bytes that the header may still take, because a damaged length can claim any.
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
        """Return the next `size` bytes, or all that are left, without consuming them."""
        parts, waiting = [self.waiting[self.at :]], len(self.waiting) - self.at
        while waiting < size and (chunk := next(self.chunks, None)) is not None:
            parts.append(chunk)
            waiting += len(chunk)
        if len(parts) > 1:
            self.passed += self.at
            self.waiting, self.at = b"".join(parts), 0
        return self.waiting[self.at : self.at + size]

    def until(self, marker: bytes, keep: int) -> _Stretch:
        """Consume up to and with the next `marker`, or to the end; keep the first `keep` bytes."""
        kept, length, held_back = [], 0, b""
        while not self.at_end():
            if held_back:  # a marker may begin in one chunk and end in the next
                self.passed += self.at - len(held_back)
                self.waiting, self.at = held_back + self.waiting[self.at :], 0
            marker_at = self.waiting.find(marker, self.at)
            last = max(self.at, len(self.waiting) - len(marker) + 1)
            end = marker_at + len(marker) if marker_at >= 0 else last
            kept.append(self.waiting[self.at : min(end, self.at + max(keep - length, 0))])
            length += end - self.at
            if marker_at >= 0:
                self.at = end
                return _Stretch(b"".join(kept), length, ended=True)
            held_back, self.at = self.waiting[end:], len(self.waiting)
        return _Stretch(b"".join([*kept, held_back])[:keep], length + len(held_back), ended=False)

    def _some(self, size: int) -> int:
        """Return how many of `size` bytes are buffered, at least one; EOFError at the end."""
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
        """Read a zigzag-encoded Avro long."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def varint(self) -> int:
        """Read a number of seven bits a byte, the lowest first."""
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
    """Read a container to its end; decode its blocks only if `thorough`.

    A block that decompresses to more than `bounds` allow is bad. Raises DamageError, not trusted,
    if all blocks together do.
    """
    stream = _Bytes(chunks)
    try:
        header = cast(Any, fastavro.schemaless_reader(cast(Any, stream), _HEADER, None))
        schema = header["meta"]["avro.schema"].decode()
    except (EOFError, ValueError, KeyError, IndexError) as error:
        return AvroFile(damage=TRUNCATED if isinstance(error, EOFError) else DAMAGED)
    stream.header_left = None
    supported = _codec(header) in _CODECS
    decoding = _BlockDecoder(header) if thorough and supported else None
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
    """Decodes each block as a file of its own; `bad` collects those that cannot be decoded."""

    def __init__(self, header: Any) -> None:
        start = io.BytesIO()
        self._codec = _codec(header)
        read = _UNPACKED.get(self._codec)
        meta = header["meta"] | ({"avro.codec": b"null"} if read else {})
        # A sound value may be outside the range of Python's dates.
        schema = _without_logical_types(header["meta"]["avro.schema"])
        meta |= {"avro.schema": schema}
        fastavro.schemaless_writer(start, _HEADER, header | {"meta": meta})
        self._start = start.getvalue()
        self._claims = _claims(schema)
        self.bad: list[BadBlock] = []

    def decode(self, start: int, end: int, records: int, body: bytes, sync: bytes) -> None:
        """Decode the block from `start` to `end` of the file."""
        try:
            plain = _UNPACKED.get(self._codec, bytes)(body)
            if self._claims is not None:
                self._claims.check(records, plain)
            block = _block(records, plain, sync)
            deque(fastavro.reader(io.BytesIO(self._start + block)), maxlen=0)
        except Exception:  # a decoder may raise anything for damaged bytes
            self.bad.append(BadBlock(start, end, _block(records, body, sync)[:RAW_BYTES]))


def _claims(schema: bytes) -> Claims | None:
    """Return the limits of a schema; None if it is none, whose blocks fastavro does not read."""
    try:
        return Claims(json.loads(schema))
    except Exception:  # a parser may raise anything for what is no schema
        return None


def _without_logical_types(schema: bytes) -> bytes:
    """Return the schema without logical types; unchanged if it is no JSON."""

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
    """Decompress a block; ValueError or an Arrow error if size or checksum do not match."""
    size = _Bytes(iter([body])).varint()
    if size > MOST_DECODED_BYTES:
        raise ValueError(f"a block of more than {MOST_DECODED_BYTES} bytes")
    plain: bytes = pa.decompress(body[:-4], size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(body[-4:], "big"):
        raise ValueError("the checksum is that of other bytes")
    return plain


def _streamed(stream: Callable[[], Any]) -> Callable[[bytes], bytes]:
    """Decompress by an object of zlib, bz2 or lzma; ValueError for a stream that does not end."""

    def unpacked(body: bytes, most: int) -> bytes:
        decompressor = stream()
        plain: bytes = decompressor.decompress(body, most)
        if not decompressor.eof and len(plain) < most:
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


# Codecs that fastavro needs another library for, or decompresses without a bound.
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
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, "long", value)
    return encoded.getvalue()


def _walk_blocks(
    stream: _Bytes, sync: bytes, decoding: _BlockDecoder | None, unfolding: DecompressionGuard
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
        elif decoding is not None and 0 < frame.size <= MOST_DECODED_BYTES:
            decoding.decode(start, end, frame.records, body, sync)
        start = end
    return start, "", bad


def _block_ahead(stream: _Bytes, sync: bytes, keep: int) -> _Stretch | None:
    """Return the next block if the marker is where its size says: a body may hold one too."""
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
    """The numbers before a block's body, and why they are wrong if they are."""

    damage: str
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
