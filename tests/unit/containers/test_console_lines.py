"""Lines of Kafka's console consumer: what it prints before a record is passed over."""

from __future__ import annotations

import pytest

from sluice.containers.json_documents import TOO_LARGE, UNPARSEABLE, Line, split
from tests.unit.chunks import pieces

LIMIT = 1 << 16
KEYED = '{"id":1}\t{"op":"c"}'
KEY_AND_VALUE = b'{"key":{"id":1},"value":{"op":"c"}}'
ALL_FIELDS = "CreateTime:1700000000001\tPartition:0\tOffset:5\tDelivery:1\tEpoch:0\t"


def lines(text: str, size: int = 1000, keys: bool = True) -> list[bytes]:
    found = list(split(pieces(text.encode(), size), LIMIT, keys=keys))
    assert all(isinstance(part, Line) for part in found)
    return [part.text for part in found if isinstance(part, Line)]


def parts(text: str, size: int, limit: int = LIMIT) -> list[bytes | tuple[str, bytes]]:
    found = split(pieces(text.encode(), size), limit, keys=True)
    return [p.text if isinstance(p, Line) else (p.reason, p.raw) for p in found]


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    "before",
    [
        "CreateTime:1700000000001\t", "LogAppendTime:1700000000001\t", "NO_TIMESTAMP\t",
        "Partition:0\t", "Offset:5\t", "NO_HEADERS\t", f"{ALL_FIELDS}NO_HEADERS\t",
        f"{ALL_FIELDS}__debezium.context.taskId:0,__debezium.context.connectorName:mysql\t",
    ],
)  # fmt: skip
def test_fields_before_a_key_are_passed_over(before: str, size: int) -> None:
    text = f"{before}{KEYED}\n{before}{KEYED}\r\n"
    assert lines(text, size) == [KEY_AND_VALUE] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('CreateTime:1\tPartition:0\t{"op":"c"}', [b'{"op":"c"}']),
        ('CreateTime:1\tnull\t{"op":"c"}', [b'{"key":null,"value":{"op":"c"}}']),
        ('CreateTime:1\t{"id":1}\tnull', [b'{"key":{"id":1},"value":null}']),
        ('CreateTime:1\t42\t{"op":"c"}', [b'{"key":42,"value":{"op":"c"}}']),
        ('CreateTime:1\ta key\t{"op":"c"}', [b'{"key":null,"value":{"op":"c"}}']),
        # Where nothing follows the line is left as it is; what is no record is for the reader.
        ('CreateTime:1\t\n{"a":1}', [b"CreateTime:1\t", b'{"a":1}']),
        ('Offset:5\toops\n{"a":1}', [b"Offset:5\toops", b'{"a":1}']),
        ('CreateTime:now\toops\n{"a":1}', [b"CreateTime:now\toops", b'{"a":1}']),
    ],
)
def test_what_follows_the_fields_is_read_as_without_them(text: str, expected: list[bytes]) -> None:
    assert lines(text) == expected


@pytest.mark.parametrize("key", ["null", '{"table":"e","pk.id":1}'])
def test_fields_are_passed_over_where_nobody_needs_the_key(key: str) -> None:
    assert lines(f'{ALL_FIELDS}{key}\t{{"table":"e"}}', keys=False) == [b'{"table":"e"}']


def test_a_line_of_many_such_fields_ends() -> None:
    """Each is passed over, or the line is left for the reader to reject; neither nests calls."""
    text = "Offset:5\th:v\t" * 4000
    assert len(lines(f'{text}oops\n{{"a":1}}')) == 2


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("separator", [";", " | ", "|", "\t"])
@pytest.mark.parametrize("end", ["", "\n", "  \r\n"], ids=["end", "line", "blanks"])
def test_null_after_a_key_is_its_value(separator: str, end: str, size: int) -> None:
    assert lines(f'{{"id":1}}{separator}null{end}', size) == [b'{"key":{"id":1},"value":null}']


@pytest.mark.parametrize("separator", [";", " | "])
@pytest.mark.parametrize("after", ["null", "null\n"], ids=["end", "line"])
def test_null_after_a_record_is_no_value_of_it(separator: str, after: str) -> None:
    """A record taken for a key would be lost; one with a row in it is none."""
    first, *rest = lines(f'{{"op":"c","after":{{"id":1}}}}{separator}{after}')
    assert first == b'{"op":"c","after":{"id":1}}'
    assert rest


@pytest.mark.parametrize("after", [";", " | ", "; nullable", ";null more"])
def test_a_separator_alone_makes_no_key(after: str) -> None:
    """`{…};` may be a row, and a key without its value would be a tombstone."""
    assert lines(f'{{"id":1}}{after}\n')[0] == b'{"id":1}'


