"""Lines of Kafka's console consumer: what it prints before a record is passed over."""

from __future__ import annotations

import pytest

from sluice.containers.json_documents import Line, split
from tests.unit.chunks import pieces

LIMIT = 1 << 16
KEYED = '{"id":1}\t{"op":"c"}'
KEY_AND_VALUE = b'{"key":{"id":1},"value":{"op":"c"}}'
ALL_FIELDS = "CreateTime:1700000000001\tPartition:0\tOffset:5\tDelivery:1\tEpoch:0\t"


def lines(text: str, size: int = 1000, keys: bool = True) -> list[bytes]:
    found = list(split(pieces(text.encode(), size), LIMIT, keys=keys))
    assert all(isinstance(part, Line) for part in found)
    return [part.text for part in found if isinstance(part, Line)]


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
        ('Offset:5\toops\n{"a":1}', [b"oops", b'{"a":1}']),
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
