"""Inspect a landed file, and stage it anew if Spark cannot read it as it is."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final, TypeVar

from sluice.bounds import MEBIBYTE
from sluice.containers import (
    avro_file,
    compression,
    csv_rows,
    datums,
    framed,
)
from sluice.containers.avro_file import AvroFile
from sluice.containers.compression import DamageError
from sluice.containers.json_documents import Line, Rejected, split
from sluice.containers.rejects import RAW_BYTES, Rejects
from sluice.errors import UnstableFileError
from sluice.landing.file_detection import IN_MEMORY, DetectedFile, detect, peek
from sluice.landing.reading import Reading
from sluice.landing.table_folders import name_in_order
from sluice.manifest import AVRO, JSON_LINES, PARQUET, LandingReject, SourceFile
from sluice.objects.staging import STAGED_TOO_LARGE, StagedFile, StagedTooLargeError, room_to_stage
from sluice.objects.store import (
    ObjectStore,
    StoredObject,
    faults_of_an_object,
    faults_of_the_store,
    written_again,
)
from sluice.positions import arrival_of

CHUNK_BYTES: Final = MEBIBYTE

# Spark chooses the decompression by the name's ending alone.
_SPARK_READS: Final = {".gz": compression.GZIP, ".bz2": compression.BZIP2}
_CODEC_ENDINGS: Final = frozenset(
    (*_SPARK_READS, ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".zip", ".lzo", ".xz", ".br")
)
# Spark takes these for globs, or Hadoop's paths cannot have them.
_ODD_IN_PATHS: Final = frozenset("*?[]{}\\:")

_T = TypeVar("_T", Line, bytes)


@dataclass(frozen=True)
class Inspection:
    """A file for the manifest, its rejects, and the size of its staged file."""

    file: SourceFile
    rejects: tuple[LandingReject, ...] = ()
    staged_size: int = 0

    @property
    def bytes_to_read(self) -> int:
        """The size of the file, or of its staged file if that is larger."""
        return max(self.file.size, self.staged_size)


@dataclass(frozen=True)
class Inspector:
    """Inspects objects of a landing place as `reading` says; staged files go under `prefix` of
    `staging`."""

    store: ObjectStore
    staging: ObjectStore
    prefix: str
    reading: Reading

    def inspect(self, stored: StoredObject) -> Inspection:
        """Read one object to its end; write a staged file if Spark could not read it.

        Raises UnstableFileError if the object differs from its listing, since it is then being
        written.
        """
        return self._inspect(stored, lambda plain: detect(plain, stored.key, self.reading))

    def reject(self, stored: StoredObject, reason: str) -> Inspection:
        """Reject one object as a whole, so that nothing of it is loaded. Raises UnstableFileError
        as `inspect` does."""
        return self._inspect(stored, lambda _: DetectedFile(reason=reason))

    def _inspect(
        self, stored: StoredObject, classify: Callable[[Iterator[bytes]], DetectedFile]
    ) -> Inspection:
        detected = self._read_through(stored, classify)
        timed = self.reading.timed
        file = SourceFile(
            key=stored.key,
            url=self.store.url(stored.key),
            size=stored.size,
            etag=stored.etag,
            version_id=stored.version_id,
            sha256=detected.sha256,
            hour=stored.hour,
            container=detected.container,
            arrival=arrival_of(name_in_order(stored.key) if timed else stored.key),
            avro_schema=datums.SCHEMA if detected.framing else detected.avro.schema,
        )
        if _spark_reads(stored.key, detected):
            return Inspection(file)
        return self._stage(detected, file)

    def _read_through(
        self, stored: StoredObject, classify: Callable[[Iterator[bytes]], DetectedFile]
    ) -> DetectedFile:
        digest = hashlib.sha256()
        size = 0

        def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
            nonlocal size
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                yield chunk

        with _opened(self.store, stored.key, stored.etag) as stream:
            raw = counted(_chunks(stream, stored.key))
            head, raw = peek(raw)
            kind = compression.detect(head)
            plain = compression.Plain(raw, kind, self.reading.bounds)
            detected = classify(plain)
            deque(raw, maxlen=0)  # to the end, for the checksum
        if size != stored.size:
            raise written_again(stored.key)
        split_needed = detected.split or plain.padded
        return replace(detected, sha256=digest.hexdigest(), compression=kind, split=split_needed)

    def _stage(self, detected: DetectedFile, file: SourceFile) -> Inspection:
        staging, room = self.staging, self.reading.bounds.staged_room(file.size)
        with room_to_stage(file.key), StagedFile(IN_MEMORY, room) as staged:
            rejects = self._reject_or_stage(staged, detected, file)
            if rejects.whole:
                staged.empty()
                file = replace(file, container=JSON_LINES, avro_schema="")
            size = staged.seek(0, os.SEEK_END)
            staged.seek(0)
            key = f"{self.prefix}{_staged_name(file, detected, self.reading)}"
            with faults_of_the_store(key), room_to_stage(file.key, staging.url(self.prefix)):
                staging.put_stream(key, staged)  # type: ignore[arg-type]
        return Inspection(replace(file, url=staging.url(key), staged=True), rejects.all(), size)

    def _reject_or_stage(
        self, staged: StagedFile, detected: DetectedFile, file: SourceFile
    ) -> Rejects:
        bounds = self.reading.bounds
        with _opened(self.store, file.key) as stream:
            chunks = _same_bytes(_chunks(stream, file.key), file)
            head, chunks = peek(chunks)
            rejects = Rejects(file.key, bounds.rejects, head)
            if detected.reason:
                rejects.reject_whole(detected.reason, detected.head)
                return rejects
            plain = compression.Plain(chunks, detected.compression, bounds)
            try:
                self._write_staged(plain, staged, detected, file, rejects)
            except StagedTooLargeError:
                rejects.reject_whole(STAGED_TOO_LARGE)
            deque(chunks, maxlen=0)  # to the end, for the checksum
        return rejects

    def _write_staged(
        self,
        plain: Iterator[bytes],
        staged: StagedFile,
        detected: DetectedFile,
        file: SourceFile,
        rejects: Rejects,
    ) -> None:
        limit = self.reading.limit
        if detected.framing:
            parts = datums.split(plain, detected.framing, limit)
            datums.write_container(staged, _whole(parts, rejects), bytes.fromhex(file.sha256))
        elif detected.container == AVRO:
            _stage_avro(plain, staged, detected.avro, rejects)
        elif detected.container == PARQUET:
            for chunk in plain:
                staged.write(chunk)
        else:
            for line in _whole(_parts(plain, detected, limit), rejects):
                staged.write(line.text)
                staged.write(b"\n")


def _spark_reads(key: str, detected: DetectedFile) -> bool:
    avro = detected.avro
    rewritten = detected.reason or detected.split or detected.csv or detected.framing
    if rewritten or avro.damage or avro.bad or _ODD_IN_PATHS & set(key) or "" in key.split("/"):
        return False
    ending = os.path.splitext(key)[1].lower()
    if detected.compression:
        by_name = _SPARK_READS.get(os.path.splitext(key)[1])
        return detected.container == JSON_LINES and by_name == detected.compression
    return detected.container != JSON_LINES or ending not in _CODEC_ENDINGS


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


def _same_bytes(chunks: Iterator[bytes], file: SourceFile) -> Iterator[bytes]:
    """Yield the chunks; UnstableFileError at the end if they differ from the inspected ones."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != file.sha256:
        raise UnstableFileError(f"{file.key} was written again while it was looked at; try again")


