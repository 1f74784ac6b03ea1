"""Documents in whatever a file holds them, with the very text of each."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.bounds import DEFAULT
from sluice.containers.compression import Plain
from sluice.containers.json_documents import (
    CUT_ARRAY,
    INVALID_UTF8,
    LONE_SURROGATE,
    TOO_LARGE,
    UNPARSEABLE,
    Line,
    Rejected,
    split,
)
from sluice.containers.json_lines import BLOCK_BYTES, LineCheck
from tests.unit.chunks import PLAIN, pieces

LIMIT = 1 << 16
PRETTY = '{\n  "a": 1.10,\r\n  "b": [\n    {}\n  ]\n}'
ON_ONE_LINE = b'{"a":1.10,"b":[{}]}'


def parts(data: bytes | str, size: int = 7, limit: int = LIMIT) -> list[bytes | tuple[str, bytes]]:
    raw = data.encode() if isinstance(data, str) else data
    found = split(pieces(raw, size), limit, keys=True)
    return [p.text if isinstance(p, Line) else (p.reason, p.raw) for p in found]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \r\n\n", []),
        ('{"a":1}', [b'{"a":1}']),
        ('{"a":1}\n{"a":2}\r\n', [b'{"a":1}', b'{"a":2}']),
        ('{"a":1}{"a":2} {"a":3}', [b'{"a":1}', b'{"a":2}', b'{"a":3}']),
        ('{"a":1},\n{"a":2}', [b'{"a":1}', b'{"a":2}']),
        ('\ufeff{"a":1}', [b'{"a":1}']),
        ('{"a":1}\n\ufeff{"a":2}\ufeff{"a":3}', [b'{"a":1}', b'{"a":2}', b'{"a":3}']),
        (PRETTY, [ON_ONE_LINE]),
        (PRETTY + "\n" + PRETTY, [ON_ONE_LINE, ON_ONE_LINE]),
        ('[{"a":1},\n {"a":2}]\n', [b'{"a":1}', b'{"a":2}']),
        ('[ ]\n[{"a":1}]', [b'{"a":1}']),
        ('[{"a":[1,2]},{"a":[{}]}]', [b'{"a":[1,2]}', b'{"a":[{}]}']),
        ('/* Licence { "x": 1 }\n * [more] */\n\n{"a":1}', [b'{"a":1}']),
        ("null\n", [b"null"]),
        ('{"a":"\u00e9\U0001f600 \\u00e9"}', ['{"a":"\u00e9\U0001f600 \\u00e9"}'.encode()]),
    ],
)
def test_file_is_split_into_its_json_documents(text: str, expected: list[bytes], size: int) -> None:
    assert parts(text, size) == expected


@pytest.mark.parametrize(
    "number",
    ["12345678901234567890.123456789", "1.10", "1E400", "-0.0", "9" * 5000, "NaN", "-Infinity"],
)
def test_text_of_numbers_is_kept(number: str) -> None:
    document = f'{{"a": {number}, "a": {number}}}'
    assert parts(document + document) == [document.encode()] * 2


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('****^{"b":1}\n', b'{"key":null,"value":{"b":1}}'),
        ('{"id":1}^{"b":1}\n', b'{"key":{"id":1},"value":{"b":1}}'),
        ('"k"^{"b":1}', b'{"key":"k","value":{"b":1}}'),
        ("7^\n", b'{"key":7,"value":null}'),
        ('{"id":1}^', b'{"key":{"id":1},"value":null}'),
        ('{"id":1}^  \r\n', b'{"key":{"id":1},"value":null}'),
        ('{"id":1};{"op":"c"}\n', b'{"key":{"id":1},"value":{"op":"c"}}'),
        ('{"id":";"} | {"op":"c"}\n', b'{"key":{"id":";"},"value":{"op":"c"}}'),
        ('{"id":1}\t{"op":"c"}\n', b'{"key":{"id":1},"value":{"op":"c"}}'),
        ('{"id":1}\tnull\r\n', b'{"key":{"id":1},"value":null}'),
        ('"a key"\t{"op":"c"}', b'{"key":"a key","value":{"op":"c"}}'),
        ('a key\t{"op":"c"}', b'{"key":null,"value":{"op":"c"}}'),
        ("a key of more letters than are looked ahead^{}", b'{"key":null,"value":{}}'),
        ("7\tnull", b'{"key":7,"value":null}'),
        ('null\t{"op":"c"}', b'{"key":null,"value":{"op":"c"}}'),
        (
            '{"schema":null,"payload":{"id":1}};{"schema":{},"payload":{"op":"c"}}',
            b'{"key":{"schema":null,"payload":{"id":1}},'
            b'"value":{"schema":{},"payload":{"op":"c"}}}',
        ),
    ],
)
def test_key_and_value(text: str, expected: bytes, size: int) -> None:
    assert parts(text, size) == [expected]
    assert parts(text.strip() + "\n" + text, size) == [expected] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id":1}^{"b":1}', [b'{"b":1}']),
        ('a key^{"b":1}', [b'{"b":1}']),
        ('null\t{"b":1}', [b'{"b":1}']),
        ('"a key"\t{"b":1}', [b'{"b":1}']),
        ("7^", [b"null"]),
        # Two records may be no key and value here, and none is lost.
        ('{"a":1}\t{"b":1}', [b'{"a":1}', b'{"b":1}']),
        # What Maxwell's producers write before a row with a key, and before one without.
        ('{"database":"t","table":"e","pk.id":1}\t{"database":"t","data":{"id":1}}',
         [b'{"database":"t","data":{"id":1}}']),
        ('{"database":"t","_uuid":"x"}\t{"table":"e"}', [b'{"table":"e"}']),
        ('["t","e",[{"id":1}]]\t{"table":"e"}', [b'{"table":"e"}']),
        # Rows of a table with such a column, and a key without a record.
        ('{"pk.id":1}\t{"pk.id":2}', [b'{"pk.id":1}', b'{"pk.id":2}']),
        ('{"_uuid":"x"}\tnull', [b'{"_uuid":"x"}', b"null"]),
        ('{"_uuid":"x"}\t["t"]', [b'{"_uuid":"x"}', b'["t"]']),
    ],
)  # fmt: skip
def test_a_key_that_nobody_needs_is_passed_over(text: str, expected: list[bytes]) -> None:
    found = split(pieces(text.encode()), LIMIT, keys=False)
    assert [part.text for part in found if isinstance(part, Line)] == expected


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Garbage stays where it was, as the line that the reader will reject.
        ('{"a":1} rest\n{"a":2}', [b'{"a":1}', b"rest", b'{"a":2}']),
        ('{"a":1}}\n{"a":2}', [b'{"a":1}', b"}", b'{"a":2}']),
        ('hello world\n{"a":2}', [b"hello world", b'{"a":2}']),
        # A tab between two records, or before what is no record, makes no key.
        ('{"a":1}\t{"a":2}', [b'{"a":1}', b'{"a":2}']),
        ('{"a":{}}\tnull', [b'{"a":{}}', b"null"]),
        ('hello\tworld\n{"a":2}', [b"hello\tworld", b'{"a":2}']),
        ('hello\tnullable\n{"a":2}', [b"hello\tnullable", b'{"a":2}']),
        ('2026-01-01 error\n{"a":2}', [b"2026-01-01 error", b'{"a":2}']),
        ('[info] started\n{"a":2}', [b"[info] started", b'{"a":2}']),
        ('{"a": oops}\n{"a":2}', [b'{"a": oops}', b'{"a":2}']),
        # Torn lines do not swallow what comes after them.
        ('{"a": "fo\n{"a":2}\n', [b'{"a": "fo', b'{"a":2}']),
        ('{"a":\n{"a":2}\n{"a":3}\n', [b'{"a":', b'{"a":2}', b'{"a":3}']),
        ('{"a":2}\n{"a": "fo', [b'{"a":2}', b'{"a": "fo']),
        ('{"a":2}\n{"a": [1,', [b'{"a":2}', b'{"a": [1,']),
        # Several lines that are no document are one reject.
        (
            '{\n  "a": 1,\n  oops\n}\n{\n  "a": 2\n}',
            [(UNPARSEABLE, b'{\n  "a": 1,\n  oops\n}'), b'{"a":2}'],
        ),
        ('{\n  "a": 1,', [(UNPARSEABLE, b'{\n  "a": 1,')]),
        ('[{"a":1},\n{"a":2}', [b'{"a":1}', b'{"a":2}', (CUT_ARRAY, b"")]),
        ("err ^ oops\n", [b"err ^ oops"]),
        # Two records are no key and its value.
        ('{"op":"c"};{"op":"d"}\n', [b'{"op":"c"}', b';{"op":"d"}']),
        (
            '{"schema":1,"payload":{"op":"c"}}|{"schema":1,"payload":{"op":"d"}}\n{"a":2}',
            [
                b'{"schema":1,"payload":{"op":"c"}}',
                b'|{"schema":1,"payload":{"op":"d"}}',
                b'{"a":2}',
            ],
        ),
        ('{"a":1};\n{"a":2}', [b'{"a":1}', b";", b'{"a":2}']),
        ("/* never closed\n", [b"/* never closed"]),
        ('{"a":"\\ud800"}\n{"a":"\\ud83d\\ude00"}',
         [(LONE_SURROGATE, b'{"a":"\\ud800"}'), b'{"a":"\\ud83d\\ude00"}']),
    ],
)  # fmt: skip
def test_text_that_is_no_document_is_left_to_spark_or_refused(
    text: str, expected: list[object], size: int
) -> None:
    assert parts(text, size) == expected


def test_bytes_that_are_no_utf8() -> None:
    data = b'{"a":"\xe9"}\n{"a":"\xc3\xa9"}\n\xff\xfe\n'
    assert parts(data) == [
        (INVALID_UTF8, b'{"a":"\xe9"}'),
        b'{"a":"\xc3\xa9"}',
        (INVALID_UTF8, b"\xff\xfe"),
    ]


def test_deep_nesting_does_not_end_the_run() -> None:
    deep = '{"a":' * 100_000
    assert [p[:5] for p in parts(f'{deep}\n{{"b":1}}', 1000, 1 << 20)] == [b'{"a":', b'{"b":']


@pytest.mark.parametrize("depth", [1200, 40_000])
@pytest.mark.parametrize("form", ["%s\n%s\n%s\n", "[%s,%s,%s]", "%s%s%s", "1^%s\n2^%s\n3^%s\n"])
def test_no_part_of_a_document_that_is_too_deep_becomes_a_record(form: str, depth: int) -> None:
    deep = f'{{"b":{"[" * depth}\n{{"a":2}}\n{"]" * depth}}}'
    text = form % ('{"a":1}', deep, '{"a":3}')
    assert needs_split(text.encode())
    first, refused, last = parts(text, 1000, 1 << 20)
    assert all(b'{"a":%d}' % n in part for n, part in ((1, first), (3, last)))
    assert refused == (UNPARSEABLE, f"{'2^' if '^' in form else ''}{deep}".encode())


def test_a_document_as_deep_as_can_just_be_parsed_costs_no_other() -> None:
    """At which depth that is depends on the caller."""
    deep = [f'{{"a":{"[" * n}"\\ud83d\\ude00"{"]" * n}}}'.encode() for n in range(800, 1000)]
    assert parts(b"\n".join(deep), 1 << 16, 1 << 20) == deep
    assert not any(map(needs_split, deep))


@pytest.mark.parametrize("size", [64, 1000])
def test_a_document_beyond_the_limit(size: int) -> None:
    large = '{"a":"' + "x" * 20_000
    found = parts(f'{{"b":1}}\n{large}"}}\n{{"b":2}}\n{{"b":3}}', size, limit=4096)
    assert found[0] == b'{"b":1}'
    assert found[1][0] == TOO_LARGE
    assert found[2:] == [b'{"b":2}', b'{"b":3}']


@pytest.mark.parametrize("lead", ["", "/*c*/", '{"p":1}\n', '{"p":"' + "z" * 3000 + '"}\n'])
@pytest.mark.parametrize("large", ['{"a":"%s"}', '{\n"a":"%s"\n}', '7^{"a":"%s"}', '{"%s":1}^'])
@pytest.mark.parametrize("text", ["y" * 4096, "€" * 1400])
def test_a_document_beyond_the_limit_is_refused_wherever_it_stands(
    lead: str, large: str, text: str
) -> None:
    for size in (64, 1 << 16):
        found = parts(f'{lead}{large % text}\n{{"b":2}}', size, limit=4096)
        assert [part[0] for part in found if isinstance(part, tuple)] == [TOO_LARGE]
        assert found[-1] == b'{"b":2}'
    assert isinstance(parts(f"{lead}{large % text}", 1 << 16, limit=4212)[-1], bytes)


@pytest.mark.parametrize("before", ["", "k\t", "7^", "Offset:1\t"])
@pytest.mark.parametrize("large", ['{"a":"%s"}', '{"a":"%s', '{"a":{"b":"%s",'])
def test_what_follows_a_document_beyond_the_limit_is_read_wherever_the_window_ends(
    before: str, large: str
) -> None:
    """It may end within the next one's first characters."""
    written = f"{before}{large % ('x' * 300)}\n"
    after = "".join(f'{before}{{"n":{n}}}\n' for n in range(9))
    for size in range(280, 360):
        refused, *kept = parts(written + after, size, limit=100)
        assert [b'{"n":%d}' % n in part for n, part in enumerate(kept)] == [True] * 9, size
        raw = refused[1] if isinstance(refused, tuple) else refused
        assert written.encode().startswith(raw), size


