"""Damaged Avro, datums, messages and compressed lines: the look at a file ends, what it cannot
read is rejected with a known reason, the rest is staged whole, and memory stays bounded."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
import zstandard

from sluice.containers import datums
from sluice.containers.framed import PAIRS, VALUES
from sluice.landing.inspection import Inspection
from tests.avro_blocks import deflated, snappy, varint
from tests.unit.landing_folders import Lake

SYNC: Final = b"0123456789abcdef"
FILES: Final = 40
SLOWEST: Final = 5
"""Seconds of the processor for one file of some kilobytes; most take a hundredth of one."""
SCHEMA: Final = {
    "type": "record", "name": "row", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": "int"},
        {"name": "t", "type": ["null", "string"]},
        {"name": "b", "type": "bytes"},
        {"name": "is", "type": "boolean"},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "a", "type": {"type": "array", "items": ["null", "string", "double"]}},
        {"name": "m", "type": {"type": "map", "values": "float"}},
        {"name": "e", "type": {"type": "enum", "name": "letter", "symbols": ["A", "B"]}},
        {"name": "f", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "r", "type": ["null", {"type": "record", "name": "inner", "fields": [
            {"name": "e", "type": "letter"}, {"name": "z", "type": "null"}]}]},
        {"name": "z", "type": {"type": "array", "items": "null"}},
    ],
}  # fmt: skip
PARSED: Final = fastavro.parse_schema(SCHEMA)
CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": bytes, "deflate": deflated, "snappy": snappy, "bzip2": bz2.compress,
    "zstandard": zstandard.ZstdCompressor().compress,
}  # fmt: skip
PACKED: Final[dict[str, Callable[[bytes], bytes]]] = {
    ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.ZstdCompressor().compress,
}  # fmt: skip
REASONS: Final = {
    "damaged_avro", "truncated_avro", "bad_avro_schema", "unknown_avro_codec", "too_many_rows",
    "decompression_bomb", "truncated_datum", "document_too_large", "bad_message_length",
    "truncated_message", "invalid_utf8", "lone_surrogate", "unparseable_document",
    "truncated_array", "not_json_nor_avro", "utf16", "staged_copy_too_large",
    *(f"{how}_{name}" for how in ("damaged", "truncated") for name in ("gzip", "bzip2", "zstd")),
}  # fmt: skip


def row(number: int, dice: random.Random) -> dict[str, Any]:
    return {
        "id": number, "n": dice.randrange(-(2**31), 2**31), "b": dice.randbytes(dice.randrange(9)),
        "t": dice.choice([None, "é" * dice.randrange(90)]), "is": True, "d": Decimal(12),
        "a": [dice.choice([None, "x", 1.5]) for _ in range(dice.randrange(4))],
        "m": {f"k{i}": 0.5 for i in range(dice.randrange(3))}, "e": dice.choice("AB"),
        "f": b"abcd", "r": dice.choice([None, {"e": "A", "z": None}]),
        "z": [None] * dice.randrange(5),
    }  # fmt: skip


def header(codec: str) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [], codec="null", sync_marker=SYNC)
    named = b"\x14avro.codec" + varint(len(codec)) + codec.encode()
    return out.getvalue().replace(b"\x14avro.codec\x08null", named)


def block(codec: str, first: int, dice: random.Random) -> bytes:
    """A block of some records, whose ids begin with `first`."""
    plain, count = io.BytesIO(), dice.randrange(1, 9)
    for number in range(count):
        fastavro.schemaless_writer(plain, PARSED, row(first + number, dice))
    body = CODECS[codec](plain.getvalue())
    return varint(count) + varint(len(body)) + body + SYNC


def damaged(content: bytes, dice: random.Random) -> bytes:
    """Bits flipped, bytes changed, cut out, put in and repeated, numbers blown up, the end cut."""
    at, some = dice.randrange(len(content)), dice.randrange(1, 60)
    before, behind = content[:at], content[at:]
    huge = dice.choice([10**6, 2**31, 2**40, 2**62, -1, -(2**40), -(2**63)])
    return dice.choice([
        before + bytes([behind[0] ^ 1 << dice.randrange(8)]) + behind[1:],
        before + dice.choice([b"\0", b"\x7f", b"\x80", b"\xff"]) + behind[1:],
        before, before + behind[some:], before + dice.randbytes(some) + behind,
        before + varint(huge) + behind, before + varint(huge) + behind[1:],
        before + b"\xff" * 12 + behind[1:], before + behind[:some] * dice.choice([1, 99]) + behind,
    ])  # fmt: skip


def looked_at(lake: Lake, content: bytes, key: str, **more: Any) -> Inspection:
    """The look at a file, which ends in time and gives known reasons alone."""
    began = time.process_time()
    look = lake.look(content, key, **more)
    assert time.process_time() - began < SLOWEST
    assert {reject.reason.partition(":")[0] for reject in look.rejects} <= REASONS | {
        "too_many_rejects"
    }
    return look


def seeds(name: str) -> Iterator[random.Random]:
    return (random.Random(f"{name}{n}") for n in range(FILES))


@pytest.mark.parametrize("codec", CODECS)
def test_sound_blocks_are_none_that_the_thorough_look_refuses(lake: Lake, codec: str) -> None:
    for dice in seeds(codec):
        content = header(codec) + b"".join(block(codec, 0, dice) for _ in range(3))
        look = looked_at(lake, content, "a.avro", thorough=True)
        assert (look.rejects, look.file.container) == ((), "avro")


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_damage_in_a_block_costs_no_other(lake: Lake, codec: str, thorough: bool) -> None:
    """A block's marker is part of it, and without that the next block is not found either."""
    for dice in seeds(codec):
        start = header(codec)
        blocks = [block(codec, 100 * n, dice) for n in range(6)]
        changed = dice.randrange(5)
        blocks[changed] = damaged(blocks[changed], dice)
        content = start + b"".join(blocks)
        look = looked_at(lake, content, "a.avro", thorough=thorough)
        left = lake.staged(look) if look.file.staged else content
        kept = {n for n in range(6) if n not in (changed, changed + 1)}
        assert left.startswith(start)
        assert [n for n in kept if blocks[n] not in left] == []
        if codec == "null" and thorough:
            read: Any = fastavro.reader(io.BytesIO(left))
            assert kept <= {one["id"] // 100 for one in read}
        assert bool(look.rejects) == (left != content)


def test_damage_anywhere_in_a_container(lake: Lake) -> None:
    for dice in seeds("anywhere"):
        codec = dice.choice(list(CODECS))
        content = header(codec) + b"".join(block(codec, 0, dice) for _ in range(5))
        ending = dice.choice(["", *PACKED])
        packed = PACKED.get(ending, bytes)(content)
        looked_at(lake, damaged(packed, dice), f"a.avro{ending}", thorough=dice.random() < 0.5)


def framed(dice: random.Random, count: int) -> list[bytes]:
    """Messages in Confluent's wire format behind their lengths."""
    sizes = [dice.randrange(60) for _ in range(count)]
    return [(5 + n).to_bytes(4, "big") + b"\0\0\0\0\1" + dice.randbytes(n) for n in sizes]


@pytest.mark.parametrize("more", [{"layout": VALUES}, {"layout": PAIRS},
                                  {"framing": "length_prefixed"}])  # fmt: skip
@pytest.mark.parametrize("ending", ["", *PACKED])
def test_messages_before_the_damage_are_kept(lake: Lake, ending: str, more: dict[str, Any]) -> None:
    for dice in seeds(f"{ending}{more}"):
        before, behind = framed(dice, 20), framed(dice, 20)
        content = b"".join(before) + damaged(b"".join(behind), dice)
        look = looked_at(lake, PACKED.get(ending, bytes)(content), f"a.bin{ending}", **more)
        staged = lake.staged(look)
        if "layout" in more:
            records = [json.loads(line) for line in staged.splitlines()]
        else:
            records = list(fastavro.reader(io.BytesIO(staged)))
        assert len(records) >= (10 if more.get("layout") == PAIRS else 20)
        packed = damaged(PACKED.get(ending, bytes)(b"".join(before)), dice)
        looked_at(lake, packed, f"b.bin{ending}", **more)


@pytest.mark.parametrize("ending", PACKED)
def test_lines_of_damaged_compression(lake: Lake, ending: str) -> None:
    """Of a cut file the whole lines are kept; of a changed one nothing is trusted, where the
    compression has a checksum."""
    for dice in seeds(ending):
        lines = [json.dumps({"id": n, "t": dice.randbytes(9).hex()}).encode() for n in range(200)]
        packed = PACKED[ending](b"\n".join(lines))
        cut = packed[: dice.randrange(30, len(packed))]
        look = looked_at(lake, cut, f"a.jsonl{ending}")
        assert look.rejects
        assert look.rejects[0].reason.startswith(("truncated_", "damaged_", "unparseable"))
        staged = lake.staged(look).splitlines() if look.file.staged else []
        assert staged[:-1] == lines[: len(staged[:-1])]
        looked_at(lake, damaged(packed, dice), f"b.jsonl{ending}")
        several = dice.choice([1, 3]) * packed + damaged(packed, dice)
        looked_at(lake, several, f"c.jsonl{ending}")


PEAK: Final = """
import re, sys
from decimal import Decimal
from pathlib import Path
from sluice.bounds import Bounds
from sluice.landing.inspection import Inspector
from sluice.landing.reading import Reading
from sluice.objects.store import LocalStore

folder, key, more = Path(sys.argv[1]), sys.argv[2], eval(sys.argv[3])
landing, staging = LocalStore(folder / "landing"), LocalStore(folder / "staging")
(found,) = [one for one in landing.list() if one.key == key]
bounds = Bounds(ratio_from=32 << 20, block_bytes=16 << 20)
look = Inspector(landing, staging, "s/", Reading(1 << 20, bounds=bounds, **more)).inspect(found)
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(int(peak) >> 10, *[reject.reason for reject in look.rejects])
"""
MEBIBYTE: Final = 1 << 20
BOMBS: Final[dict[str, tuple[str, Callable[[], bytes], dict[str, Any]]]] = {
    "blanks": (".jsonl.gz", lambda: gzip.compress(b" " * (200 * MEBIBYTE)), {}),
    "one text": (".jsonl.gz", lambda: gzip.compress(b'{"a":"' + b"x" * (31 * MEBIBYTE)), {}),
    "brackets": (".jsonl.bz2", lambda: bz2.compress(b"[" * (31 * MEBIBYTE)), {}),
    "members": (".jsonl.gz", lambda: gzip.compress(b"[1," * MEBIBYTE) * 40, {}),
    "frames": (".jsonl.zst", lambda: CODECS["zstandard"](b"{" * (20 * MEBIBYTE)) * 9, {}),
    "messages": (".bin.gz", lambda: gzip.compress(bytes(8 * MEBIBYTE)), {"layout": VALUES}),
    "datum": (".bin.gz", lambda: gzip.compress(b"\x02\0" * (99 * MEBIBYTE)),
              {"framing": datums.ONE_PER_FILE}),
    "block": (".avro", lambda: header("deflate") + varint(1) + sized(deflated(
        bytes(15 * MEBIBYTE))) + SYNC, {"thorough": True}),
    "blocks": (".avro", lambda: header("bzip2") + (varint(1) + sized(bz2.compress(
        bytes(99 * MEBIBYTE))) + SYNC) * 9, {"thorough": True}),
    "claims": (".avro", lambda: header("null") + (varint(1) + sized(varint(2**40)) + SYNC) * 9,
               {"thorough": True}),
    "header": (".avro", lambda: b"Obj\x01" + varint(500_000) + b"\0" * 1_000_000, {}),
}  # fmt: skip


def sized(body: bytes) -> bytes:
    return varint(len(body)) + body


@pytest.mark.parametrize("name", BOMBS)
def test_memory_is_bounded_by_the_limits_and_not_by_the_file(
    lake: Lake, tmp_path: Path, name: str
) -> None:
    """With a document of a mebibyte, a block of 16 and 32 of decompressed bytes allowed."""
    ending, content, more = BOMBS[name]
    lake.landing.put(f"a{ending}", content())
    given = [str(tmp_path), f"a{ending}", repr(more)]
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, *given], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    peak, *reasons = ran.stdout.split()
    assert reasons
    assert int(peak) < 200
