"""Blocks of Avro containers that are looked at one by one."""

from __future__ import annotations

import bz2
import io
import lzma
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

from sluice.bounds import DEFAULT
from sluice.containers import avro_file
from sluice.containers.avro_file import _decoder
from tests.avro_blocks import deflated, varint

SYNC = b"0123456789abcdef"
LONG = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}


def bad(schema: Any, codec: str, records: int, body: bytes) -> int:
    """How many of this one block are bad."""
    file = io.BytesIO()
    fastavro.writer(file, schema, [], codec=codec, sync_marker=SYNC)
    header = fastavro.schemaless_reader(
        io.BytesIO(file.getvalue()), avro_file._HEADER, avro_file._HEADER
    )
    decoder = _decoder(header, True, DEFAULT)
    assert decoder is not None
    decoder.decode(0, 1, records, body, SYNC)
    return len(decoder.bad)


@pytest.mark.parametrize(
    ("kind", "logical", "value"),
    [
        ("long", "timestamp-micros", 9223372036825200000),
        ("long", "timestamp-millis", 253402300800000),
        ("long", "time-micros", 86400000000),
        ("int", "date", 2932897),
    ],
)
def test_a_value_beyond_pythons_own_dates_is_no_damage(kind: str, logical: str, value: int) -> None:
    typed = {"type": kind, "logicalType": logical}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": typed}]}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, LONG, {"a": value})
    assert bad(schema, "null", 1, body.getvalue()) == 0
    assert bad(schema, "null", 2, body.getvalue()) == 1


PACKERS = [("deflate", deflated), ("bzip2", bz2.compress), ("xz", lzma.compress)]


@pytest.mark.parametrize(("codec", "pack"), PACKERS)
def test_a_block_that_does_not_end_is_damaged(codec: str, pack: Callable[[bytes], bytes]) -> None:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, LONG, {"a": 5})
    packed = pack(body.getvalue())
    assert [bad(LONG, codec, 1, packed[:end]) for end in (len(packed), -1)] == [0, 1]


@pytest.mark.parametrize(("codec", "pack"), PACKERS)
def test_a_block_unfolds_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, codec: str, pack: Callable[[bytes], bytes]
) -> None:
    assert bad(LONG, codec, 1, pack(b"\x02")) == 0
    monkeypatch.setattr(avro_file, "MOST_DECODED_BYTES", 1000)
    assert bad(LONG, codec, 1000, pack(b"\x00" * 1000)) == 0
    assert bad(LONG, codec, 1001, pack(b"\x00" * 1001)) == 1


def test_a_schema_that_is_no_json_makes_every_block_bad() -> None:
    meta = {"avro.schema": b"{", "avro.codec": b"null"}
    decoder = _decoder({"magic": b"Obj\x01", "meta": meta, "sync": SYNC}, True, DEFAULT)
    assert decoder is not None
    decoder.decode(0, 1, 1, b"\x02", SYNC)
    assert len(decoder.bad) == 1


def blocks_of(content: bytes) -> list[bytes]:
    """Header and blocks, each with the marker at its end."""
    return [part + SYNC for part in content.split(SYNC)[:-1]]


def of_one_record_each(*values: int) -> list[bytes]:
    file = io.BytesIO()
    rows = [{"a": value} for value in values]
    fastavro.writer(file, LONG, rows, sync_interval=1, sync_marker=SYNC)
    return blocks_of(file.getvalue())


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("size", [1, 7, 16, 1000])
@pytest.mark.parametrize("marker", [SYNC, b"\0" * 16, b"\x02" * 16])
def test_a_marker_may_stand_in_a_block_and_overlap_its_body(
    marker: bytes, size: int, thorough: bool
) -> None:
    file = io.BytesIO()
    text = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}
    rows = [{"a": value} for value in (b"", b"\0", marker * 3, b"\0", b"x" + marker, b"\5")]
    fastavro.writer(file, text, rows, sync_interval=1, sync_marker=marker)
    found, values = walked(file.getvalue(), size, thorough)
    assert (found.bad, found.damage, found.whole) == ((), "", len(file.getvalue()))
    assert values == [row["a"] for row in rows]
    file = io.BytesIO()
    fastavro.writer(
        file, LONG, [{"a": n} for n in (0, 1, 0, 5)], sync_interval=1, sync_marker=marker
    )
    found, values = walked(file.getvalue(), size, thorough)
    assert (found.bad, values) == ((), [0, 1, 0, 5])


