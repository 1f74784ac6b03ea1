"""Files that unfold to far more than they are: in bounded memory, and refused as a whole."""

from __future__ import annotations

import base64
import bz2
import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard

from sluice.bounds import DEFAULT, MEBIBYTE, Bounds, rejects_of
from sluice.containers.compression import DamageError, Plain
from sluice.containers.csv_rows import CsvStyle
from sluice.containers.json_documents import Rejected
from sluice.containers.rejects import (
    RAW_BYTES,
    RAW_BYTES_OF_A_BATCH,
    RAW_BYTES_OF_A_FILE,
    SHORT_RAW_BYTES,
    BatchRejects,
    Rejects,
)
from sluice.manifest import JSON_LINES, LandingReject
from tests.unit.landing_folders import LINES, Lake, avro_bytes, raw, reasons

UNFOLDED = 32 * MEBIBYTE
STEP = 9 * MEBIBYTE
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 9),
    "bzip2": bz2.compress,
    "zstd": zstandard.ZstdCompressor(level=3).compress,
}
ENDINGS = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst"}
SPACES = {name: compress(b" " * UNFOLDED) for name, compress in COMPRESS.items()}
NO_BOMB = Bounds(ratio=10**9)


@pytest.mark.parametrize("name", sorted(COMPRESS))
def test_bytes_unfold_a_few_at_a_time(name: str) -> None:
    tracemalloc.start()
    try:
        sizes = [len(plain) for plain in Plain(iter([SPACES[name]]), name, DEFAULT)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(sizes) == UNFOLDED
    assert min(sizes) > 0
    assert max(sizes) < STEP
    assert peak < 3 * STEP


@pytest.mark.parametrize("name", sorted(COMPRESS))
@pytest.mark.parametrize("size", [MEBIBYTE - 1, MEBIBYTE, MEBIBYTE + 1, 3 * MEBIBYTE])
@pytest.mark.parametrize("piece", [1, 1000, 1 << 20])
def test_all_bytes_come_where_a_step_ends_with_the_file(name: str, size: int, piece: int) -> None:
    plain = b" " * (size - 9) + b"123456789"
    packed = COMPRESS[name](plain)
    pieces = (packed[at : at + piece] for at in range(0, len(packed), piece))
    assert b"".join(Plain(pieces, name, DEFAULT)) == plain


def test_a_zstd_window_beyond_the_ceiling_is_damage() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(LINES) + packer.flush()
    with pytest.raises(DamageError, match="damaged_zstd"):
        list(Plain(iter([packed]), "zstd", DEFAULT))


@pytest.mark.parametrize("name", sorted(COMPRESS))
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(ratio=100, ratio_from=MEBIBYTE),
        Bounds(plain_bytes=20 * MEBIBYTE, ratio=10**9),
    ],
)
def test_a_bomb_is_one_reject_and_nothing_of_it_is_loaded(
    lake: Lake, name: str, bounds: Bounds
) -> None:
    content = COMPRESS[name](LINES + b" " * 30 * MEBIBYTE)
    look = lake.look(content, f"a.jsonl.{ENDINGS[name]}", bounds=bounds)
    assert reasons(look) == [(0, "decompression_bomb")]
    assert (look.file.container, lake.staged(look)) == (JSON_LINES, b"")
    assert raw(look) == content[:RAW_BYTES]
    assert look.rejects[0].records == 1


def test_the_ratio_is_looked_at_in_large_files_alone(lake: Lake) -> None:
    content = gzip.compress(LINES * 10_000)
    assert lake.look(content, "a.jsonl.gz", bounds=Bounds(ratio=2)).rejects == ()
    assert lake.look(LINES * 9, "a.jsonl", bounds=Bounds(plain_bytes=9)).rejects == ()


def test_compressed_avro_or_parquet_bomb_is_one_reject(lake: Lake) -> None:
    bounds = Bounds(plain_bytes=MEBIBYTE)
    for begins in (avro_bytes(), b"PAR1"):
        content = gzip.compress(begins + bytes(2 * MEBIBYTE))
        look = lake.look(content, "a.gz", bounds=bounds, tables=CsvStyle())
        assert reasons(look) == [(0, "decompression_bomb")]
        assert lake.staged(look) == b""