@pytest.mark.parametrize("before", [1, 3000])
def test_a_line_beyond_the_limit_is_not_for_spark(before: int) -> None:
    for end in (b"", b"\n"):
        check = LineCheck(4096)
        check.add(b'{"a":1}\n' * before + b'{"a":"%s"}' % (b"y" * 4096) + end)
        check.finish()
        assert check.split_needed


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES | st.lists(VALUES, max_size=3), max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(OBJECTS, min_size=1, max_size=4),
    st.sampled_from([None, 1, "\t"]),
    st.sampled_from(["\n", "", " ", "\r\n", ",\n"]),
    st.booleans(),
    st.integers(1, 50),
)
def test_any_documents_in_any_form(
    documents: list[object], indent: int | str | None, between: str, ascii_only: bool, size: int
) -> None:
    texts = [json.dumps(d, indent=indent, ensure_ascii=ascii_only) for d in documents]
    found = parts(between.join(texts), size)
    dense = [json.dumps(d, separators=(",", ":"), ensure_ascii=ascii_only) for d in documents]
    assert found == [
        (d if "\n" in text else text).encode() for text, d in zip(texts, dense, strict=True)
    ]


def needs_split(data: bytes, size: int = 1000) -> bool:
    check = LineCheck(LIMIT)
    for piece in pieces(data, size):
        check.add(piece)
    check.finish()
    return check.split_needed


