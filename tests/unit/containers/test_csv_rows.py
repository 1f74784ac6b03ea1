"""CSV files as JSON lines: quoting, NULL, line ends, and what is no row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.config.format_options import AwsDmsOptions, RowsOptions
from sluice.containers.compression import DamageError
from sluice.containers.csv_rows import CsvStyle, is_csv, rows_as_json, style_of
from sluice.containers.json_documents import Line, Rejected

LIMIT = 1000


def rows(content: bytes, style: CsvStyle | None = None, size: int = 1 << 20) -> list[str]:
    """Each row as its JSON, each refusal as its reason and text."""
    chunks = (content[at : at + size] for at in range(0, len(content), size))
    return shown(chunks, style or CsvStyle())


def shown(chunks: Iterator[bytes], style: CsvStyle) -> list[str]:
    return [
        part.text.decode() if isinstance(part, Line) else f"{part.reason}: {part.raw!r}"
        for part in rows_as_json(chunks, style, LIMIT)
    ]


def test_csv_file_with_a_broken_header_has_no_rows() -> None:
    found = rows(b'"a"x,b\n1,2\n3,4\n')
    assert found == [
        "malformed_csv: b'\"a\"x,b\\n'",
        "no_line_of_names: b'1,2\\n'",
        "no_line_of_names: b'3,4\\n'",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"1,x", '{"a":"1","b":"x"}'),
        (b"1,", '{"a":"1","b":null}'),
        (b",1", '{"a":null,"b":"1"}'),
        (b'1,""', '{"a":"1","b":""}'),
        (b'"",', '{"a":"","b":null}'),
        (b'"a,b","c""d"', '{"a":"a,b","b":"c\\"d"}'),
        (b'"a\r\nb\nc",""', '{"a":"a\\r\\nb\\nc","b":""}'),
        (b'"""",""""""', '{"a":"\\"","b":"\\"\\""}'),
        (b'"x"",",', '{"a":"x\\",","b":null}'),
        (b" 1 ,\t", '{"a":" 1 ","b":"\\t"}'),
        (b"\\N,NULL", '{"a":"\\\\N","b":"NULL"}'),
        (b'5" pipe,x', '{"a":"5\\" pipe","b":"x"}'),
        ("é\u2028x,\u0085".encode(), '{"a":"é\u2028x","b":"\u0085"}'),
        (b"12345678901234567890.10,1e999", '{"a":"12345678901234567890.10","b":"1e999"}'),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_csv_row_becomes_a_json_line(line: bytes, expected: str, end: bytes, size: int) -> None:
    assert rows(b"a,b\n" + line + end, size=size) == [expected]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"\\N,x", '{"a":null,"b":"x"}'),
        (b'"\\N",x', '{"a":"\\\\N","b":"x"}'),
        (b',""', '{"a":"","b":""}'),
        (b'"\\N",\\N', '{"a":"\\\\N","b":null}'),
    ],
)
def test_another_text_is_null(line: bytes, expected: str) -> None:
    assert rows(b"a,b\n" + line, CsvStyle(("\\N",))) == [expected]


def test_of_one_column_a_blank_line_is_a_row() -> None:
    assert rows(b'a\n1\n\n""\n') == ['{"a":"1"}', '{"a":null}', '{"a":""}']
    assert rows(b"a,b\n1,2\n\n3,4\n") == ['{"a":"1","b":"2"}', '{"a":"3","b":"4"}']


def test_other_delimiters_and_names() -> None:
    style = CsvStyle(delimiter="|", columns=("a", "b"))
    assert rows(b'1,2|"3|4"\n|""\n', style) == ['{"a":"1,2","b":"3|4"}', '{"a":null,"b":""}']


def test_names_are_the_first_line() -> None:
    assert rows(b'\xef\xbb\xbf\n"a ""x""",b\r\n\r\n1,2\r\n\r\n') == ['{"a \\"x\\"":"1","b":"2"}']
    assert rows(b"") == []
    assert rows(b"a,b\n") == []


def test_a_name_that_comes_twice_is_left_to_the_decoder() -> None:
    assert rows(b"a,a\n1,2") == ['{"a":"1","a":"2"}']


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1,2,3\n", "wrong_field_count: b'1,2,3\\n'"),
        (b"1\n", "wrong_field_count: b'1\\n'"),
        (b'1,"a"b\n', "malformed_csv: b'1,\"a\"b\\n'"),
        (b"1,\xff\n", "invalid_utf8: b'1,\\xff\\n'"),
    ],
)
def test_malformed_csv_row_is_refused_and_the_next_row_read(line: bytes, reason: str) -> None:
    assert rows(b"a,b\n" + line + b"3,4\n") == [reason, '{"a":"3","b":"4"}']


def test_a_quote_that_nothing_closes() -> None:
    assert rows(b'a,b\n1,2\n3,"x\n4,5') == [
        '{"a":"1","b":"2"}',
        "malformed_csv: b'3,\"x\\n4,5'",
    ]


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_row_above_the_limit_ends_the_file(size: int) -> None:
    found = rows(b'a,b\n1,2\n3,"' + b"x\n" * LIMIT + b'"\n5,6\n', size=size)
    assert found[0] == '{"a":"1","b":"2"}'
    assert [part.partition(":")[0] for part in found[1:]] == ["document_too_large"]
    assert rows(b"a,b\n1," + b"x" * 2 * LIMIT, size=7)[0].startswith("document_too_large: b'1,xx")


@pytest.mark.parametrize("size", [7, 1 << 10, 1 << 20])
@pytest.mark.parametrize("row", ["2," + "\u6f22" * 400, '2,"' + "\u6f22" * 400 + '"'])
def test_the_limit_is_in_bytes_and_not_in_characters(row: str, size: int) -> None:
    """A row that was cut at the limit was taken for whole, and those behind it vanished."""
    *kept, large = rows(f"a,b\n1,x\n{row}\n3,y\n".encode(), size=size)
    assert kept == ['{"a":"1","b":"x"}']
    assert large.startswith("document_too_large: b'2,")


