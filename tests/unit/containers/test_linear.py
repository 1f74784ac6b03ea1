"""Odd files take time by their size, not by its square."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import repeat

import pytest

from sluice.bounds import DEFAULT
from sluice.containers import datums
from sluice.containers.avro_file import walk
from sluice.containers.csv_rows import CsvStyle, rows_as_json
from sluice.containers.json_documents import Line, split
from tests.unit.landing_folders import avro_bytes

LIMIT = 64 << 20


class Clock:
    """Processor time since the beginning, which a busy machine does not lengthen."""

    def __init__(self) -> None:
        self._start = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self._start


@pytest.mark.parametrize(
    ("line", "lines"),
    [(b"/*\n", 20_000), (b"a\n", 60_000), (b"{\n", 60_000), (b'1^{"a":1,\n', 60_000)],
)
def test_lines_that_are_no_documents(line: bytes, lines: int) -> None:
    clock = Clock()
    found = list(split(iter([line * lines]), LIMIT, keys=True))
    assert len(found) == lines
    assert clock.seconds < 6


@pytest.mark.parametrize("broken", ['{"a":2,}', '{"a":[{"a:2}', '{"a":2', '"a":2}', '{"b":"'])
@pytest.mark.parametrize("between", [",", ",\n", ",\n  "])
def test_broken_documents_of_an_array(broken: str, between: str) -> None:
    clock = Clock()
    whole = between.join(['{"a":0}', *['{"a":1}', broken] * 30_000])
    least = 2 if "[" in broken else 100  # within a list without an end no record is one
    assert len(list(split(iter([f"[{whole}]".encode()]), LIMIT, keys=True))) > least
    assert clock.seconds < 6


def test_broken_documents_that_look_like_one_another() -> None:
    """Each could be what the one before it ends at."""
    clock = Clock()
    nested = '[{"a":1},' + '{"a":[0,' * 60_000
    assert len(list(split(iter([nested.encode()]), LIMIT, keys=True))) > 1
    assert clock.seconds < 6


def test_a_comment_ends_where_it_ends_however_the_pieces_fall() -> None:
    text = b'/* a * / b **/{"a":1}\n/*/ c */{"a":2}\n/* d\n{"a":3}\n/**/{"a":4}\n/* e\n/* f'
    expected = [b'{"a":1}', b'{"a":2}', b'{"a":4}', b"/* e", b"/* f"]
    for size in (1, 2, 3, 7, len(text)):
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        assert list(split(pieces, LIMIT, keys=True)) == [Line(line) for line in expected]


def test_a_csv_row_of_many_small_pieces() -> None:
    pieces = repeat(b"x" * 64, 40_000)
    clock = Clock()
    (row,) = rows_as_json(chained(b"a\n", pieces, b"\n"), CsvStyle(), LIMIT)
    assert isinstance(row, Line)
    assert len(row.text) > 64 * 40_000
    assert clock.seconds < 2


def chained(first: bytes, pieces: Iterator[bytes], last: bytes) -> Iterator[bytes]:
    yield first
    yield from pieces
    yield last


def test_many_empty_avro_blocks() -> None:
    content = avro_bytes()
    empty = b"\0\0" + content[-16:]
    clock = Clock()
    found = walk(iter([content + empty * 50_000]), False, DEFAULT)
    assert (found.whole, found.damage) == (len(content) + len(empty) * 50_000, "")
    assert clock.seconds < 4


def test_many_small_datums_in_one_piece() -> None:
    clock = Clock()
    content = (b"\0\0\0\1" + b"x") * 200_000
    found = list(datums.split(iter([content]), "length_prefixed", LIMIT))
    assert found == [b"x"] * 200_000
    assert clock.seconds < 4
