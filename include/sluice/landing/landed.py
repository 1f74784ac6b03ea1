"""What a landed file is, whether it is whole, and a copy of it where Spark cannot read it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import BinaryIO, Final, TypeVar

from sluice.bounds import MEBIBYTE
from sluice.containers import (
    avro_check,
    avro_file,
    compression,
    csv_rows,
    datums,
    framed,
    parquet_file,
    plain_text,
)
from sluice.containers.avro_file import AvroFile
from sluice.containers.compression import Damage
from sluice.containers.csv_rows import CsvStyle
from sluice.containers.documents import Line, Refused, split
from sluice.containers.json_lines import LineCheck
from sluice.containers.rejects import RAW_BYTES, Rejects
from sluice.errors import Unsettled
from sluice.landing.reading import PLAIN, Reading
from sluice.manifest import AVRO, JSON_LINES, PARQUET, LandingReject, SourceFile
from sluice.objects.staging import STAGED_TOO_LARGE, Copy, StagedTooLarge, room_for_a_copy
from sluice.objects.store import (
    ObjectStore,
    StoredObject,
    faults_of_an_object,
    faults_of_the_store,
    written_again,
)
from sluice.positions import arrival_of

CHUNK_BYTES: Final = MEBIBYTE
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
_NO_AVRO: Final = AvroFile()

_T = TypeVar("_T", Line, bytes)


@dataclass(frozen=True)
class Inspection:
    """A file as the manifest takes it, what of it could not be handed on, and its copy's bytes."""

    file: SourceFile
    rejects: tuple[LandingReject, ...] = ()
    copied: int = 0

    @property
    def bytes_to_read(self) -> int:
        """The file's bytes, or those of its copy where they are more."""
        return max(self.file.size, self.copied)


@dataclass(frozen=True)
class _Look:
    """What one pass over an object's bytes told."""

    sha256: str = ""
    compression: str = ""
    container: str = JSON_LINES
    avro: AvroFile = _NO_AVRO
    split: bool = False
    csv: CsvStyle | None = None
    reason: str = ""
    head: bytes = b""
    framed_as: str = ""
    framing: str = ""
    keys: bool = True


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
    return _inspect(
        store,
        staging,
        found,
        prefix,
        reading,
        lambda plain: _look_inside(plain, found.key, reading),
    )


def refuse(
    store: ObjectStore, staging: ObjectStore, found: StoredObject, prefix: str, reason: str
) -> Inspection:
    """Take one object as a single reject, whatever it holds: nothing of it is loaded.

    Raises Unsettled as `inspect` does.
    """
    return _inspect(store, staging, found, prefix, PLAIN, lambda _: _Look(reason=reason))


def _inspect(
    store: ObjectStore, staging: ObjectStore, found: StoredObject, prefix: str, reading: Reading,
    look_inside: Callable[[Iterator[bytes]], _Look],
) -> Inspection:  # fmt: skip
    look = _look(store, found, reading, look_inside)
    file = SourceFile(
        key=found.key,
        url=store.url(found.key),
        size=found.size,
        etag=found.etag,
        version_id=found.version_id,
        sha256=look.sha256,
        hour=found.hour,
        container=look.container,
        arrival=arrival_of(found.key),
        avro_schema=datums.SCHEMA if look.framing else look.avro.schema,
    )
    if _spark_reads(found.key, look):
        return Inspection(file)
    return _stage(store, staging, prefix, look, file, reading)


def _spark_reads(key: str, look: _Look) -> bool:
    odd = look.reason or look.split or look.csv or look.framing or look.avro.damage or look.avro.bad
    if odd or _ODD_IN_PATHS & set(key) or "" in key.split("/"):
        return False
    ending = os.path.splitext(key)[1].lower()
    if look.compression:
        by_name = _SPARK_READS.get(os.path.splitext(key)[1])
        return look.container == JSON_LINES and by_name == look.compression
    return look.container != JSON_LINES or ending not in _CODEC_ENDINGS


