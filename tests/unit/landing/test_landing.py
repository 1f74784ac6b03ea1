"""Landed files: what is taken as it is, what is staged, what is rejected."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import os
import random
from dataclasses import replace

import fastavro
import pytest
import zstandard

from sluice.config.formats import WIRE_FORMATS
from sluice.config.pipeline import Pipeline
from sluice.containers.rejects import RAW_BYTES
from sluice.errors import UnstableFileError
from sluice.landing.reading import reading_of
from sluice.manifest import AVRO, JSON_LINES
from sluice.positions import arrival_of
from tests.unit.landing_folders import AVRO_SCHEMA, LINES, ROWS, Lake, avro_bytes, raw, reasons


def test_json_lines_are_taken_as_they_are(lake: Lake) -> None:
    look = lake.look(LINES, "dt=2026-03-01/hr=05/part-10.jsonl")
    file = look.file
    assert look.rejects == ()
    assert file.url == f"file://{lake.landing.folder}/dt=2026-03-01/hr=05/part-10.jsonl"
    assert (file.container, file.staged, file.hour) == (JSON_LINES, False, "20260301T05")
    assert (file.size, file.sha256) == (len(LINES), hashlib.sha256(LINES).hexdigest())
    assert file.arrival == arrival_of(file.key)


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("a.jsonl", b""),
        ("a.json", b'{"a":1}'),
        ("a", LINES),
        ("a.jsonl.gz", gzip.compress(LINES, mtime=0)),
        ("a.jsonl.gz", gzip.compress(LINES, mtime=0) + gzip.compress(LINES, mtime=0)),
        ("a.bz2", bz2.compress(LINES)),
        ("a b%20é#.jsonl", LINES),
    ],
)
def test_files_that_spark_reads_are_not_staged(lake: Lake, key: str, content: bytes) -> None:
    look = lake.look(content, key)
    assert not look.file.staged
    assert look.file.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("a.jsonl", gzip.compress(LINES, mtime=0)),
        ("a.GZ", gzip.compress(LINES, mtime=0)),
        ("a.gz", LINES),
        ("a.zst", LINES),
        ("a.jsonl.zst", zstandard.compress(LINES)),
        ("a.gz", gzip.compress(LINES, mtime=0) + bytes(100)),
        ("a.gz", bz2.compress(LINES)),
        ("a[1]{x}*.jsonl", LINES),
        ("2026-03-01T05:00/a.jsonl", LINES),
        ("a.jsonl", b'{"a":1}{"a":2}'),
        ("a.json", b'[{"a":1},\n{"a":2}]'),
        ("a.json", b'[\n{"a":1},\n{"a":2}\n]\n'),
        ("a.jsonl", b'\xef\xbb\xbf{"a":1}\n{"a":2}'),
        ("a.txt", b'/*\n * {licence}\n */\n{"a":1}\n{"a":2}\n'),
        ("a.jsonl", b'{"a":1}\r{"a":2}\r'),
    ],
)
def test_files_that_spark_would_misread_are_staged(lake: Lake, key: str, content: bytes) -> None:
    look = lake.look(content, key)
    assert lake.staged(look) == LINES
    assert look.rejects == ()
    assert look.file.sha256 == hashlib.sha256(content).hexdigest()


def test_a_bucket_may_have_names_that_hadoop_reads_as_others(lake: Lake) -> None:
    """With nothing between two slashes; here the folder reads such a name as Hadoop does."""
    lake.landing.put("x/a.jsonl", LINES)
    (found,) = lake.landing.list()
    listed = replace(found, key="x//a.jsonl")
    assert lake.staged(lake.inspector().inspect(listed)) == LINES


def test_staging_again_gives_the_same_copy(lake: Lake) -> None:
    one, two = lake.look(b'{"a":\n1}'), lake.look(b'{"a":\n1}')
    assert one.file.url == two.file.url
    assert lake.look(b'{"a":\n2}').file.url != one.file.url


def test_cut_gzip(lake: Lake) -> None:
    content = b"".join(
        b'{"n":%d,"h":"%s"}\n' % (n, os.urandom(9).hex().encode()) for n in range(999)
    )
    look = lake.look(gzip.compress(content)[:-300], "a.jsonl.gz")
    kept = lake.staged(look)
    assert content.startswith(kept)
    assert kept.endswith(b"}\n")
    assert reasons(look) == [(kept.count(b"\n") + 1, "truncated_gzip")]
    assert content.startswith(kept + raw(look))


def test_changed_gzip_is_not_trusted_at_all(lake: Lake) -> None:
    content = bytearray(gzip.compress(LINES * 1000))
    content[-7] ^= 1
    look = lake.look(bytes(content), "a.jsonl.gz")
    assert lake.staged(look) == b""
    assert reasons(look) == [(0, "damaged_gzip")]
    assert raw(look) == bytes(content)


def test_a_cut_last_line_stays_for_the_reader_to_reject(lake: Lake) -> None:
    assert not lake.look(LINES + b'{"a": "f').file.staged


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"a":1}'.encode("utf-16"), "utf16"),
        (b"PAR1\x00\x01", "not_json_nor_avro"),
    ],
)
def test_file_that_is_neither_json_nor_avro_is_one_reject(
    lake: Lake, content: bytes, reason: str
) -> None:
    look = lake.look(content)
    assert lake.staged(look) == b""
    assert reasons(look) == [(0, reason)]
    assert raw(look) == content


@pytest.mark.parametrize("content", [avro_bytes(), gzip.compress(avro_bytes(), mtime=0)])
def test_avro_is_one_reject_where_the_format_has_none(lake: Lake, content: bytes) -> None:
    look = lake.look(content, avro=False)
    assert (look.file.container, lake.staged(look)) == (JSON_LINES, b"")
    assert reasons(look) == [(0, "avro_of_another_format")]


def test_the_formats_that_read_avro_files() -> None:
    reading = {"debezium", "datastream", "datahub_tuple", "dts_avro", "aws_dms", "rows"}
    for name in WIRE_FORMATS:
        raw = {"name": "p", "format": name, "landing": {"url": "/l"}, "namespace": "n"}
        assert reading_of(Pipeline.model_validate(raw)).avro == (name in reading), name


RANDOM = random.Random(7).randbytes(1 << 16)
JAVA = (
    bytes.fromhex("aced0005737200116a6176612e7574696c2e486173684d6170") + b'\0\x10t\0\x0a{"a":1}\n'
)


@pytest.mark.parametrize("content", [RANDOM, RANDOM[1:], b"PAR1" + RANDOM, JAVA, b"\0" * 5000])
def test_binary_is_no_text_whatever_it_happens_to_hold(lake: Lake, content: bytes) -> None:
    held = content[:900] + b'\n{"a":1}\n1^{"a":1}' + content[900:]
    for binary in (content, held):
        assert reasons(lake.look(binary)) == [(0, "not_json_nor_avro")]


@pytest.mark.parametrize(
    "begins", ["", "1^", "****^", "k\t", "\ufeff", "/* c */ ", "\n", "/* c\n*/\n1^"]
)
@pytest.mark.parametrize("damaged", [b'{"a":"\0"}', b'\0{"a":1}', b'1^\0"a":1}'])
def test_a_zero_byte_near_the_beginning_costs_its_record(
    lake: Lake, begins: str, damaged: bytes
) -> None:
    whole = b"".join(b'%s{"a":%d}\n' % (b"1^" if "1^" in begins else b"", n) for n in (2, 3))
    look = lake.look(begins.encode() + damaged + b"\n" + whole)
    assert [reason for _, reason in reasons(look)] == ["unparseable_document"]
    assert b"\0" in raw(look)
    assert lake.staged(look).count(b'{"a":') == 2


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_recognised_by_its_zero_bytes(lake: Lake, codec: str) -> None:
    content = '{"a":"é€\U0001f600"}\n'.encode(codec) * 999
    assert reasons(lake.look(content)) == [(0, "utf16")]
    assert reasons(lake.look(b"\xff\xfe" + LINES)) == [(1, "invalid_utf8")]


def test_bytes_that_are_no_utf8_are_rejected_not_replaced(lake: Lake) -> None:
    look = lake.look(b'{"a":1}\n{"a":"\xe9"}\n{"a":2}\n')
    assert lake.staged(look) == LINES
    assert reasons(look) == [(2, "invalid_utf8")]
    assert raw(look) == b'{"a":"\xe9"}'


def test_avro(lake: Lake) -> None:
    look = lake.look(avro_bytes(), "a.avro")
    assert (look.file.container, look.file.staged) == (AVRO, False)
    assert json.loads(look.file.avro_schema)["name"] == "row"


def test_compressed_avro_is_staged(lake: Lake) -> None:
    content = avro_bytes()
    look = lake.look(gzip.compress(content), "a.avro.gz")
    assert look.file.url.endswith(".avro")
    assert lake.staged(look) == content


@pytest.mark.parametrize("cut", [1, 5000])
@pytest.mark.parametrize("packed", [False, True])
def test_cut_avro_keeps_whole_blocks(lake: Lake, cut: int, packed: bool) -> None:
    content = avro_bytes()[:-cut]
    look = lake.look(gzip.compress(content) if packed else content, "a.avro")
    kept = lake.staged(look)
    rows = list(fastavro.reader(io.BytesIO(kept)))
    assert rows == ROWS[: len(rows)]
    assert len(ROWS) > len(rows) > 1500
    assert reasons(look) == [(1, "truncated_avro")]
    assert kept + raw(look) == content


def test_cut_gzip_of_avro(lake: Lake) -> None:
    look = lake.look(gzip.compress(avro_bytes())[:-20], "a.avro.gz")
    rows = list(fastavro.reader(io.BytesIO(lake.staged(look))))
    assert rows == ROWS[: len(rows)]
    assert reasons(look) == [(1, "truncated_avro")]


def test_changed_avro_keeps_the_blocks_before(lake: Lake) -> None:
    content = bytearray(avro_bytes())
    content[-1] ^= 1
    look = lake.look(bytes(content), "a.avro")
    assert reasons(look) == [(1, "damaged_avro")]
    assert 0 < len(list(fastavro.reader(io.BytesIO(lake.staged(look))))) < len(ROWS)


@pytest.mark.parametrize("packed", [False, True])
def test_avro_with_a_damaged_frame_is_staged_without_its_block(lake: Lake, packed: bool) -> None:
    content = avro_bytes()
    first = content.index(content[-16:]) + 16
    changed = content[:first] + b"\x01" + content[first + 1 :]
    look = lake.look(gzip.compress(changed) if packed else changed, "a.avro")
    rows = list(fastavro.reader(io.BytesIO(lake.staged(look))))
    assert rows == ROWS[len(ROWS) - len(rows) :]
    assert len(ROWS) > len(rows) > 1500
    assert reasons(look) == [(1, "damaged_avro")]
    assert raw(look) == changed[first:][: len(raw(look))]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("cut", [4, 40, 60])
def test_a_file_that_is_cut_in_its_avro_header_is_no_container(
    lake: Lake, cut: int, packed: bool
) -> None:
    content = avro_bytes()[:cut]
    look = lake.look(gzip.compress(content) if packed else content, "a.avro")
    assert (look.file.container, look.file.avro_schema) == (JSON_LINES, "")
    assert reasons(look) == [(0, "truncated_avro")]
    assert raw(look) == content
    assert lake.staged(look) == b""


def test_a_damaged_avro_header_refuses_its_file(lake: Lake) -> None:
    content = avro_bytes().replace(b"avro.schema", b"avro.scheme", 1)
    look = lake.look(content, "a.avro")
    assert (look.file.container, reasons(look)) == (JSON_LINES, [(0, "damaged_avro")])
    assert raw(look) == content[:RAW_BYTES]


@pytest.mark.parametrize("more", [b"", b"\x02"])
def test_an_avro_header_without_a_whole_block_is_a_container(lake: Lake, more: bytes) -> None:
    out = io.BytesIO()
    fastavro.writer(out, AVRO_SCHEMA, [])
    look = lake.look(out.getvalue() + more, "a.avro")
    assert (look.file.container, look.file.staged) == (AVRO, bool(more))
    assert reasons(look) == [(1, "truncated_avro")] * bool(more)


def test_a_file_that_grows_is_left_for_later(lake: Lake) -> None:
    lake.landing.put("a", LINES)
    (found,) = lake.landing.list()
    lake.landing.put("a", LINES + LINES)
    with pytest.raises(UnstableFileError, match="still being written"):
        lake.inspector().inspect(found)


def test_a_file_of_which_more_is_read_than_was_listed_is_left_for_later(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.landing.put("a", LINES)
    (found,) = lake.landing.list()
    monkeypatch.setattr(type(lake.landing), "open", lambda *_: io.BytesIO(LINES + LINES))
    with pytest.raises(UnstableFileError):
        lake.inspector().inspect(found)


def test_a_file_that_is_written_again_before_it_is_staged_is_left_for_later(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is staged for its name, in a second reading."""
    lake.landing.put("a:b", LINES)
    (found,) = lake.landing.list()
    readings = iter((LINES, LINES[::-1]))
    monkeypatch.setattr(type(lake.landing), "open", lambda *_: io.BytesIO(next(readings)))
    with pytest.raises(UnstableFileError, match="while it was looked at"):
        lake.inspector().inspect(found)


def test_a_file_that_another_of_its_size_replaced_is_not_taken_for_the_one_listed(
    lake: Lake,
) -> None:
    lake.landing.put("a", LINES)
    (found,) = lake.landing.list()
    os.utime(lake.landing.folder / "a", ns=(1, 1))
    with pytest.raises(UnstableFileError, match="written again"):
        lake.inspector().inspect(found)


def test_a_file_that_is_gone(lake: Lake) -> None:
    lake.landing.put("a", LINES)
    (found,) = lake.landing.list()
    lake.landing.delete_prefix("a")
    with pytest.raises(UnstableFileError, match="gone"):
        lake.inspector().inspect(found)
