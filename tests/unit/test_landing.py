"""Landed files: listing, hours, what is taken as it is, what is staged, what is rejected."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import io
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pytest
import zstandard

from sluice import datums
from sluice.errors import ConfigError, TerminalError, Unsettled
from sluice.landing import AVRO, JSONL, Inspection, inspect
from sluice.positions import natural_key
from sluice.reading import Reading
from sluice.store import LocalStore, StoredObject, glob_pattern, is_hidden, open_store

LINES = b'{"a":1}\n{"a":2}\n'
ROWS = [{"id": n, "t": "x" * 100} for n in range(2000)]
AVRO_SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "t", "type": "string"}],
}


def avro_bytes() -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, AVRO_SCHEMA, ROWS, sync_interval=10_000)
    return out.getvalue()


class Lake:
    """A landing folder and a staging folder."""

    def __init__(self, root: Path) -> None:
        self.landing = LocalStore(root / "landing")
        self.staging = LocalStore(root / "staging")

    def look(
        self, content: bytes, key: str = "x/file.jsonl", limit: int = 1 << 20, framing: str = ""
    ) -> Inspection:
        self.landing.put(key, content)
        found = next(o for o in self.landing.list() if o.key == key)
        return inspect(
            self.landing, self.staging, found, "shop/staged/", Reading(limit, framing=framing)
        )

    def staged(self, look: Inspection) -> bytes:
        assert look.file.staged
        name = look.file.url.removeprefix(f"file://{self.staging.folder}/")
        assert name.startswith("shop/staged/")
        return self.staging.get(name)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def reasons(look: Inspection) -> list[tuple[int, str]]:
    return [(r.record, r.reason) for r in look.rejects]


def raw(look: Inspection, number: int = 0) -> bytes:
    return base64.b64decode(look.rejects[number].raw_base64)


def test_json_lines_are_taken_as_they_are(lake: Lake) -> None:
    look = lake.look(LINES, "dt=2026-03-01/hr=05/part-10.jsonl")
    file = look.file
    assert look.rejects == ()
    assert file.url == f"file://{lake.landing.folder}/dt=2026-03-01/hr=05/part-10.jsonl"
    assert (file.container, file.staged, file.hour) == (JSONL, False, "20260301T05")
    assert (file.size, file.sha256) == (len(LINES), hashlib.sha256(LINES).hexdigest())
    assert file.arrival == natural_key(file.key)


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("a.jsonl", b""),
        ("a.json", b'{"a":1}'),
        ("a", LINES),
        ("a.jsonl.gz", gzip.compress(LINES)),
        ("a.jsonl.gz", gzip.compress(LINES) + gzip.compress(LINES)),
        ("a.bz2", bz2.compress(LINES)),
        ("a b%20é#.jsonl", LINES),
    ],
)
def test_what_spark_reads(lake: Lake, key: str, content: bytes) -> None:
    look = lake.look(content, key)
    assert not look.file.staged
    assert look.file.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("a.jsonl", gzip.compress(LINES)),
        ("a.GZ", gzip.compress(LINES)),
        ("a.gz", LINES),
        ("a.zst", LINES),
        ("a.jsonl.zst", zstandard.compress(LINES)),
        ("a.gz", gzip.compress(LINES) + bytes(100)),
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
def test_what_spark_would_misread_is_staged(lake: Lake, key: str, content: bytes) -> None:
    look = lake.look(content, key)
    assert lake.staged(look) == LINES
    assert look.rejects == ()
    assert look.file.sha256 == hashlib.sha256(content).hexdigest()


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
    assert reasons(look) == [(kept.count(b"\n"), "truncated_gzip")]
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
def test_what_is_neither(lake: Lake, content: bytes, reason: str) -> None:
    look = lake.look(content)
    assert lake.staged(look) == b""
    assert reasons(look) == [(0, reason)]
    assert raw(look) == content


def test_bytes_that_are_no_utf8_are_rejected_not_replaced(lake: Lake) -> None:
    look = lake.look(b'{"a":1}\n{"a":"\xe9"}\n{"a":2}\n')
    assert lake.staged(look) == LINES
    assert reasons(look) == [(1, "invalid_utf8")]
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
    assert reasons(look) == [(0, "truncated_avro")]
    assert kept + raw(look) == content


def test_cut_gzip_of_avro(lake: Lake) -> None:
    look = lake.look(gzip.compress(avro_bytes())[:-20], "a.avro.gz")
    rows = list(fastavro.reader(io.BytesIO(lake.staged(look))))
    assert rows == ROWS[: len(rows)]
    assert reasons(look) == [(0, "truncated_avro")]


def test_changed_avro_keeps_the_blocks_before(lake: Lake) -> None:
    content = bytearray(avro_bytes())
    content[-1] ^= 1
    look = lake.look(bytes(content), "a.avro")
    assert reasons(look) == [(0, "damaged_avro")]
    assert 0 < len(list(fastavro.reader(io.BytesIO(lake.staged(look))))) < len(ROWS)


def test_cut_avro_header(lake: Lake) -> None:
    look = lake.look(avro_bytes()[:40], "a.avro")
    assert reasons(look) == [(0, "truncated_avro")]
    assert lake.staged(look) == b""


DATUMS = (b"\0one", b"", b"\0\0" * 40_000, b"no zero in it")
PREFIXED = b"".join(len(d).to_bytes(4, "big") + d for d in DATUMS)


def staged_datums(lake: Lake, look: Inspection) -> list[bytes]:
    assert (look.file.container, look.file.avro_schema) == (AVRO, datums.SCHEMA)
    return [row[datums.COLUMN] for row in fastavro.reader(io.BytesIO(lake.staged(look)))]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_datums_each_after_its_length(lake: Lake, pack: Callable[[bytes], bytes]) -> None:
    look = lake.look(pack(PREFIXED), "d.bin", framing=datums.LENGTH_PREFIXED)
    assert staged_datums(lake, look) == list(DATUMS)
    assert look.rejects == ()
    again = lake.look(pack(PREFIXED), "d.bin", framing=datums.LENGTH_PREFIXED)
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
    look = lake.look(content, "d.bin", framing=datums.LENGTH_PREFIXED)
    assert staged_datums(lake, look) == list(DATUMS[:kept])
    assert (reasons(look), raw(look)) == ([(kept, reason)], rest)


def test_datums_of_a_cut_archive(lake: Lake) -> None:
    noise = hashlib.sha512(b"1").digest() * 1000
    packed = gzip.compress(PREFIXED + len(noise).to_bytes(4, "big") + noise)
    look = lake.look(packed[:-20], "d.gz", framing=datums.LENGTH_PREFIXED)
    assert staged_datums(lake, look) == list(DATUMS)
    assert reasons(look) == [(4, "truncated_gzip")]
    look = lake.look(packed[:-20], "one.gz", framing=datums.ONE_PER_FILE)
    assert (staged_datums(lake, look), reasons(look)) == ([], [(0, "truncated_gzip")])


def test_a_datum_above_the_limit(lake: Lake) -> None:
    look = lake.look(b"\0" * 2001, "d.bin", limit=2000, framing=datums.ONE_PER_FILE)
    assert (staged_datums(lake, look), reasons(look)) == ([], [(0, "document_too_large")])


@pytest.mark.parametrize("framing", datums.FRAMINGS)
def test_other_files_of_a_format_with_datums(lake: Lake, framing: str) -> None:
    look = lake.look(LINES, "a.jsonl", framing=framing)
    assert (look.file.container, look.file.staged) == (JSONL, False)
    look = lake.look(avro_bytes(), "a.avro", framing=framing)
    assert (look.file.container, look.file.staged) == (AVRO, False)
    assert lake.look(b"", "empty", framing=framing).rejects == ()


def test_bytes_are_no_datums_elsewhere(lake: Lake) -> None:
    assert reasons(lake.look(PREFIXED, "d.bin")) == [(0, "not_json_nor_avro")]


def test_framings_are_those_that_there_are() -> None:
    assert datums.framing_of({}) == datums.ONE_PER_FILE
    assert datums.framing_of({"framing": "length_prefixed"}) == datums.LENGTH_PREFIXED
    with pytest.raises(ConfigError, match="expected one of one_per_file, length_prefixed"):
        datums.framing_of({"framing": "x"})


def test_a_file_that_grows_is_left_for_later(lake: Lake) -> None:
    lake.landing.put("a", LINES)
    (found,) = lake.landing.list()
    lake.landing.put("a", LINES + LINES)
    with pytest.raises(Unsettled, match="still being written"):
        inspect(lake.landing, lake.staging, found, "s/")


def test_a_file_that_is_gone(lake: Lake) -> None:
    lake.landing.put("a", LINES)
    (found,) = lake.landing.list()
    lake.landing.delete_prefix("a")
    with pytest.raises(Unsettled, match="gone"):
        inspect(lake.landing, lake.staging, found, "s/")


@pytest.mark.parametrize(
    ("key", "hour"),
    [
        ("dt=2026-03-01/hr=05/a", "20260301T05"),
        ("topic/dt=2026-03-01/hr=5/a", "20260301T05"),
        ("topic/dt=2026-03-01/hour=23/a", "20260301T23"),
        ("dt=2026-13-01/hr=05/a", "20260704T11"),
        ("dt=2026-03-01/hr=24/a", "20260704T11"),
        ("dt=2026-03-01/a", "20260704T11"),
        ("xdt=2026-03-01/hr=05/a", "20260704T11"),
    ],
)
def test_hour(key: str, hour: str) -> None:
    modified = datetime(2026, 7, 4, 11, 59, tzinfo=UTC)
    assert StoredObject(key, 1, "", "", modified).hour == hour


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("**/*.jsonl*", ["a.jsonl", "x/a.jsonl.gz", "x/y/a.jsonl"], ["a.json", "x/a.avro"]),
        ("*.json", ["a.json"], ["x/a.json"]),
        ("x/**", ["x/a", "x/y/a"], ["a", "xx/a"]),
        ("dt=*/hr=0?/[ab]*", ["dt=1/hr=01/a", "dt=1/hr=02/bc"], ["dt=1/hr=10/a", "dt=1/hr=01/c"]),
        ("a+(b).txt", ["a+(b).txt"], ["aab.txt"]),
        ("[!x]*", ["a"], ["x"]),
    ],
)
def test_glob(pattern: str, matches: list[str], others: list[str]) -> None:
    found = glob_pattern(pattern)
    assert [key for key in matches if not found.fullmatch(key)] == []
    assert [key for key in others if found.fullmatch(key)] == []


def test_hidden_names_are_left_alone(lake: Lake) -> None:
    for key in ("a", "x/b", "_tmp/c", "x/.d", "_SUCCESS", "_day=1/e"):
        lake.landing.put(key, b"1")
    assert sorted(o.key for o in lake.landing.list()) == ["_day=1/e", "a", "x/b"]
    assert is_hidden("x/_y/z")


def test_links_out_of_the_folder_are_no_objects(lake: Lake, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    lake.landing.put("real", LINES)
    (lake.landing.folder / "out").symlink_to(outside)
    (lake.landing.folder / "in").symlink_to(lake.landing.folder / "real")
    assert sorted(o.key for o in lake.landing.list()) == ["in", "real"]
    with pytest.raises(TerminalError, match="leads out of"):
        lake.landing.get("out")
    with pytest.raises(TerminalError, match="leads out of"):
        lake.landing.put("../outside", b"")


def test_changed_file_has_another_etag(lake: Lake) -> None:
    lake.landing.put("a", b"1")
    (before,) = lake.landing.list()
    path = lake.landing.folder / "a"
    path.write_bytes(b"2")
    os.utime(path, ns=(1, 1_000_000_000))
    (after,) = lake.landing.list()
    assert before.etag != after.etag
    assert after.modified == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_put_if_absent(lake: Lake) -> None:
    assert lake.staging.put_if_absent("b/manifest.json", b"one")
    assert not lake.staging.put_if_absent("b/manifest.json", b"two")
    assert lake.staging.get("b/manifest.json") == b"one"
    assert [p.name for p in (lake.staging.folder / "b").iterdir()] == ["manifest.json"]


def test_delete_prefix(lake: Lake) -> None:
    for key in ("p/b1/m", "p/b1/staged/x", "p/b10/m"):
        lake.staging.put(key, b"")
    lake.staging.delete_prefix("p/b1/")
    assert [o.key for o in lake.staging.list()] == ["p/b10/m"]
    lake.staging.delete_prefix("p/b1")
    assert list(lake.staging.list()) == []
    lake.staging.delete_prefix("nothing/")


def test_an_absent_folder_is_empty(tmp_path: Path) -> None:
    assert list(open_store(str(tmp_path / "none")).list()) == []
    with pytest.raises(FileNotFoundError):
        open_store(str(tmp_path / "none")).get("x")