def test_a_length_in_an_avro_header_takes_no_memory(lake: Lake) -> None:
    packer = zlib.compressobj(1, wbits=31)
    head = b"Obj\x01\x02" + b"\x80" * 5 + b"\x40"  # one entry, a key of 2^40 bytes
    content = packer.compress(head + bytes(UNFOLDED)) + packer.flush()
    tracemalloc.start()
    try:
        look = lake.look(content, "a.avro.gz", bounds=NO_BOMB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reasons(look) == [(0, "damaged_avro")]
    assert peak < UNFOLDED // 2


def test_rejects_are_kept_one_by_one_up_to_their_ceiling(lake: Lake) -> None:
    content = b'{"a":"\xe9"}\n' * 7 + LINES
    look = lake.look(content, bounds=Bounds(rejects=7))
    assert reasons(look) == [(at, "invalid_utf8") for at in range(1, 8)]
    assert lake.staged(look) == LINES


def test_file_with_too_many_rejects_is_one_reject_with_their_number(lake: Lake) -> None:
    content = LINES + b'{"a":"\xe9"}\n' * 7 + b'{"a":"\\ud800"}\n' + LINES
    look = lake.look(content, bounds=Bounds(rejects=7))
    assert reasons(look) == [(0, "too_many_rejects: invalid_utf8 7, lone_surrogate 1")]
    assert (look.rejects[0].records, raw(look)) == (8, content)
    assert lake.staged(look) == b""
    assert (look.file.size, look.file.container) == (len(content), JSON_LINES)


def test_a_file_of_too_many_bad_datums_is_no_container_any_more(lake: Lake) -> None:
    content = (99).to_bytes(4, "big") + b"\0" * 9
    look = lake.look(content, framing="length_prefixed", bounds=Bounds(rejects=0))
    assert reasons(look) == [(0, "too_many_rejects: truncated_datum 1")]
    assert (look.file.container, look.file.avro_schema) == (JSON_LINES, "")
    assert lake.staged(look) == b""


def test_a_file_of_nothing_but_rejects_takes_little_memory(lake: Lake) -> None:
    content = b'{"name":"caf\xe9 ' + b"x" * 200 + b'"}\n'
    tracemalloc.start()
    try:
        look = lake.look(content * 9_000, limit=1 << 16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reasons(look) == [(0, "too_many_rejects: invalid_utf8 9000")]
    assert len(raw(look)) == RAW_BYTES
    assert peak < 12 * MEBIBYTE


def test_the_texts_of_a_files_rejects_are_bounded_together() -> None:
    rejects = Rejects("a.jsonl", 1000, b"")
    for record in range(300):
        rejects.add(record, Rejected("invalid_utf8", bytes(2 * RAW_BYTES)))
    sizes = [len(base64.b64decode(reject.raw_base64)) for reject in rejects.all()]
    whole = RAW_BYTES_OF_A_FILE // RAW_BYTES
    assert sizes == [RAW_BYTES] * whole + [SHORT_RAW_BYTES] * (300 - whole)


@pytest.mark.parametrize(("asked", "kept"), [(0, 1000), (5000, 5001), (10**9, 10_000)])
def test_as_many_rejects_of_a_file_are_kept_as_a_batch_may_have(asked: int, kept: int) -> None:
    assert rejects_of(asked) == kept


def rejects_of_one_file(name: str, size: int, *reasons: str) -> tuple[LandingReject, ...]:
    text = base64.b64encode(bytes(size)).decode()
    return tuple(LandingReject(name, at, reason, text) for at, reason in enumerate(reasons))


def test_rejects_above_a_batchs_ceiling_are_counted_for_each_file() -> None:
    batch = BatchRejects(most=3)
    first = rejects_of_one_file("a", 1, *["invalid_utf8"] * 3)
    assert batch.take(first) == first
    (counted,) = batch.take(rejects_of_one_file("b", 1, "invalid_utf8", "lone_surrogate"))
    assert (counted.key, counted.records) == ("b", 2)
    assert counted.reason == "too_many_rejects: invalid_utf8 1, lone_surrogate 1"
    alone = rejects_of_one_file("c", 1, "utf16")
    assert batch.take(alone) == alone


def test_the_texts_of_a_batchs_rejects_are_bounded_together() -> None:
    batch = BatchRejects(most=10**9)
    files = RAW_BYTES_OF_A_BATCH // RAW_BYTES
    for number in range(files + 5):
        (kept,) = batch.take(rejects_of_one_file(f"{number}", RAW_BYTES, "invalid_utf8"))
        size = len(base64.b64decode(kept.raw_base64))
        assert size == (RAW_BYTES if number < files else SHORT_RAW_BYTES)


def test_a_csv_file_whose_copy_is_far_larger_is_refused(lake: Lake) -> None:
    names = b",".join(b"n%d" % n + b"x" * 2000 for n in range(10))
    content = names + b"\n" + b"1,1,1,1,1,1,1,1,1,1\n" * 2500
    for bounds in (Bounds(staged_bytes=MEBIBYTE), Bounds(ratio=10, ratio_from=MEBIBYTE)):
        look = lake.look(content, "a.csv", tables=CsvStyle(), bounds=bounds)
        assert reasons(look) == [(0, "staged_copy_too_large")]
        assert (lake.staged(look), raw(look)) == (b"", content[:RAW_BYTES])
    assert lake.look(content, "a.csv", tables=CsvStyle()).rejects == ()