def _look(
    store: ObjectStore, found: StoredObject, reading: Reading,
    look_inside: Callable[[Iterator[bytes]], _Look],
) -> _Look:  # fmt: skip
    digest = hashlib.sha256()
    size = 0

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal size
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            yield chunk

    with _opened(store, found.key, found.etag) as stream:
        raw = counted(_chunks(stream, found.key))
        head, raw = _peek(raw)
        kind = compression.detect(head)
        plain = compression.Plain(raw, kind, reading.bounds)
        look = look_inside(plain)
        for _ in raw:
            pass  # to the end, for the checksum
    if size != found.size:
        raise written_again(found.key)
    split_needed = look.split or plain.padded
    return replace(look, sha256=digest.hexdigest(), compression=kind, split=split_needed)


def _opened(store: ObjectStore, key: str, etag: str = "") -> BinaryIO:
    with faults_of_an_object(key):
        return store.open(key, etag)


def _chunks(stream: BinaryIO, key: str) -> Iterator[bytes]:
    chunk = b"."
    while chunk:
        with faults_of_an_object(key):
            chunk = stream.read(CHUNK_BYTES)
        if chunk:
            yield chunk


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes that are not empty, and all chunks."""
    filled = (chunk for chunk in chunks if chunk)
    first = list(islice(filled, 1))
    return b"".join(first), chain(first, filled)


def _look_inside(plain: Iterator[bytes], key: str, reading: Reading) -> _Look:
    """By the first bytes, then by the name; to the end, for damage."""
    look = _Look(
        split=bool(reading.layout),
        csv=reading.tables if csv_rows.is_csv(key) else None,
        framed_as=reading.layout,
        keys=reading.keys,
    )
    try:
        head, plain = _peek(plain)
        if head.startswith(avro_file.MAGIC):
            return _look_at_avro(_until_damage(plain), head, reading)
        if reading.tables and head.startswith(parquet_file.MAGIC):
            with room_for_a_copy(key):
                return _look_at_parquet(plain, head, reading)
        if reading.framing and datums.are_in(head):
            look = _Look(container=AVRO, framing=reading.framing)
        elif not look.framed_as and (reason := _unreadable(head, look.csv is not None)):
            return _Look(reason=reason, head=head[:RAW_BYTES])
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


def _look_at_avro(plain: Iterator[bytes], head: bytes, reading: Reading) -> _Look:
    """Without its header, which tells the schema, nothing of it can be read."""
    avro = avro_file.walk(plain, reading.thorough, reading.bounds)
    deque(plain, maxlen=0)  # to the end, for what is too much behind a damaged place
    if not avro.whole:
        return _Look(reason=avro.damage, head=head[:RAW_BYTES])
    if not avro_check.is_sound(avro.schema):
        return _Look(reason=avro_file.BAD_SCHEMA)
    if not avro.known:
        return _Look(reason=avro_file.BAD_CODEC)
    return _Look(container=AVRO, avro=avro)


def _look_at_parquet(plain: Iterator[bytes], head: bytes, reading: Reading) -> _Look:
    """Its columns are told at the end of the file: without that nothing of it can be read."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as copy:
        try:
            copy.writelines(plain)
            copy.seek(0)
            schema = parquet_file.avro_schema(copy)  # type: ignore[arg-type]
            parquet_file.refuse_bomb(copy, reading.bounds)  # type: ignore[arg-type]
            if not parquet_file.is_codec_known(copy):  # type: ignore[arg-type]
                return _Look(reason=parquet_file.BAD_CODEC, head=head[:RAW_BYTES])
            if reading.thorough:
                parquet_file.read_through(copy)  # type: ignore[arg-type]
        except (Damage, ValueError) as error:
            if isinstance(error, Damage) and error.reason in compression.TOO_MUCH:
                raise
            return _Look(reason=parquet_file.DAMAGED, head=head[:RAW_BYTES])
    return _Look(container=PARQUET, avro=AvroFile(schema))


def _until_damage(plain: Iterator[bytes]) -> Iterator[bytes]:
    """What can be trusted; the missing end shows in the container itself."""
    try:
        yield from plain
    except Damage as damage:
        if not damage.trusted:
            raise


def _unreadable(head: bytes, csv: bool) -> str:
    if plain_text.is_utf16(head):
        return _UTF16
    # Text with a damaged place in it is still worth reading.
    named = csv and b"\0" not in head.partition(b"\n")[0]
    is_text = named or b"\0" not in head[: plain_text.HEAD_BYTES] or plain_text.is_text(head)
    return "" if is_text else _NOT_TEXT