def test_the_limit_behind_a_byte_order_mark() -> None:
    content = "\ufeffa".encode() + b"," * (LIMIT - 2)
    assert len(rows(content + b"b\n1,2\n", size=LIMIT + 1)) == 1


@pytest.mark.parametrize(
    ("content", "refused"),
    [(b"a,b\n1,2\n3,4", "b'3,4'"), (b"a,b\n1,2\n", "b''"), (b'a,b\n1,2\n3,"x\ny', "b'3,\"x\\ny'")],
)
def test_the_row_that_a_cut_fell_into_is_refused(content: bytes, refused: str) -> None:
    def cut() -> Iterator[bytes]:
        yield content
        raise DamageError("truncated_gzip", trusted=True)

    assert shown(cut(), CsvStyle()) == ['{"a":"1","b":"2"}', f"truncated_gzip: {refused}"]


def test_untrusted_damage_is_raised() -> None:
    def damaged() -> Iterator[bytes]:
        yield b"a,b\n"
        raise DamageError("damaged_gzip", trusted=False)

    with pytest.raises(DamageError):
        shown(damaged(), CsvStyle())


@pytest.mark.parametrize(
    ("key", "found"),
    [("a.csv", True), ("x/a.CSV.gz", True), ("a.csv.zst", True), ("a.csv/b", False), ("a", False)],
)
def test_csv_by_name(key: str, found: bool) -> None:
    assert is_csv(key) == found


def test_csv_style_follows_the_options_of_the_format() -> None:
    assert style_of(RowsOptions(table="t")) == CsvStyle(("",), ",", ())
    given = RowsOptions(csv_null="\\N", csv_delimiter="\t", csv_columns=["a"])
    assert style_of(given) == CsvStyle(("\\N",), "\t", ("a",))
    assert style_of(AwsDmsOptions()).nulls == ("", "NULL")
    assert style_of(AwsDmsOptions(csv_null="")).nulls == ("",)


@pytest.mark.parametrize(
    "names", [b"x" * (1 << 20) + b",y", b",".join(b"n%d" % n for n in range(10_001))]
)
def test_a_line_of_names_that_every_row_would_repeat_at_length_is_refused(names: bytes) -> None:
    found = list(rows_as_json(iter([names + b"\n1,2\n3,4\n"]), CsvStyle(), 1 << 22))
    assert [part.reason for part in found if isinstance(part, Rejected)] == [
        "line_of_names_too_long", "no_line_of_names", "no_line_of_names",
    ]  # fmt: skip
    assert len(found) == 3


def test_a_full_load_of_aws_dms_lacks_the_operation() -> None:
    style = CsvStyle(columns=("Op", "id", "v"))
    assert rows(b"1,a\nI,2,\n3\n", style) == [
        '{"id":"1","v":"a"}',
        '{"Op":"I","id":"2","v":null}',
        "wrong_field_count: b'3\\n'",
    ]
    assert rows(b"1,a\n", CsvStyle(columns=("op", "id", "v"))) == ["wrong_field_count: b'1,a\\n'"]


@pytest.mark.parametrize("cut", ["I", "U", "D"])
def test_a_change_that_lacks_a_field_is_no_row_of_a_full_load(cut: str) -> None:
    """Else its operation became the first column."""
    style, line = CsvStyle(columns=("Op", "id", "v")), f"{cut},1\n"
    refused = f"wrong_field_count: {line.encode()!r}"
    assert rows(f"{line}U,1,b\n{line}".encode(), style) == [
        refused, '{"Op":"U","id":"1","v":"b"}', refused,
    ]  # fmt: skip


def test_a_full_load_may_have_letters_like_an_operation() -> None:
    """A row before it says that the file has no operations."""
    style = CsvStyle(columns=("Op", "id", "v"))
    assert rows(b"A,1\nI,2\n", style) == ['{"id":"A","v":"1"}', '{"id":"I","v":"2"}']


def test_a_short_row_does_not_make_a_file_of_changes_a_full_load() -> None:
    """Rows with an operation before it say what the file is, and else the ones after it."""
    style = CsvStyle(columns=("Op", "id", "v"))
    assert rows(b"U,1,a\n7,b\nU,2\n", style) == [
        '{"Op":"U","id":"1","v":"a"}',
        "wrong_field_count: b'7,b\\n'",
        "wrong_field_count: b'U,2\\n'",
    ]
    assert rows(b"7,b\nU,1,a\nU,2\n", style)[1:] == [
        '{"Op":"U","id":"1","v":"a"}',
        "wrong_field_count: b'U,2\\n'",
    ]


def test_a_row_with_a_field_too_many_does_not_end_a_full_load() -> None:
    """It begins with no operation."""
    style = CsvStyle(columns=("Op", "id", "v"))
    assert rows(b"1,a\n2,b,c\n3,d\n", style) == [
        '{"id":"1","v":"a"}', '{"Op":"2","id":"b","v":"c"}', '{"id":"3","v":"d"}',
    ]  # fmt: skip


def test_a_blank_line_is_no_full_load_without_columns() -> None:
    assert rows(b"\nI\n", CsvStyle(columns=("Op",))) == ['{"Op":null}', '{"Op":"I"}']


def test_a_line_of_names_says_itself_whether_there_is_an_operation() -> None:
    assert rows(b"Op,id,v\nU,1,x\nD,1\n") == [
        '{"Op":"U","id":"1","v":"x"}',
        "wrong_field_count: b'D,1\\n'",
    ]
