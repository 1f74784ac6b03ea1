"""Determine what a landed file is, by its first bytes and its name, and whether it is whole."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from sluice.bounds import MEBIBYTE
from sluice.containers import (
    avro_check,
    avro_file,
    compression,
    csv_rows,
    datums,
    parquet_file,
    plain_text,
)
from sluice.containers.avro_file import AvroFile
from sluice.containers.compression import DamageError
from sluice.containers.csv_rows import CsvStyle
from sluice.containers.json_lines import LineCheck
from sluice.containers.rejects import RAW_BYTES
from sluice.landing.reading import Reading
from sluice.landing.table_folders import TRANSACTIONS, holds_transactions
from sluice.manifest import AVRO, JSON_LINES, PARQUET
from sluice.objects.staging import room_to_stage

IN_MEMORY: Final = 16 * MEBIBYTE
_NOT_TEXT: Final = "not_json_nor_avro"
_OTHER_FORMAT: Final = "avro_of_another_format"
_UTF16: Final = "utf16"
_NO_AVRO: Final = AvroFile()


@dataclass(frozen=True)
class DetectedFile:
    """The result of one pass over an object's bytes.

    `reason`: why nothing of it can be read, "" if it can; `head`: its first bytes in that case.
    `split`: its documents have to be copied as lines. `csv`: the style of CSV rows. `framed_as`:
    the layout of binary messages; `framing`: how bare datums are separated. `keys`: whether a key
    before a record is kept.
    """

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


def detect(plain: Iterator[bytes], key: str, reading: Reading) -> DetectedFile:
    """Determine what a file is, by its first bytes, then by its name; read to the end
    to find damage."""
    if reading.timed and holds_transactions(key):
        return DetectedFile(reason=TRANSACTIONS)
    expected = _expected(key, reading)
    try:
        head, plain = peek(plain)
        by_head = _by_head(head, plain, key, reading)
        if by_head is not None:
            return by_head
        if reading.framing and datums.are_in(head):
            expected = DetectedFile(container=AVRO, framing=reading.framing)
        return _by_content(head, plain, expected, reading.limit)
    except DamageError as damage:
        return (
            replace(expected, split=True) if damage.trusted else DetectedFile(reason=damage.reason)
        )


def _expected(key: str, reading: Reading) -> DetectedFile:
    """Return what a file is by its name alone."""
    return DetectedFile(
        split=bool(reading.layout),
        csv=reading.tables if csv_rows.is_csv(key) else None,
        framed_as=reading.layout,
        keys=reading.keys,
    )


def _by_head(
    head: bytes, plain: Iterator[bytes], key: str, reading: Reading
) -> DetectedFile | None:
    """Check a container that its first bytes name; None for a file that begins otherwise."""
    if head.startswith(avro_file.MAGIC):
        if not reading.avro:
            return DetectedFile(reason=_OTHER_FORMAT, head=head[:RAW_BYTES])
        return _check_avro(_until_damage(plain), head, reading)
    if reading.tables and head.startswith(parquet_file.MAGIC):
        with room_to_stage(key):
            return _check_parquet(plain, head, reading)
    return None


def _by_content(
    head: bytes, plain: Iterator[bytes], expected: DetectedFile, limit: int
) -> DetectedFile:
    """Check a file that is no container: binary messages, or else text."""
    binary = expected.framing or expected.framed_as
    if not binary and (reason := _unreadable(head, expected.csv is not None)):
        return DetectedFile(reason=reason, head=head[:RAW_BYTES])
    if binary or expected.csv:
        deque(plain, maxlen=0)
        return expected
    return replace(expected, split=_misread(plain, limit))


def _misread(lines: Iterator[bytes], limit: int) -> bool:
    """Whether Spark could misread JSON lines if they are not split."""
    check = LineCheck(limit)
    for piece in lines:
        check.add(piece)
    check.finish()
    return check.split_needed


def _check_avro(plain: Iterator[bytes], head: bytes, reading: Reading) -> DetectedFile:
    """Check a container; without the header, which has the schema, nothing of it can be read."""
    avro = avro_file.walk(plain, reading.thorough, reading.bounds)
    deque(plain, maxlen=0)  # to the end: what follows a damaged place counts for the bounds too
    if not avro.whole:
        return DetectedFile(reason=avro.damage, head=head[:RAW_BYTES])
    if not avro_check.is_sound(avro.schema):
        return DetectedFile(reason=avro_file.BAD_SCHEMA)
    if not avro.supported:
        return DetectedFile(reason=avro_file.BAD_CODEC)
    return DetectedFile(container=AVRO, avro=avro)


def _check_parquet(plain: Iterator[bytes], head: bytes, reading: Reading) -> DetectedFile:
    """Check a Parquet file; without the footer, which has the columns, nothing can be read."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as spooled:
        try:
            spooled.writelines(plain)
            spooled.seek(0)
            schema = parquet_file.avro_schema(spooled)  # type: ignore[arg-type]
            parquet_file.refuse_bomb(spooled, reading.bounds)  # type: ignore[arg-type]
            if not parquet_file.is_codec_known(spooled):  # type: ignore[arg-type]
                return DetectedFile(reason=parquet_file.BAD_CODEC, head=head[:RAW_BYTES])
            if reading.thorough:
                parquet_file.read_through(spooled)  # type: ignore[arg-type]
        except (DamageError, ValueError) as error:
            if isinstance(error, DamageError) and error.reason in compression.TOO_MUCH:
                raise
            return DetectedFile(reason=parquet_file.DAMAGED, head=head[:RAW_BYTES])
    return DetectedFile(container=PARQUET, avro=AvroFile(schema))


def _until_damage(plain: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the trusted chunks; the container itself shows that its end is missing."""
    try:
        yield from plain
    except DamageError as damage:
        if not damage.trusted:
            raise


def _unreadable(head: bytes, csv: bool) -> str:
    if plain_text.is_utf16(head):
        return _UTF16
    # Text with damaged places is still worth reading.
    named = csv and b"\0" not in head.partition(b"\n")[0]
    is_text = named or b"\0" not in head[: plain_text.HEAD_BYTES] or plain_text.is_text(head)
    return "" if is_text else _NOT_TEXT


def peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first chunk that is not empty, and an iterator over all of them."""
    filled = (chunk for chunk in chunks if chunk)
    first = list(islice(filled, 1))
    return b"".join(first), chain(first, filled)
