"""Parts of Avro containers: bodies of blocks behind a codec, and numbers."""

from __future__ import annotations

import io
import zlib

import fastavro
import pyarrow as pa


def deflated(plain: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(plain) + packer.flush()


def snappy(plain: bytes) -> bytes:
    packed: bytes = pa.compress(plain, codec="snappy", asbytes=True)
    return packed + zlib.crc32(plain).to_bytes(4, "big")


def varint(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()