FEW, SMALL = 300, 4096
"""That many lines are more than the small limit."""


def record(n: int, key: str) -> bytes:
    return f'{{"key":{key},"value":{{"op":"c","after":{{"id":{n}}}}}}}'.encode()


@pytest.mark.parametrize("size", [7, 1000, 1 << 16])
@pytest.mark.parametrize("limit", [SMALL, LIMIT])
@pytest.mark.parametrize(
    "before", ["CreateTime:1\t", "NO_TIMESTAMP\tPartition:0\t", "NO_HEADERS\t"]
)
@pytest.mark.parametrize(
    ("key", "read_key", "cut", "refused"),
    [
        ("k%d\t", "null", 'k1\t{"op":"c","after":{"id":', None),
        ('"k%d"\t', '"k%d"', '"k1"\t{"op":"c","after":{"id":', None),
        ('{"id":%d}\t', '{"id":%d}', '{"id":', None),
        ('{"id":%d}\t', '{"id":%d}', '{"id":1,', None),
        # Whether an object is a key, its record tells: without one it is a document like any.
        (
            '{"id":%d}\t', '{"id":%d}', '{"id":1}\t{"op":"c","after":{"id":',
            [b'{"id":1}', b'{"op":"c","after":{"id":'],
        ),
    ],
    ids=["value of a text", "value of a string", "key", "key before a field", "value"],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 1])
def test_a_line_that_is_cut_costs_no_other(
    at: int, key: str, read_key: str, cut: str, refused: list[bytes] | None,
    before: str, limit: int, size: int,
) -> None:  # fmt: skip
    whole = f'{before}{key}{{"op":"c","after":{{"id":%d}}}}'
    written = [whole % ((n,) * whole.count("%d")) for n in range(FEW)]
    kept = [record(n, read_key % n if "%d" in read_key else read_key) for n in range(FEW)]
    written.insert(at, before + cut)
    expected = [*kept[:at], *(refused or [(before + cut).encode()]), *kept[at:]]
    assert parts("\r\n".join(written), size, limit) == expected


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 16])
@pytest.mark.parametrize("limit", [SMALL, LIMIT])
def test_a_line_without_a_key_that_is_cut_costs_no_other(limit: int, size: int) -> None:
    written = [f'Offset:{n}\t{{"op":"c","after":{{"id":{n}}}}}' for n in range(FEW)]
    cut = 'Offset:7\t{"op":"c","after":{"id":'
    kept = [line.partition("\t")[2].encode() for line in written]
    text = "\n".join([*written[:7], cut, *written[8:]])
    assert parts(text, size, limit) == [*kept[:7], cut.encode(), *kept[8:]]


@pytest.mark.parametrize("size", [1, 64, 1000, 1 << 16])
@pytest.mark.parametrize("end", ['"}}', '"', ""], ids=["whole", "no brace", "no quote"])
@pytest.mark.parametrize("key", ["k\t", '"k"\t', ""], ids=["text", "string", "none"])
def test_a_line_beyond_the_limit_costs_no_other(key: str, end: str, size: int) -> None:
    large = f'Offset:1\t{key}{{"op":"c","after":{{"t":"{"x" * 2 * SMALL}{end}'
    after = "".join(f'Offset:{n}\t{key}{{"a":{n}}}\n' for n in range(2, FEW))
    refused, *kept = parts(f"{large}\n{after}", size, SMALL)
    assert [b'{"a":%d}' % n in part for n, part in enumerate(kept, 2)] == [True] * (FEW - 2)
    assert refused[0] == TOO_LARGE or refused == large.encode()
    beginning = refused[1] if isinstance(refused, tuple) else refused
    assert isinstance(beginning, bytes)
    assert len(beginning) >= SMALL
    assert large.encode().startswith(beginning)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_such_a_line_begins_nothing_where_none_was_passed_over(size: int) -> None:
    """In a damaged document of several lines it may be one of its own."""
    damaged = '{"a":\nOffset:5\t,"b":{}\n}'
    text = f'{{"a":0}}\n{damaged}\n{{"a":1}}'
    assert parts(text, size) == [b'{"a":0}', (UNPARSEABLE, damaged.encode()), b'{"a":1}']


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_sound_document_of_several_lines_is_read_behind_such_fields(size: int) -> None:
    text = 'Offset:1\tk\t{\n "t": "Offset:5\\tNO_HEADERS\\n",\n "b": 1\n}\n'
    value = b'{"key":null,"value":{"t":"Offset:5\\tNO_HEADERS\\n","b":1}}'
    assert parts(text * 3, size) == [value] * 3