def _staged_name(file: SourceFile, detected: DetectedFile, reading: Reading) -> str:
    """Return the staged file's name: the same for the same key, content and way of reading.

    If a landed file is later read with other options, it gets another, and a waiting batch keeps
    its own.
    """
    identity = f"{file.key}\n{file.sha256}\n{detected.reason}\n{reading}".encode()
    return f"{hashlib.sha256(identity).hexdigest()[:32]}.{file.container}"


def _whole(parts: Iterator[_T | Rejected], rejects: Rejects) -> Iterator[_T]:
    """Yield the parts that are not rejected, as long as the file is not rejected as a whole."""
    for record, part in enumerate(parts, 1):
        if isinstance(part, Rejected):
            rejects.add(record, part)
        elif not rejects.whole:
            yield part


def _parts(plain: Iterator[bytes], detected: DetectedFile, limit: int) -> Iterator[Line | Rejected]:
    if detected.framed_as:
        return framed.split(plain, limit, detected.framed_as)
    if detected.csv:
        return csv_rows.rows_as_json(plain, detected.csv, limit)
    return split(plain, limit, keys=detected.keys)


def _stage_avro(
    plain: Iterator[bytes], staged: StagedFile, avro: AvroFile, rejects: Rejects
) -> None:
    """Copy header and whole blocks; each bad block is a reject, and so is the damaged rest."""
    left, rest = avro.whole, b""
    damage = avro.damage
    try:
        for chunk in avro_file.without(plain, avro.bad):
            staged.write(chunk[:left])
            rest += chunk[left:][: RAW_BYTES - len(rest)]
            left -= min(left, len(chunk))
    except DamageError as error:
        damage = damage or error.reason
    for number, block in enumerate(avro.bad, 1):
        rejects.add(number, Rejected(block.reason, block.raw))
    if damage:
        rejects.add(len(avro.bad) + 1, Rejected(damage, rest))
