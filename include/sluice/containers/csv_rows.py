"""Turn CSV files into JSON lines: one object a row, every value a text or null.

Rows follow RFC 4180: fields in double quotes may have delimiters, line ends and doubled quotes. An
unquoted field that equals the null text is NULL, a quoted one never is. So `,,` is NULL and `,"",`
is the empty text, as Spark, AWS DMS and most writers have it.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from json import encoder
from typing import Final

from sluice.bounds import MEBIBYTE
from sluice.config.format_options import CsvOptions
from sluice.containers.compression import DamageError
from sluice.containers.json_documents import BOM, INVALID_UTF8, TOO_LARGE, Line, Rejected, as_bytes

MALFORMED: Final = "malformed_csv"
FIELD_COUNT: Final = "wrong_field_count"
NO_NAMES: Final = "no_line_of_names"
TOO_MANY_NAMES: Final = "line_of_names_too_long"
MOST_NAMES: Final = 10_000
MOST_NAMES_CHARACTERS: Final = MEBIBYTE

_OPERATION: Final = "Op"
_OPERATIONS: Final = ("I", "U", "D")
_ENDINGS: Final = re.compile(r"\.csv(\.[a-z0-9]+)?$", re.IGNORECASE)
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class CsvStyle:
    """How CSV files are written: null texts, delimiter, column names.

    `columns` is empty if the first line has the names.
    """

    nulls: tuple[str, ...] = CsvOptions.DEFAULT_NULLS
    delimiter: str = ","
    columns: tuple[str, ...] = ()


def style_of(options: CsvOptions) -> CsvStyle:
    """The style that a format's options ask for."""
    return CsvStyle(options.nulls, options.csv_delimiter, tuple(options.csv_columns))


def is_csv(key: str) -> bool:
    """Whether an object is a CSV file, by its name: its bytes do not show it."""
    return _ENDINGS.search(key) is not None


def rows_as_json(chunks: Iterator[bytes], style: CsvStyle, limit: int) -> Iterator[Line | Rejected]:
    """Yield every row as one JSON object, and what is no row as Rejected.

    If the header is rejected all rows are, because their columns are unknown. Raises DamageError if
    nothing of the file can be trusted.
    """
    csv.field_size_limit(sys.maxsize)
    lines = _Lines(chunks, limit)
    rows = csv.reader(lines, delimiter=style.delimiter, strict=True)
    names = [encoder.encode_basestring(name) for name in style.columns]
    operation = _OperationColumn(style.columns)
    header_rejected = False
    while (row := _next_row(rows, lines)) is not None:
        if isinstance(row, Rejected):
            header_rejected = header_rejected or not names
            yield row
        elif header_rejected:
            yield Rejected(NO_NAMES, as_bytes(lines.record()))
        elif not names and _too_long(row):
            header_rejected = True
            yield Rejected(TOO_MANY_NAMES, as_bytes(lines.record()))
        elif not names:
            names = [encoder.encode_basestring(name) for name in row]
        elif row or len(names) == 1:  # with one column a blank line is an empty field
            row = row or [""]
            yield _object(names[1:] if operation.lacks(row) else names, row, lines.record(), style)


def _too_long(names: list[str]) -> bool:
    """Whether the header is too long: every JSON line repeats it."""
    return len(names) > MOST_NAMES or sum(map(len, names)) > MOST_NAMES_CHARACTERS


def _next_row(rows: Iterator[list[str]], lines: _Lines) -> list[str] | Rejected | None:
    """Return the next row, [] for a blank line, None at the end."""
    lines.taken.clear()
    try:
        return next(rows)
    except StopIteration:
        return lines.pop_cut()
    except csv.Error:
        raw = as_bytes(lines.record())
        cut = lines.pop_cut()
        return Rejected(cut.reason, raw + cut.raw) if cut else Rejected(MALFORMED, raw)
    except _TooLargeError:
        lines.end()
        return Rejected(TOO_LARGE, as_bytes(lines.record()))


class _OperationColumn:
    """AWS DMS's S3 target omits the operation in full loads although the header names it."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._whole = len(columns) if columns[:1] == (_OPERATION,) else 0
        self._full_load = self._changes = False

    def lacks(self, row: list[str]) -> bool:
        """Whether the next row of a file lacks the operation.

        A row that has all fields and begins with an operation shows that the file has it. A short
        one that begins with an operation may be a change that lacks another field.
        """
        is_operation, short = row[0] in _OPERATIONS, len(row) == self._whole - 1
        self._changes |= is_operation and len(row) == self._whole
        self._full_load |= short and not is_operation
        return short and self._full_load and not self._changes


def _object(names: list[str], fields: list[str], record: str, style: CsvStyle) -> Line | Rejected:
    if len(fields) != len(names):
        return Rejected(FIELD_COUNT, as_bytes(record))
    values = [encoder.encode_basestring(field) for field in fields]
    if not set(style.nulls).isdisjoint(fields):
        for at, quoted in enumerate(_quoted_fields(record, style.delimiter)):
            if fields[at] in style.nulls and not quoted:
                values[at] = "null"
    pairs = ",".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))
    try:
        return Line(f"{{{pairs}}}".encode())
    except UnicodeEncodeError:
        return Rejected(INVALID_UTF8, as_bytes(record))


def _quoted_fields(record: str, delimiter: str) -> Iterator[bool]:
    """Yield for each field of a well-formed record whether it is quoted; csv does not report it."""
    at = 0
    while True:
        quoted = _QUOTED.match(record, at)
        yield quoted is not None
        at = record.find(delimiter, quoted.end() if quoted else at) + 1
        if at == 0:
            return


class _TooLargeError(Exception):
    """A row is larger than a document may be, most likely by an unclosed quote."""


class _Lines(Iterator[str]):
    """The lines of a file with their ends; `taken` has those of the current row."""

    def __init__(self, chunks: Iterator[bytes], limit: int) -> None:
        self.taken: list[str] = []
        self._cut = ""
        self._waiting: list[bytes] = []
        self._limit = limit
        self._size = 0
        self._stopped = False
        self._lines = self._split(chunks)

    def __next__(self) -> str:
        line = next(self._lines)
        self._size = len(line) + (self._size if self.taken else 0)
        text = line.decode("utf-8", "surrogateescape")
        self.taken.append(text)
        if self._stopped or self._size > self._limit:
            raise _TooLargeError
        return text

    def record(self) -> str:
        """Return the text of the current row."""
        return "".join(self.taken)

    def pop_cut(self) -> Rejected | None:
        """Return, once, what follows the last whole line of a truncated file: it is no row."""
        reason, self._cut = self._cut, ""
        return Rejected(reason, b"".join(self._waiting)) if reason else None

    def end(self) -> None:
        """Read no further."""
        self._lines = iter(())

    def _split(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        start = BOM.encode()
        try:
            for line in self._whole_lines(chunks):
                yield line.removeprefix(start) + b"\n"
                start = b""
        except DamageError as damage:
            if not damage.trusted:
                raise
            self._cut = damage.reason
            return
        if rest := b"".join(self._waiting):
            yield rest.removeprefix(start)

    def _whole_lines(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield complete lines without their ends until one is too long; keep the rest waiting."""
        size = 0
        for chunk in chunks:
            self._waiting.append(chunk)
            size += len(chunk)
            if b"\n" in chunk:
                *lines, rest = b"".join(self._waiting).split(b"\n")
                self._waiting, size = [rest], len(rest)
                yield from lines
            if size > self._limit:
                self._stopped = True
                return
