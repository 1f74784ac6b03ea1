"""Small files of Avro and Parquet that say they hold, or unfold to, more than anybody loads."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from sluice.bounds import MEBIBYTE, Bounds
from sluice.containers.csv_rows import CsvStyle
from sluice.landing.inspection import Inspection
from sluice.manifest import AVRO, PARQUET
from tests.avro_blocks import deflated, snappy, varint
from tests.unit.landing_folders import AVRO_SCHEMA, ROWS, Lake

SYNC = b"0123456789abcdef"
EMPTY = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "null"}]}
TEXT = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}


def streamed_zstd(plain: bytes) -> bytes:
    """As Java writes it: the frame does not tell how long it is."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(plain) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "deflate": deflated,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "snappy": snappy,
    "zstandard": streamed_zstd,
}


def avro(schema: Any, codec: str, *blocks: tuple[int, bytes]) -> bytes:
    """A container of these blocks, each a number of records and a body."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [], codec="null", sync_marker=SYNC)
    header = out.getvalue().replace(b"\x14avro.codec\x08null", b"\x14avro.codec" + named(codec))
    assert named(codec) in header
    body = b"".join(varint(n) + varint(len(part)) + part + SYNC for n, part in blocks)
    return header + body


def named(codec: str) -> bytes:
    return varint(len(codec)) + codec.encode()


def reasons(look: Inspection) -> list[str]:
    return [reject.reason for reject in look.rejects]


def test_a_block_of_more_records_than_bytes_could_hold_is_refused(lake: Lake) -> None:
    """Each record takes nothing, and Spark went on to make them for ever."""
    for block in ((2**62 - 1, b""), (10**9, b"\0" * 1000)):
        look = lake.look(avro(EMPTY, "null", (1, b""), block, (2, b"")), "a.avro")
        assert reasons(look) == ["too_many_rows"]
        assert list(fastavro.reader(io.BytesIO(lake.staged(look)))) == [{"a": None}] * 3
    assert reasons(lake.look(avro(EMPTY, "null", (1_000_000, b"")), "a.avro")) == []


def test_file_of_many_blocks_without_bytes_is_refused(lake: Lake) -> None:
    look = lake.look(avro(EMPTY, "null", *[(9_000_000, b"")] * 2), "a.avro")
    assert reasons(look) == ["too_many_rows"]
    assert lake.staged(look) == b""


@pytest.mark.parametrize("codec", PACKERS)
def test_a_block_that_unfolds_beyond_what_a_driver_holds_is_refused(lake: Lake, codec: str) -> None:
    bounds = Bounds(block_bytes=2 * MEBIBYTE)
    for size, expected in ((MEBIBYTE, []), (3 * MEBIBYTE, ["decompression_bomb"])):
        body = PACKERS[codec](varint(size) + bytes(size))
        small = PACKERS[codec](varint(1) + b"a")
        content = avro(TEXT, codec, (1, small), (1, body), (1, small))
        look = lake.look(content, "a.avro", bounds=bounds)
        assert reasons(look) == expected
        if expected:
            assert lake.staged(look) == avro(TEXT, codec, (1, small), (1, small))


@pytest.mark.parametrize("codec", PACKERS)
def test_blocks_count_together(lake: Lake, codec: str) -> None:
    bounds = Bounds(ratio=10, ratio_from=4 * MEBIBYTE, block_bytes=2 * MEBIBYTE)
    body = PACKERS[codec](varint(MEBIBYTE) + bytes(MEBIBYTE))
    for count, expected in ((3, []), (5, ["decompression_bomb"])):
        look = lake.look(avro(TEXT, codec, *[(1, body)] * count), "a.avro", bounds=bounds)
        assert reasons(look) == expected


def test_block_larger_than_memory_is_refused_while_it_unfolds(lake: Lake) -> None:
    size = 300 * MEBIBYTE
    packer = zlib.compressobj(1, wbits=-15)
    step = bytes(MEBIBYTE)
    parts = [packer.compress(varint(size)), *(packer.compress(step) for _ in range(300))]
    look = lake.look(avro(TEXT, "deflate", (1, b"".join([*parts, packer.flush()]))), "a.avro")
    assert reasons(look) == ["decompression_bomb"]


@pytest.mark.parametrize("codec", PACKERS)
def test_a_damaged_block_is_no_bomb(lake: Lake, codec: str) -> None:
    """Whether it can be decoded is asked where a load could not."""
    body = PACKERS[codec](b"\x02" * 1000)
    for wrong in (body[:-3], b"", b"\xff" * 9):
        look = lake.look(avro(TEXT, codec, (1, wrong)), "a.avro")
        assert reasons(look) == []


@pytest.mark.parametrize("codec", ["null", *PACKERS])
def test_rows_that_are_all_the_same_are_sound(lake: Lake, codec: str) -> None:
    record = io.BytesIO()
    fastavro.schemaless_writer(record, AVRO_SCHEMA, ROWS[0])
    body = PACKERS.get(codec, bytes)(record.getvalue() * 1000)
    look = lake.look(avro(AVRO_SCHEMA, codec, *[(1000, body)] * 1000), "a.avro")
    assert (reasons(look), look.file.container) == ([], AVRO)


def parquet(table: pa.Table, **more: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **more)
    return out.getvalue()


def test_parquet_of_more_rows_than_bytes_could_hold_is_refused(lake: Lake) -> None:
    """Nulls take nothing, however many."""
    content = parquet(pa.table({"a": pa.nulls(3_000_000, pa.int8())}), row_group_size=1_500_000)
    look = lake.look(content, "a.parquet", tables=CsvStyle(), bounds=Bounds(rows_from=1_000_000))
    assert reasons(look) == ["too_many_rows"]
    assert lake.staged(look) == b""
    assert reasons(lake.look(content, "a.parquet", tables=CsvStyle())) == []


@pytest.mark.parametrize(
    "bounds", [Bounds(ratio=10, ratio_from=MEBIBYTE), Bounds(plain_bytes=2 * MEBIBYTE)]
)
def test_parquet_that_unfolds_too_far_is_refused(lake: Lake, bounds: Bounds) -> None:
    table = pa.table({"a": ["x" * MEBIBYTE + str(n) for n in range(3)]})
    content = parquet(table, compression="zstd", use_dictionary=False)
    look = lake.look(content, "a.parquet", tables=CsvStyle(), bounds=bounds)
    assert reasons(look) == ["decompression_bomb"]
    plain = parquet(table, compression="none", use_dictionary=False)
    look = lake.look(plain, "a.parquet", tables=CsvStyle(), bounds=Bounds(ratio=10, ratio_from=9))
    assert reasons(look) == []


def test_parquet_of_many_equal_rows_is_sound(lake: Lake) -> None:
    """A writer has them in a few bytes."""
    rows = 4_000_000
    numbers = pa.array(range(rows), pa.int64())
    same = pa.DictionaryArray.from_arrays(pa.array(bytes(rows), pa.int8()), ["x" * 100])
    for table in (pa.table({"a": same, "b": numbers}), pa.table({"a": same})):
        content = parquet(table, compression="zstd")
        look = lake.look(content, "a.parquet", tables=CsvStyle())
        assert (reasons(look), look.file.container) == ([], PARQUET)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_table_of_numbers_alone_is_sound(lake: Lake, compression: str) -> None:
    """As differences they take next to nothing: no column packs better of which each row has its
    own value."""
    content = parquet(
        pa.table({"n": pa.array(range(1_000_000), pa.int64())}),
        compression=compression,
        use_dictionary=False,
        column_encoding={"n": "DELTA_BINARY_PACKED"},
    )
    look = lake.look(content, "a.parquet", tables=CsvStyle(), bounds=Bounds(rows_from=1000))
    assert (reasons(look), look.file.container) == ([], PARQUET)


def test_the_header_is_as_this_test_writes_it(lake: Lake) -> None:
    body = deflated(varint(3) + b"abc")
    (row,) = fastavro.reader(io.BytesIO(avro(TEXT, "deflate", (1, body))))
    assert json.dumps(row, default=bytes.decode) == '{"a": "abc"}'
