"""Blocks of Avro containers that are looked at one by one."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

from sluice.containers import avrofile
from sluice.containers.avrofile import _Alone

SYNC = b"s" * 16
LONG = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}


def bad(schema: Any, codec: str, records: int, body: bytes) -> int:
    """How many of this one block are bad."""
    file = io.BytesIO()
    fastavro.writer(file, schema, [], codec=codec, sync_marker=SYNC)
    header = fastavro.schemaless_reader(
        io.BytesIO(file.getvalue()), avrofile._HEADER, avrofile._HEADER
    )
    alone = _Alone(header)
    alone.look(0, 1, records, body, SYNC)
    return len(alone.bad)


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


def _deflated(plain: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(plain) + packer.flush()


PACKERS = [("deflate", _deflated), ("bzip2", bz2.compress), ("xz", lzma.compress)]


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
    monkeypatch.setattr(avrofile, "MOST_DECODED_BYTES", 1000)
    assert bad(LONG, codec, 1, pack(b"\x00" * 1000)) == 0
    assert bad(LONG, codec, 1, pack(b"\x00" * 1001)) == 1


def test_a_schema_that_is_no_json_makes_every_block_bad() -> None:
    meta = {"avro.schema": b"{", "avro.codec": b"null"}
    alone = _Alone({"magic": b"Obj\x01", "meta": meta, "sync": SYNC})
    alone.look(0, 1, 1, b"\x02", SYNC)
    assert len(alone.bad) == 1
