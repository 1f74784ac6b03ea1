"""What a landed file is, whether it is whole, and a copy of it where Spark cannot read it."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import BinaryIO, Final

from sluice import avrofile, compression, csvrows, datums, framed, parquetfile
from sluice.avrofile import AvroFile
from sluice.compression import Damage
from sluice.config import MEBIBYTE
from sluice.containers import Line, Refused, split
from sluice.csvrows import CsvStyle
from sluice.errors import Unsettled
from sluice.jsonlines import LineCheck
from sluice.manifest import LandingReject, SourceFile
from sluice.positions import natural_key
from sluice.reading import PLAIN, Reading
from sluice.store import ObjectStore, StoredObject

JSONL: Final = "jsonl"
AVRO: Final = "avro"
PARQUET: Final = "parquet"
CHUNK_BYTES: Final = MEBIBYTE
RAW_LIMIT: Final = MEBIBYTE
IN_MEMORY: Final = 16 * MEBIBYTE

# Spark decompresses by the name's ending alone.
_SPARK_READS: Final = {".gz": compression.GZIP, ".bz2": compression.BZIP2}
_CODEC_ENDINGS: Final = frozenset(
    (*_SPARK_READS, ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".zip", ".lzo", ".xz", ".br")
)
# Globs to Spark, and what Hadoop's paths cannot hold.
_ODD_IN_PATHS: Final = frozenset("*?[]{}\\:")
_NOT_TEXT: Final = "not_json_nor_avro"
_UTF16: Final = "utf16"
_JSON_BEGINS: Final = (b"{", b"[")
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_NO_AVRO: Final = AvroFile()


@dataclass(frozen=True)
class Inspection:
    """A file as the manifest takes it, and what of it could not be handed on."""

    file: SourceFile
    rejects: tuple[LandingReject, ...] = ()


@dataclass(frozen=True)
class _Look:
    """What one pass over an object's bytes told."""

    sha256: str = ""
    compression: str = ""
    container: str = JSONL
    avro: AvroFile = _NO_AVRO
    split: bool = False
    csv: CsvStyle | None = None
    reason: str = ""
    head: bytes = b""
    framed_as: str = ""
    framing: str = ""


def inspect(
    store: ObjectStore,
    staging: ObjectStore,
    found: StoredObject,
    prefix: str,
    reading: Reading = PLAIN,
) -> Inspection:
    """Read one object through; where Spark could not read it, stage a copy under `prefix`.

    Raises Unsettled when the object is not what the listing said: it is being written.
    """
    try:
        look = _look(store, found, reading)
    except FileNotFoundError as error:
        raise Unsettled(f"{found.key} is gone since it was listed; try again") from error
    file = SourceFile(
        key=found.key,
        url=store.url(found.key),
        size=found.size,
        etag=found.etag,
        version_id=found.version_id,
        sha256=look.sha256,
        hour=found.hour,
        container=look.container,
        arrival=natural_key(found.key),
        avro_schema=datums.SCHEMA if look.framing else look.avro.schema,
    )
    if _spark_reads(found.key, look):
        return Inspection(file)
    return _stage(store, staging, found, prefix, look, file, reading.limit)


def _spark_reads(key: str, look: _Look) -> bool:
    odd = look.reason or look.split or look.csv or look.framing or look.avro.damage
    if odd or _ODD_IN_PATHS & set(key) or "" in key.split("/"):
        return False
    ending = os.path.splitext(key)[1].lower()
    if look.compression:
        by_name = _SPARK_READS.get(os.path.splitext(key)[1])
        return look.container == JSONL and by_name == look.compression
    return look.container != JSONL or ending not in _CODEC_ENDINGS


def _look(store: ObjectStore, found: StoredObject, reading: Reading) -> _Look:
    digest = hashlib.sha256()
    size = 0

    def counted(stream: BinaryIO) -> Iterator[bytes]:
        nonlocal size
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            yield chunk

    with store.open(found.key) as stream:
        raw = counted(stream)
        head, raw = _peek(raw)
        kind = compression.detect(head)
        plain = compression.Plain(raw, kind)
        look = _look_inside(plain, found.key, reading)
        for _ in raw:
            pass  # to the end, for the checksum
    if size != found.size:
        raise Unsettled(
            f"{found.key} had {found.size} bytes when listed and {size} when read: it is still "
            "being written; try again when it is complete"
        )
    split_needed = look.split or plain.padded
    return replace(look, sha256=digest.hexdigest(), compression=kind, split=split_needed)


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes that are not empty, and all chunks."""
    filled = (chunk for chunk in chunks if chunk)
    first = list(islice(filled, 1))
    return b"".join(first), chain(first, filled)


def _look_inside(plain: Iterator[bytes], key: str, reading: Reading) -> _Look:
    """By the first bytes, then by the name; to the end, for damage."""
    look = _Look(
        split=bool(reading.layout),
        csv=reading.tables if csvrows.is_csv(key) else None,
        framed_as=reading.layout,
    )
    try:
        head, plain = _peek(plain)
        if head.startswith(avrofile.MAGIC):
            return _Look(container=AVRO, avro=avrofile.walk(_until_damage(plain)))
        if reading.tables and head.startswith(parquetfile.MAGIC):
            return _look_at_parquet(plain, head)
        if reading.framing and datums.are_in(head):
            look = _Look(container=AVRO, framing=reading.framing)
        elif not look.framed_as and (reason := _unreadable(head)):
            return _Look(reason=reason, head=head[:RAW_LIMIT])
        if look.csv or look.framing or look.framed_as:
            deque(plain, maxlen=0)
            return look
        return replace(look, split=_misread(plain, reading.limit))
    except Damage as damage:
        return replace(look, split=True) if damage.trusted else _Look(reason=damage.reason)


def _misread(lines: Iterator[bytes], limit: int) -> bool:
    """Whether Spark could misread JSON lines as they are."""
    check = LineCheck(limit)
    for piece in lines:
        check.add(piece)
    check.finish()
    return check.split_needed


def _look_at_parquet(plain: Iterator[bytes], head: bytes) -> _Look:
    """Its columns are told at the end of the file: without that nothing of it can be read."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as copy:
        try:
            copy.writelines(plain)
            copy.seek(0)
            schema = parquetfile.avro_schema(copy)  # type: ignore[arg-type]
        except (Damage, ValueError):
            return _Look(reason=parquetfile.DAMAGED, head=head[:RAW_LIMIT])
    return _Look(container=PARQUET, avro=AvroFile(schema))


