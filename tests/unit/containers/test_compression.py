"""Compressed files: told by their bytes, read in pieces, and damage said as such."""

from __future__ import annotations

import bz2
import gzip

import pytest
import zstandard

from sluice.bounds import DEFAULT
from sluice.containers.compression import DamageError, Plain, detect
from sluice.containers.json_documents import Line, Rejected, split
from tests.unit.chunks import PLAIN, pieces

LIMIT = 1 << 16


COMPRESSIONS = {
    "gzip": gzip.compress(PLAIN, mtime=0),
    "bzip2": bz2.compress(PLAIN),
    "zstd": zstandard.compress(PLAIN),
}


@pytest.mark.parametrize("name", sorted(COMPRESSIONS))
@pytest.mark.parametrize("members", [1, 3])
def test_compressed(name: str, members: int) -> None:
    data = COMPRESSIONS[name] * members
    assert detect(data) == name
    assert b"".join(Plain(pieces(data, 999), name, DEFAULT)) == PLAIN * members


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_frames_of_zstd_that_hold_no_data(size: int) -> None:
    """As pzstd writes them before each frame; their contents are the writer's own."""
    skipped = b"\x5f\x2a\x4d\x18\x04\x00\x00\x00\x28\xb5\x2f\xfd"
    data = (skipped + zstandard.compress(PLAIN)) * 2 + skipped
    assert detect(data[:4]) == "zstd"
    assert b"".join(Plain(pieces(data, size), "zstd", DEFAULT)) == PLAIN * 2


@pytest.mark.parametrize("name", sorted(COMPRESSIONS))
@pytest.mark.parametrize("cut", [1, 100, 1000])
def test_cut_compressed_bytes(name: str, cut: int) -> None:
    out: list[bytes] = []
    with pytest.raises(DamageError) as caught:
        out.extend(Plain(pieces(COMPRESSIONS[name][:-cut], 999), name, DEFAULT))
    assert caught.value.reason == f"truncated_{name}"
    assert caught.value.trusted
    assert PLAIN.startswith(b"".join(out))


@pytest.mark.parametrize("name", sorted(COMPRESSIONS))
def test_changed_compressed_bytes(name: str) -> None:
    data = bytearray(COMPRESSIONS[name])
    data[len(data) // 2] ^= 0xFF
    if name == "zstd":
        data[2000:2010] = bytes(10)
    with pytest.raises(DamageError) as caught:
        b"".join(Plain(iter([bytes(data)]), name, DEFAULT))
    assert caught.value.reason == f"damaged_{name}" or name == "zstd"


def test_gzip_checksum_is_compared() -> None:
    data = bytearray(COMPRESSIONS["gzip"])
    data[-6] ^= 1
    with pytest.raises(DamageError, match="damaged_gzip") as caught:
        b"".join(Plain(iter([bytes(data)]), "gzip", DEFAULT))
    assert not caught.value.trusted


def test_zeros_after_gzip_are_padding_and_other_bytes_damage() -> None:
    good = COMPRESSIONS["gzip"]
    padded = Plain(iter([good, bytes(512)]), "gzip", DEFAULT)
    assert b"".join(padded) == PLAIN
    assert padded.padded
    with pytest.raises(DamageError) as caught:
        b"".join(Plain(iter([good, b"rest"]), "gzip", DEFAULT))
    assert caught.value.trusted


def test_cut_gzip_gives_whole_documents_and_the_rest() -> None:
    found = list(
        split(Plain(iter([COMPRESSIONS["gzip"][:-200]]), "gzip", DEFAULT), LIMIT, keys=True)
    )
    lines = [p.text for p in found if isinstance(p, Line)]
    assert PLAIN.startswith(b"\n".join(lines))
    assert len(lines) > 1000
    last = found[-1]
    assert isinstance(last, Rejected)
    assert last.reason == "truncated_gzip"
    assert PLAIN.startswith(b"\n".join([*lines, last.raw]))


def test_gzip_cut_between_documents_is_refused() -> None:
    first, rest = gzip.compress(b'{"a":1}\n'), gzip.compress(b'{"a":2}\n')
    found = list(split(Plain(iter([first, rest[:-9]]), "gzip", DEFAULT), LIMIT, keys=True))
    assert found[0] == Line(b'{"a":1}')
    assert [p.reason for p in found if isinstance(p, Rejected)] == ["truncated_gzip"]
