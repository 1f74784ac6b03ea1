"""Bare Avro datums land in a container of bytes, where the format has them."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
from collections.abc import Callable
from typing import Any, get_args

import fastavro
import pytest
import zstandard

from sluice.config.format_options import Framing
from sluice.containers import datums
from sluice.landing.inspection import Inspection
from sluice.manifest import AVRO, JSON_LINES
from tests.unit.landing_folders import LINES, Lake, avro_bytes, raw, reasons

DATUMS = (b"\0one", b"", b"\0\0" * 40_000, b"no zero in it")
PREFIXED = b"".join(len(d).to_bytes(4, "big") + d for d in DATUMS)


def staged_datums(lake: Lake, look: Inspection) -> list[bytes]:
    assert (look.file.container, look.file.avro_schema) == (AVRO, datums.SCHEMA)
    rows: Any = fastavro.reader(io.BytesIO(lake.staged(look)))
    return [row[datums.COLUMN] for row in rows]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_datums_each_after_its_length(lake: Lake, pack: Callable[[bytes], bytes]) -> None:
    content = pack(PREFIXED)  # once: gzip writes down the time
    look = lake.look(content, "d.bin", framing="length_prefixed")
    assert staged_datums(lake, look) == list(DATUMS)
    assert look.rejects == ()
    again = lake.look(content, "d.bin", framing="length_prefixed")
    assert (lake.staged(again), again.file.url) == (lake.staged(look), look.file.url)


def test_one_datum_a_file(lake: Lake) -> None:
    look = lake.look(PREFIXED, "d.bin", framing=datums.ONE_PER_FILE)
    assert staged_datums(lake, look) == [PREFIXED]
    assert look.file.key == "d.bin"


@pytest.mark.parametrize(
    ("content", "kept", "reason", "rest"),
    [
        (PREFIXED[:-1], 3, "truncated_datum", PREFIXED[-17:-1]),
        (PREFIXED + b"\0\0", 4, "truncated_datum", b"\0\0"),
        (PREFIXED + b"\xff" * 9, 4, "document_too_large", b"\xff" * 9),
    ],
)
def test_datums_before_the_damage(
    lake: Lake, content: bytes, kept: int, reason: str, rest: bytes
) -> None:
    look = lake.look(content, "d.bin", framing="length_prefixed")
    assert staged_datums(lake, look) == list(DATUMS[:kept])
    assert (reasons(look), raw(look)) == ([(kept + 1, reason)], rest)


@pytest.mark.parametrize("cut", [b"\1", b"\1\0", b"\1\0\0"])
def test_a_cut_length_is_no_large_one(lake: Lake, cut: bytes) -> None:
    look = lake.look(b"\0\0\0\1a" + cut, "d.bin", limit=100, framing="length_prefixed")
    assert staged_datums(lake, look) == [b"a"]
    assert (reasons(look), raw(look)) == ([(2, "truncated_datum")], cut)


def test_datums_of_a_cut_archive(lake: Lake) -> None:
    noise = hashlib.sha512(b"1").digest() * 1000
    packed = gzip.compress(PREFIXED + len(noise).to_bytes(4, "big") + noise)
    look = lake.look(packed[:-20], "d.gz", framing="length_prefixed")
    assert staged_datums(lake, look) == list(DATUMS)
    assert reasons(look) == [(5, "truncated_gzip")]
    look = lake.look(packed[:-20], "one.gz", framing=datums.ONE_PER_FILE)
    assert (staged_datums(lake, look), reasons(look)) == ([], [(1, "truncated_gzip")])


def test_a_datum_above_the_limit(lake: Lake) -> None:
    look = lake.look(b"\0" * 2001, "d.bin", limit=2000, framing=datums.ONE_PER_FILE)
    assert (staged_datums(lake, look), reasons(look)) == ([], [(1, "document_too_large")])


@pytest.mark.parametrize("framing", get_args(Framing))
def test_other_files_of_a_format_with_datums(lake: Lake, framing: str) -> None:
    look = lake.look(LINES, "a.jsonl", framing=framing)
    assert (look.file.container, look.file.staged) == (JSON_LINES, False)
    look = lake.look(avro_bytes(), "a.avro", framing=framing)
    assert (look.file.container, look.file.staged) == (AVRO, False)
    assert lake.look(b"", "empty", framing=framing).rejects == ()


@pytest.mark.parametrize("framing", get_args(Framing))
def test_lines_with_a_damaged_place_are_lines(lake: Lake, framing: str) -> None:
    damaged = LINES + b'{"id": "\0"}\n' + LINES
    for content in (damaged, codecs.BOM_UTF8 + damaged):
        assert lake.look(content, "a.jsonl", framing=framing).file.container == JSON_LINES
    assert reasons(lake.look("{}".encode("utf-16"), "b.jsonl", framing=framing)) == [(0, "utf16")]


def test_bytes_are_no_datums_elsewhere(lake: Lake) -> None:
    assert reasons(lake.look(PREFIXED, "d.bin")) == [(0, "not_json_nor_avro")]