# In a large block all lines are judged at once, in a small one each by itself.
BEFORE = [b"", PLAIN * 5, PLAIN * (BLOCK_BYTES // len(PLAIN) + 1)]
AFTER = b'\n{"z":1}\n'


@pytest.mark.parametrize("before", BEFORE, ids=["alone", "block", "blocks"])
@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1}{"a":2}', b'{"a":1},{"a":2}', b'{"a":1} x', b'{"a":1}}', b'{"a":1}"x"',
        b'{"a":1}]', b'{"a":"}"} \\', b'{"a":', b"{", b'{"a":1,', b'[{"a":1}]', b' [{"a":1}]',
        b"/* c */", b'{"a":"\xff"}', b'{"a":\r1}', b'{"a":1}^{"b":1}', b'{"a":1};{"b":1}', b"x^{}",
        b'{"a":1}\t{"b":1}', b'x\t{"b":1}', b"7\tnull",
        b'\xef\xbb\xbf{"a":1}', b'{"a":"\\ud800"}',
    ],
)  # fmt: skip
def test_lines_that_spark_would_misread(before: bytes, line: bytes) -> None:
    assert needs_split(before + line + AFTER)


@pytest.mark.parametrize("before", BEFORE, ids=["alone", "block", "blocks"])
@pytest.mark.parametrize(
    "line",
    [
        b"", b"  ", b'{"a":1}', b'{"a":1}  \r', b'  {"a":"}{ } x"}', b'{"a":"}\\" x"}', b"hello",
        b"null", b'{"a":NaN}', b'{"a": oops}', b'{"a":"', b'{"a":tr',
        '{"é":"\\ud83d\\ude00"}'.encode(),
        b'{"a":[{"b":1},{"c":"},{"}]}',
    ],
)  # fmt: skip
def test_lines_that_spark_reads_or_rejects_whole(before: bytes, line: bytes) -> None:
    assert not needs_split(before + line + AFTER)


def test_a_cut_last_line_is_left_to_spark() -> None:
    assert not needs_split(PLAIN + b'{"a":"')
    assert not needs_split(b'{"a":')


def test_an_endless_line_is_split() -> None:
    assert needs_split(b'{"a":"' + b"x" * (2 * BLOCK_BYTES))


def test_key_at_the_end_of_a_cut_file_is_no_tombstone() -> None:
    whole = gzip.compress(b'{"id":6}^\n{"id":7}^')
    found = list(split(Plain(iter([whole[:-8]]), "gzip", DEFAULT), LIMIT, keys=True))
    assert found == [
        Line(b'{"key":{"id":6},"value":null}'), Rejected("truncated_gzip", b'{"id":7}^'),
    ]  # fmt: skip


def test_an_array_may_begin_with_null() -> None:
    assert parts('[null, {"op":"c"},\n {"op":"d"}]') == [b"null", b'{"op":"c"}', b'{"op":"d"}']
    assert parts("[null]") == [b"null"]