def _until_damage(plain: Iterator[bytes]) -> Iterator[bytes]:
    """What can be trusted; the missing end shows in the container itself."""
    try:
        yield from plain
    except Damage as damage:
        if not damage.trusted:
            raise


def _unreadable(head: bytes) -> str:
    if head.startswith(_UTF16_MARKS):
        return _UTF16
    # Text with a damaged place in it is still worth reading.
    is_text = head.lstrip()[:1] in _JSON_BEGINS
    return _NOT_TEXT if b"\0" in head[:4096] and not is_text else ""


def _stage(
    store: ObjectStore, staging: ObjectStore, found: StoredObject, prefix: str, look: _Look,
    file: SourceFile, limit: int,
) -> Inspection:  # fmt: skip
    key = f"{prefix}{_staged_name(file)}"
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as copy, store.open(found.key) as stream:
        if look.reason:
            rejects = [_reject(file.key, 0, look.reason, look.head or stream.read(RAW_LIMIT))]
        else:
            chunks = _same_bytes(iter(lambda: stream.read(CHUNK_BYTES), b""), file)
            plain = compression.Plain(chunks, look.compression)
            rejects = list(_copy(plain, copy, look, file, limit))
            for _ in chunks:
                pass  # to the end, for the checksum
        copy.seek(0)
        staging.put_stream(key, copy)  # type: ignore[arg-type]
    return Inspection(replace(file, url=staging.url(key), staged=True), tuple(rejects))


def _same_bytes(chunks: Iterator[bytes], file: SourceFile) -> Iterator[bytes]:
    """Hand on what is read; raises Unsettled at its end where it is not what was looked at."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != file.sha256:
        raise Unsettled(f"{file.key} was written again while it was looked at; try again")


def _staged_name(file: SourceFile) -> str:
    """The same file under the same name gets the same copy."""
    identity = f"{file.key}\n{file.sha256}".encode()
    return f"{hashlib.sha256(identity).hexdigest()[:32]}.{file.container}"


def _copy(
    plain: Iterator[bytes], copy: tempfile.SpooledTemporaryFile[bytes], look: _Look,
    file: SourceFile, limit: int,
) -> Iterator[LandingReject]:  # fmt: skip
    if look.framing:
        yield from _copy_datums(datums.split(plain, look.framing, limit), copy, file)
        return
    if look.container == AVRO:
        yield from _copy_avro(plain, copy, look.avro, file.key)
        return
    if look.container == PARQUET:
        copy.writelines(plain)
        return
    for record, part in enumerate(_parts(plain, look, limit)):
        if isinstance(part, Line):
            copy.write(part.text)
            copy.write(b"\n")
        else:
            yield _refused(file.key, record, part)


def _parts(plain: Iterator[bytes], look: _Look, limit: int) -> Iterator[Line | Refused]:
    if look.framed_as:
        return framed.split(plain, limit, look.framed_as)
    return csvrows.documents(plain, look.csv, limit) if look.csv else split(plain, limit)


def _copy_datums(
    parts: Iterator[bytes | Refused], copy: tempfile.SpooledTemporaryFile[bytes], file: SourceFile
) -> list[LandingReject]:
    rejects = []

    def whole() -> Iterator[bytes]:
        for record, part in enumerate(parts):
            if isinstance(part, Refused):
                rejects.append(_refused(file.key, record, part))
            else:
                yield part

    datums.write_container(copy, whole(), bytes.fromhex(file.sha256))
    return rejects


def _copy_avro(
    plain: Iterator[bytes], copy: tempfile.SpooledTemporaryFile[bytes], avro: AvroFile, key: str
) -> Iterator[LandingReject]:
    """Header and whole blocks; the rest is one reject."""
    left, rest = avro.whole, b""
    try:
        for chunk in plain:
            copy.write(chunk[:left])
            rest += chunk[left:][: RAW_LIMIT - len(rest)]
            left -= min(left, len(chunk))
    except Damage as damage:
        if not avro.damage:
            yield _reject(key, 0, damage.reason, rest)
    if avro.damage:
        yield _reject(key, 0, avro.damage, rest)


def _refused(key: str, record: int, part: Refused) -> LandingReject:
    return _reject(key, record, part.reason, part.raw)


def _reject(key: str, record: int, reason: str, raw: bytes) -> LandingReject:
    return LandingReject(key, record, reason, base64.b64encode(raw[:RAW_LIMIT]).decode())