def _stage(
    store: ObjectStore, staging: ObjectStore, prefix: str, look: _Look, file: SourceFile,
    reading: Reading,
) -> Inspection:  # fmt: skip
    room = reading.bounds.staged_room(file.size)
    with room_for_a_copy(file.key), Copy(IN_MEMORY, room) as copy:
        rejects = _refuse_or_copy(store, copy, look, file, reading)
        if rejects.whole:
            copy.empty()
            file = replace(file, container=JSON_LINES, avro_schema="")
        copied = copy.seek(0, os.SEEK_END)
        copy.seek(0)
        key = f"{prefix}{_staged_name(file, look, reading)}"
        with faults_of_the_store(key), room_for_a_copy(file.key, staging.url(prefix)):
            staging.put_stream(key, copy)  # type: ignore[arg-type]
    return Inspection(replace(file, url=staging.url(key), staged=True), rejects.all(), copied)


def _refuse_or_copy(
    store: ObjectStore, copy: Copy, look: _Look, file: SourceFile, reading: Reading
) -> Rejects:
    with _opened(store, file.key) as stream:
        chunks = _same_bytes(_chunks(stream, file.key), file)
        head, chunks = _peek(chunks)
        rejects = Rejects(file.key, reading.bounds.rejects, head)
        if look.reason:
            rejects.refuse_whole(look.reason, look.head)
            return rejects
        plain = compression.Plain(chunks, look.compression, reading.bounds)
        try:
            _copy(plain, copy, look, file, reading.limit, rejects)
        except StagedTooLarge:
            rejects.refuse_whole(STAGED_TOO_LARGE)
        for _ in chunks:
            pass  # to the end, for the checksum
    return rejects


def _same_bytes(chunks: Iterator[bytes], file: SourceFile) -> Iterator[bytes]:
    """Hand on what is read; raises Unsettled at its end where it is not what was looked at."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != file.sha256:
        raise Unsettled(f"{file.key} was written again while it was looked at; try again")


def _staged_name(file: SourceFile, look: _Look, reading: Reading) -> str:
    """The same file under the same name that is read in the same way gets the same copy; one that
    is read otherwise takes nothing from a batch that waits."""
    identity = f"{file.key}\n{file.sha256}\n{look.reason}\n{reading}".encode()
    return f"{hashlib.sha256(identity).hexdigest()[:32]}.{file.container}"


def _copy(
    plain: Iterator[bytes], copy: Copy, look: _Look, file: SourceFile, limit: int, rejects: Rejects
) -> None:
    if look.framing:
        parts = datums.split(plain, look.framing, limit)
        datums.write_container(copy, _whole(parts, rejects), bytes.fromhex(file.sha256))
    elif look.container == AVRO:
        _copy_avro(plain, copy, look.avro, rejects)
    elif look.container == PARQUET:
        for chunk in plain:
            copy.write(chunk)
    else:
        for line in _whole(_parts(plain, look, limit), rejects):
            copy.write(line.text)
            copy.write(b"\n")


def _whole(parts: Iterator[_T | Refused], rejects: Rejects) -> Iterator[_T]:
    """What can be handed on, as long as the file is not refused as a whole."""
    for record, part in enumerate(parts):
        if isinstance(part, Refused):
            rejects.add(record, part)
        elif not rejects.whole:
            yield part


def _parts(plain: Iterator[bytes], look: _Look, limit: int) -> Iterator[Line | Refused]:
    if look.framed_as:
        return framed.split(plain, limit, look.framed_as)
    if look.csv:
        return csv_rows.documents(plain, look.csv, limit)
    return split(plain, limit, look.keys)


def _copy_avro(plain: Iterator[bytes], copy: Copy, avro: AvroFile, rejects: Rejects) -> None:
    """Header and whole blocks; each block that is none is a reject, and so is the rest."""
    left, rest = avro.whole, b""
    damage = avro.damage
    try:
        for chunk in avro_file.without(plain, avro.bad):
            copy.write(chunk[:left])
            rest += chunk[left:][: RAW_BYTES - len(rest)]
            left -= min(left, len(chunk))
    except Damage as error:
        damage = damage or error.reason
    for number, block in enumerate(avro.bad):
        rejects.add(number, Refused(block.reason, block.raw))
    if damage:
        rejects.add(len(avro.bad), Refused(damage, rest))
