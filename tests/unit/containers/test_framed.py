"""Length-delimited messages: every record a line, and what is cut or wrong refused."""

from __future__ import annotations

import gzip
import json
import struct
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.containers.compression import DamageError
from sluice.containers.framed import BAD_LENGTH, PAIRS, TRUNCATED, VALUES, split
from sluice.containers.json_documents import Line, Rejected
from sluice.landing.inspection import Inspector
from sluice.landing.reading import Reading
from sluice.manifest import JSON_LINES
from sluice.objects.store import LocalStore

LIMIT = 1000


def framed(*messages: bytes | None) -> bytes:
    return b"".join(
        struct.pack(">i", -1) if m is None else struct.pack(">i", len(m)) + m for m in messages
    )


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def shown(parts: list[Line | Rejected]) -> list[list[str | None]]:
    records = [json.loads(p.text) for p in parts if isinstance(p, Line)]
    return [[r["key"], r["value"]] for r in records]


def text(message: bytes | None) -> str | None:
    return None if message is None else b64encode(message).decode()


@pytest.mark.parametrize("size", [1, 3, 5, 10_000])
def test_values_and_pairs(size: int) -> None:
    messages = [b"\0\0\0\0\1abc", b"", None, b"x" * LIMIT]
    values = list(split(chunks(framed(*messages), size), LIMIT, VALUES))
    assert shown(values) == [[None, text(m)] for m in messages]
    pairs = list(split(chunks(framed(*messages), size), LIMIT, PAIRS))
    assert shown(pairs) == [[text(messages[0]), ""], [None, text(messages[3])]]


def test_an_empty_file_has_no_records() -> None:
    assert list(split(iter(()), LIMIT, VALUES)) == []


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0\0", TRUNCATED), (b"\0\0\0\4abc", TRUNCATED),
        (struct.pack(">i", LIMIT + 1) + b"abc", BAD_LENGTH),
        (struct.pack(">i", -2) + b"abc", BAD_LENGTH),
    ],
)  # fmt: skip
def test_file_is_refused_from_the_first_broken_length(tail: bytes, reason: str) -> None:
    first, last = split(chunks(framed(b"ok") + tail, 2), LIMIT, VALUES)
    assert shown([first]) == [[None, text(b"ok")]]
    assert isinstance(last, Rejected)
    assert last.reason == reason
    assert tail.startswith(last.raw)
    assert last.raw


def test_a_pair_without_its_value_is_refused_with_its_key() -> None:
    (last,) = split(iter([framed(b"key")]), LIMIT, PAIRS)
    assert last == Rejected(TRUNCATED, framed(b"key"))


def test_messages_of_many_megabytes_are_all_read() -> None:
    data = framed(*[b"y" * 900] * 4000)
    assert len(list(split(chunks(data, 1 << 20), LIMIT, VALUES))) == 4000


@pytest.mark.parametrize("trusted", [True, False])
def test_damaged_compression_keeps_the_messages_before_it_only_if_trusted(trusted: bool) -> None:
    def cut() -> Iterator[bytes]:
        yield framed(b"ok") + b"\0"
        raise DamageError("truncated_gzip", trusted)

    if not trusted:
        with pytest.raises(DamageError):
            list(split(cut(), LIMIT, VALUES))
        return
    first, last = split(cut(), LIMIT, VALUES)
    assert shown([first]) == [[None, text(b"ok")]]
    assert last == Rejected("truncated_gzip", b"\0")


@pytest.mark.parametrize("cut", [0, 6])
def test_framed_messages_are_staged_as_json_lines(tmp_path: Path, cut: int) -> None:
    landing, staging = LocalStore(tmp_path / "landing"), LocalStore(tmp_path / "staging")
    data = gzip.compress(framed(b"\0\1", None))
    landing.put("a/f.bin.gz", data[: len(data) - cut])
    (found,) = landing.list()
    look = Inspector(landing, staging, "p/", Reading(layout=VALUES)).inspect(found)
    assert (look.file.container, look.file.staged) == (JSON_LINES, True)
    (staged,) = staging.list()
    lines = staging.get(staged.key).splitlines()
    assert lines == [b'{"key":null,"value":"AAE="}', b'{"key":null,"value":null}']
    assert [r.reason for r in look.rejects] == (["truncated_gzip"] if cut else [])