def walked(content: bytes, size: int, thorough: bool) -> tuple[avro_file.AvroFile, list[Any]]:
    """What is found, and the records of what is left of it."""
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    found = avro_file.walk(iter(pieces), thorough, DEFAULT)
    left = b"".join(avro_file.without(iter(pieces), found.bad))[: found.whole]
    rows: Any = fastavro.reader(io.BytesIO(left))
    return found, [row["a"] for row in rows]


FRAMES = {
    "negative count": b"\x01\x04\xaa\x02" + SYNC,
    "negative size": b"\x02\x03\xaa\x02" + SYNC,
    "size too small": b"\x02\x02\xaa\x02" + SYNC,
    "size too large": b"\x02\x06\xaa\x02" + SYNC,
    "size far too large": b"\x02\xfe\xff\xff\xff\x7f\xaa\x02" + SYNC,
    "no number": b"\x02" + b"\xff" * 12 + SYNC,
    "nothing": SYNC,
    "half a marker": b"\x02\x04\xaa\x02" + SYNC[:8] + SYNC,
}


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("size", [1, 7, 16, 1000])
@pytest.mark.parametrize("name", FRAMES)
def test_a_damaged_frame_costs_its_own_block(name: str, size: int, thorough: bool) -> None:
    start, first, second = of_one_record_each(1, 3)
    frame = FRAMES[name]
    for blocks in ([first, frame, second], [frame, first, second], [first, second, frame]):
        found, rows = walked(start + b"".join(blocks), size, thorough)
        (block,) = found.bad
        at = len(start) + len(b"".join(blocks[: blocks.index(frame)]))
        assert (block.start, block.end, block.raw) == (at, at + len(frame), frame)
        assert (rows, found.damage) == ([1, 3], "")


@pytest.mark.parametrize("size", [1, 1000])
def test_a_damaged_marker_costs_the_next_block_too(size: int) -> None:
    start, first, second, third = of_one_record_each(1, 2, 3)
    changed = first[:-1] + b"?"
    found, rows = walked(start + changed + second + third, size, False)
    assert [block.raw for block in found.bad] == [changed + second]
    assert rows == [3]
    found, rows = walked(start + third + changed, size, False)
    assert (found.bad, found.damage, rows) == ((), "damaged_avro", [3])
    found, rows = walked(start + third + first[:-1], size, False)
    assert (found.bad, found.damage, rows) == ((), "truncated_avro", [3])


def test_many_damaged_frames_end_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    start, first = of_one_record_each(1)
    monkeypatch.setattr(avro_file, "MOST_BAD_FRAMES", 2)
    found, rows = walked(start + first + SYNC * 2 + first, 1000, False)
    assert (len(found.bad), found.damage, rows) == (2, "", [1, 1])
    found, rows = walked(start + first + SYNC * 3 + first, 1000, False)
    assert (len(found.bad), found.damage, rows) == (2, "damaged_avro", [1])


