"""One damaged document of a file costs itself, not what stands behind it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sluice.containers.json_documents import CUT_ARRAY, UNPARSEABLE, Line, split
from sluice.containers.json_lines import LineCheck
from tests.unit.chunks import pieces

LIMIT = 1 << 20
INDENTED = """[
  {
    "a": 1
  },
  {
    "a": 2,
  },
  {
    "a": 3
  },
  {
    "a": 4
  }
]
"""
ROW = '{"a":%d,"b":{"c":"{"},"d":[{"a":1,"e":[]},{"a":2,"e":[]}]}'


def parts(data: bytes, size: int = 1000, limit: int = LIMIT) -> list[bytes | tuple[str, bytes]]:
    found = split(pieces(data, size), limit, keys=True)
    return [p.text if isinstance(p, Line) else (p.reason, p.raw) for p in found]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ('[{"a":1},{"a":2,},{"a":3},{"a":4}]', b'{"a":2,}'),
        ('[{"a":1}, {"a":"]}\\"", "b":[{]]}, {"a":3},{"a":4}]', None),
        ('[{"a":1},{"a":2, x "]}\\""},{"a":3},{"a":4}]', b'{"a":2, x "]}\\""}'),
        (INDENTED, b'{\n    "a": 2,\n  }'),
        ('{"a":1}{"a":2,}{"a":3} {"a":4}', b'{"a":2,}'),
        ('{"a":1}, {"a":2,} , {"a":3},{"a":4}\n', b'{"a":2,}'),
        ('[{"a":1},{"a":3},{"a":4},{"a":2,}]', b'{"a":2,}'),
        ('[{"a":2,},{"a":1},{"a":3},{"a":4}]', b'{"a":2,}'),
        # Where brackets or quotes are what was damaged the next one tells by its beginning.
        ('[{"a":1},{"a:2}, {"a":3},{"a":4}]', b'{"a:2}'),
        ('[{"a":1},{"a":2,\n{"a":3},{"a":4}]', b'{"a":2'),
        ('[{"a":1},x"a":2},{"a":3},{"a":4}]', b'x"a":2}'),
        (INDENTED.replace("2,\n  }", "2\n  "), b'{\n    "a": 2'),
        (INDENTED.replace('{\n    "a": 2,', '[\n    "a": 2'), b'[\n    "a": 2\n  }'),
        # What has its end too early has more behind it.
        ('[{"a":1},{"a":2},"b":2},{"a":3},{"a":4}]', b'{"a":2},"b":2}'),
    ],
)  # fmt: skip
def test_a_broken_document_is_refused_alone(text: str, broken: bytes | None, size: int) -> None:
    found = parts(text.encode(), size)
    kept = [part for part in found if part in (b'{"a":1}', b'{"a":3}', b'{"a":4}')]
    (refused,) = (part for part in found if part not in kept)
    assert len(kept) == 3
    part_of_it = (UNPARSEABLE, broken) if broken and b"\n" in broken else broken
    assert broken is None or refused == part_of_it


@pytest.mark.parametrize("rest", [' zzz,"c":3}', " zzz"])
def test_how_a_file_arrives_does_not_change_what_is_refused(rest: str) -> None:
    """The rest of the line is read after the document before it, and may move the window."""
    rows = [b'{"a":%d}' % n for n in range(30)]
    text = b'[%s,{"b":2}%s,%s]' % (b",".join(rows), rest.encode(), b",".join(rows))
    for size in range(1, 300):
        found = parts(text, size)
        assert [part for part in found if part in rows] == rows * 2, size


@pytest.mark.parametrize("after", [5, 200])
def test_a_broken_element_is_refused_alone_though_none_is_like_those_before(after: int) -> None:
    """The end of the file is looked for in vain, which may move the window."""
    rows, others = [b'{"a":0}'] * 3, [b'{"x":0}'] * after
    text = b"[\n  %s\n]" % b",\n  ".join([*rows, b'{"b":2} zzz', *others])
    for size in (7, 64, 500, 1000, 1 << 16):
        found = parts(text, size)
        assert [part for part in found if part in (rows[0], others[0])] == rows + others, size


def pair(key: str, value: str) -> bytes:
    return f'{{"key":{key},"value":{value}}}'.encode()


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("key", "between", "kept"),
    [
        ("%d", "^", "%d"),
        ("****", "^", "null"),
        ("k%d", "\t", "null"),
        ('"k %d"', "\t", '"k %d"'),
        ("%d", "\t", "%d"),
    ],
)
def test_a_torn_record_behind_a_key_is_refused_alone(
    key: str, between: str, kept: str, size: int
) -> None:
    keys = [key % n if "%d" in key else key for n in range(4)]
    shown = [kept % n if "%d" in kept else kept for n in range(4)]
    torn = f'{keys[0]}{between}{{"op":"c",'
    first, last = '{"op":"c","i":1}', '{"op":"c","i":3}'
    lines = [torn, f"{keys[1]}{between}{first}", torn, f"{keys[3]}{between}{last}"]
    found = parts("\n".join(lines).encode(), size)
    assert found == [torn.encode(), pair(shown[1], first), torn.encode(), pair(shown[3], last)]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lines_behind_a_torn_record_are_read_as_records_if_they_are_whole(size: int) -> None:
    found = parts(b'1^{"a":1,\n2^\n3^{"a":\n4^ null\n5^{"a":5}', size)
    pairs = [pair("2", "null"), pair("4", "null"), pair("5", '{"a":5}')]
    assert found == [b'1^{"a":1,', pairs[0], b'3^{"a":', *pairs[1:]]
    lines = b'1^{\n  "a": "x^y",\n  "b" 2\n'
    assert parts(lines + b'}\n2^{"a":2}', size) == [
        (UNPARSEABLE, lines + b"}"), pair("2", '{"a":2}'),
    ]  # fmt: skip
    assert parts(lines + b'2^{"a":2}', size) == [
        (UNPARSEABLE, lines.strip()), pair("2", '{"a":2}'),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [64, 100, 1 << 16])
def test_records_behind_an_oversized_record_with_a_key_are_read(size: int) -> None:
    large = b'1^{"a":"%s"}\n' % (b"x" * 20_000)
    found = parts(large + b'2^{"a":2}\n3^{"a":3}', size, limit=4096)
    assert [part for part in found if isinstance(part, bytes)] == [
        pair("2", '{"a":2}'), pair("3", '{"a":3}'),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("stray", ["}", "x", " ;"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_stray_character_behind_a_document_costs_no_record(
    indent: int | None, stray: str, at: int, size: int
) -> None:
    rows = [order(n) for n in range(3)]
    texts = [json.dumps(row, indent=indent) for row in rows]
    texts[at] += stray
    found = parts(f"[{', '.join(texts)}]".encode(), size)
    assert [read(part) for part in found if pairs(part)] == rows
    (refused,) = (part for part in found if not pairs(part))
    assert isinstance(refused, bytes)
    assert refused.rstrip(b"]") == stray.strip().encode()


def order(n: int) -> dict[str, Any]:
    lines = [{"id": 100 + n, "qty": 1}, {"id": 200 + n, "qty": 2}]
    return {"id": n, "name": "x", "lines": lines}


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ('"name": "x",', '"name": "x"}'),
        ('"name": "x",', '"name": "x"},'),
        ('"name": "x",', '"name": "x"} "y",'),
        ('{\n  "id": 1', 'x\n  "id": 1'),
        ('{\n  "id": 2', 'x\n  "id": 2'),
    ],
)
def test_of_a_document_closed_too_early_no_part_becomes_a_record(
    sound: str, broken: str, at: int, size: int
) -> None:
    rows = [order(n) for n in range(3)]
    texts = [json.dumps(row, indent=2) for row in rows]
    whole, texts[at] = texts[at], texts[at].replace(sound, broken, 1)
    found = parts(f"[{', '.join(texts)}]".encode(), size)
    kept = [read(part) for part in found if pairs(part)]
    assert kept == [row for row in rows if row in kept]
    assert rows[at] not in kept or texts[at] == whole


def test_of_a_broken_document_no_part_becomes_a_record() -> None:
    rows = [ROW % n for n in range(4)]
    rows[1] = rows[1].replace('"{"', '"{', 1)
    assert parts(f"[{','.join(rows)}]".encode()) == [row.encode() for row in rows]


def person(n: int, children: list[Any]) -> dict[str, Any]:
    return {"id": n, "name": f"c{n}", "parent": n // 10, "children": children}


PARENTS = [person(n, [person(10 * n + k, []) for k in range(3)]) for n in range(1, 5)]
CHILDLESS = [person(n, []) for n in range(1, 5)]


@pytest.mark.parametrize("size", [7, 1000])
@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("others", [PARENTS, CHILDLESS])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("sound", "broken"),
    [('"c%d"', '"c%d'), ('"c%d0"', '"c%d0'), ('"parent"', "parent"), ("[", "x"), ("[", "")],
)
def test_no_record_within_a_broken_one_passes_for_the_next(
    sound: str, broken: str, indent: int | None, others: list[Any], at: int, size: int
) -> None:
    rows = [*others[:at], PARENTS[at], *others[at + 1 :]]
    texts = [json.dumps(row, indent=indent) for row in rows]
    number = at + 1
    sound, broken = (part.replace("%d", str(number)) for part in (sound, broken))
    texts[at] = texts[at].replace(sound, broken, 1)
    found = parts(f"[{', '.join(texts)}]".encode(), size)
    kept = [read(part) for part in found if pairs(part)]
    assert kept == [row for row in rows if row in kept]
    assert kept[:at] == rows[:at]


@pytest.mark.parametrize("end", ["]", "]\n", "\n]"])
def test_an_array_has_its_end_behind_a_broken_document(end: str) -> None:
    found = parts(f'[{{"a":1}},{{"a":2{end}'.encode())
    assert found[0] == b'{"a":1}'
    assert CUT_ARRAY not in [part[0] for part in found if isinstance(part, tuple)]
    found = parts(f'[{{"a":1}},{{"l":[1,2}}{end}'.encode())
    assert CUT_ARRAY not in [part[0] for part in found if isinstance(part, tuple)]


@pytest.mark.parametrize("last", ['{"a":2', '["x"]', '{"l":[1,2]', '{"l":["]"]\n'])
def test_an_array_is_cut_where_only_its_last_element_has_a_bracket(last: str) -> None:
    assert parts(f'[{{"a":1}},{last}'.encode())[-1] == (CUT_ARRAY, b"")


@pytest.mark.parametrize("indent", [None, 2])
def test_a_changed_byte_in_an_array_loses_few_records(indent: int | None) -> None:
    """The others come as they were, or stand in a reject; of no record a part comes alone."""
    rows = [{"a": n, "s": f"text {n}.", "o": {"a": n, "l": [n, {}]}, "z": 0} for n in range(20)]
    content = json.dumps(rows, indent=indent).encode()
    drawn, lost = random.Random(20), 0
    for _ in range(200):
        at = drawn.randrange(len(content))
        changed = content[:at] + bytes([drawn.randrange(256)]) + content[at + 1 :]
        found = parts(changed, 100)
        others = [part for part in found if not is_one_of(rows, part)]
        gone = [row for row in rows if not any(is_one_of([row], part) for part in found)]
        assert len(found) - len(others) + len(gone) == len(rows)
        assert len([row for row in gone if not any(holds(part, row) for part in others)]) <= 1
        assert {len(pairs(part)) for part in others} <= {0, 4}
        no_end = at == len(content) - 1 or changed[at : at + 1] == b"["
        assert no_end or (CUT_ARRAY, b"") not in found
        lost += len(gone)
    assert lost / 200 <= 2.5


def pairs(part: bytes | tuple[str, bytes]) -> list[Any]:
    """The fields of a record; none of what is no record."""
    try:
        found = json.loads(part, object_pairs_hook=list) if isinstance(part, bytes) else []
    except ValueError:
        return []
    return found if isinstance(part, bytes) and part.startswith(b"{") else []


def read(part: bytes | tuple[str, bytes]) -> dict[str, Any]:
    return json.loads(part) if isinstance(part, bytes) and pairs(part) else {}


def is_one_of(rows: list[dict[str, Any]], part: bytes | tuple[str, bytes]) -> bool:
    return read(part) in rows


def holds(part: bytes | tuple[str, bytes], row: dict[str, Any]) -> bool:
    return f"{row['s']}".encode() in (part if isinstance(part, bytes) else part[1])


def odd(line: bytes) -> bool:
    check = LineCheck(LIMIT)
    check.add(line)
    check.finish()
    return check.split_needed


def test_documents_behind_a_broken_one_are_not_left_to_spark() -> None:
    assert odd(b'{"a":1,}{"a":2}\n')
    assert not odd(b'{"a":1,}\n{"a":2}\n')