MOST_ITEMS = 1_000_000
INTS = {"type": "array", "items": "int"}
NULLS = {"type": "array", "items": "null"}
NOTHING = {"type": "record", "name": "n", "fields": [{"name": "a", "type": "null"}]}
FIXED = {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}
TREE = {
    "type": "record", "name": "t", "namespace": "x",
    "fields": [{"name": "a", "type": ["null", {"type": "array", "items": "t"}]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "plain", "is_bad"),
    [
        (NULLS, varint(MOST_ITEMS + 1) + b"\0", 1),
        (NULLS, varint(MOST_ITEMS) + b"\0", 0),
        (NULLS, varint(MOST_ITEMS) + varint(-1) + b"\0\0", 1),
        ({"type": "array", "items": NOTHING}, varint(MOST_ITEMS + 1) + b"\0", 1),
        (FIXED, varint(MOST_ITEMS + 1) + b"\0", 1),
        (["null", FIXED], varint(1) + varint(MOST_ITEMS + 1) + b"\0", 1),
        (INTS, varint(MOST_ITEMS + 1) + b"\2" * (MOST_ITEMS + 1) + b"\0", 1),
        (INTS, varint(MOST_ITEMS) + b"\2" * MOST_ITEMS + b"\0", 0),
        ("string", varint((64 << 20) + 1) + b"x" * ((64 << 20) + 1), 1),
        ("bytes", varint(64 << 20) + b"x" * (64 << 20), 0),
        (TREE, varint(1) + varint(MOST_ITEMS + 1) + b"\0" * (MOST_ITEMS + 2), 1),
        (TREE, varint(1) + varint(MOST_ITEMS) + b"\0" * (MOST_ITEMS + 1), 0),
        ({"type": "map", "values": "null"}, varint(MOST_ITEMS) + b"\2k" * MOST_ITEMS + b"\0", 0),
    ],
)  # fmt: skip
def test_a_value_that_java_refuses_is_damage(kind: Any, plain: bytes, is_bad: int) -> None:
    """The limits that the driver sets for its JVM."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    assert bad(schema, "null", 1, plain) == is_bad


LONGS = {"type": "array", "items": "long"}
LETTER = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
LONGEST_NUMBER = b"\xff" * 9 + b"\x01"


@pytest.mark.parametrize(
    ("kind", "plain", "is_bad"),
    [
        ("long", b"\2", 0), ("long", b"\2\2", 1), ("null", b"\0", 1),
        ("long", LONGEST_NUMBER, 0), ("long", b"\x80" * 9 + b"\0", 0),
        ("long", b"\xff" + LONGEST_NUMBER, 1),
        ("int", b"\x80\x80\x80\x80\0", 0), ("int", b"\x80\x80\x80\x80\x80\0", 1),
        ("int", varint(2**40), 1),
        (LETTER, varint(1), 0), (LETTER, varint(2), 1), (LETTER, varint(-1), 1),
        (["null", "long"], varint(2), 1), (["null", "long"], varint(-1), 1),
        (LONGS, varint(-1) + varint(99) + b"\2\0", 0),
        (LONGS, LONGEST_NUMBER + b"\2\0", 1), (NULLS, LONGEST_NUMBER + b"\2\0", 1),
        (LONGS, varint(2) + b"\2", 1), (LONGS, varint(1) + b"\2", 1),
        ({"type": "map", "values": "long"}, varint(1) + varint(-1) + b"\0\0", 1),
        ("bytes", varint(-1), 1), ("bytes", varint(2**32) + b"aa", 1), ("bytes", varint(1), 1),
        ("string", varint(1) + b"\xff", 1), ("boolean", b"\2", 0), ("float", b"123", 1),
        ({"type": "fixed", "name": "f", "size": 4}, b"123", 1),
    ],
)  # fmt: skip
def test_a_block_is_bad_if_javas_reader_fails_on_it(kind: Any, plain: bytes, is_bad: int) -> None:
    """As DataFileReader of Avro 1.12 did with the same bytes; it takes a text that is no UTF-8,
    which nothing behind it does."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    assert bad(schema, "null", 1, plain) == is_bad


def test_records_without_their_bytes_are_damage() -> None:
    start, first = of_one_record_each(1)
    found, rows = walked(start + first + b"\x02\0" + SYNC + b"\0\2\2" + SYNC + first, 1000, True)
    assert ([block.raw for block in found.bad], rows) == (
        [b"\x02\0" + SYNC, b"\0\2\2" + SYNC],
        [1, 1],
    )


@pytest.mark.parametrize("thorough", [False, True])
def test_empty_items_count_as_rows(thorough: bool) -> None:
    """Each array is within the limit, and Spark would go on to make them for hours."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": NULLS}]}
    file = io.BytesIO()
    fastavro.writer(file, schema, [], sync_marker=SYNC)
    claim = varint(MOST_ITEMS) + b"\0"
    small, large = (varint(n) + varint(n * len(claim)) + claim * n + SYNC for n in (1, 30))
    found = avro_file.walk(iter([file.getvalue() + small * 9 + large + small]), thorough, DEFAULT)
    assert [block.reason for block in found.bad] == ["too_many_rows"]
    found = avro_file.walk(iter([file.getvalue() + small * 9]), thorough, DEFAULT)
    assert found.bad == ()


def test_bad_blocks_take_little_memory() -> None:
    start = of_one_record_each(1)[0]
    block = varint(1) + varint(100_000) + b"\xff" * 100_000 + SYNC
    content = start + block * 1000
    tracemalloc.start()
    found = avro_file.walk(iter([content]), True, DEFAULT)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.bad) == 1000
    assert most < 40 << 20


def test_many_small_blocks_take_linear_time() -> None:
    """What is ahead was copied for each of them."""
    start, first = of_one_record_each(1)
    blocks = [first * 20_000] * 10
    began = time.process_time()
    found = avro_file.walk(iter([start, b"".join(blocks)]), False, DEFAULT)
    assert found.bad == ()
    assert time.process_time() - began < 10


def test_a_claim_takes_no_memory() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": NULLS}]}
    assert bad(schema, "deflate", 1, deflated(varint(1 << 40) + b"\0")) == 1
