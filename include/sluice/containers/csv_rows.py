"""CSV files as JSON lines: one object a row, every value a text or null, nothing else read into it.

Rows are those of RFC 4180: fields in double quotes hold delimiters, line ends and doubled quotes.
An unquoted field that is the null text is NULL, a quoted one never is: so `,,` is NULL and `,"",`
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
from sluice.containers.compression import Damage
from sluice.containers.documents import BOM, INVALID_UTF8, TOO_LARGE, Line, Refused

MALFORMED: Final = "malformed_csv"
FIELD_COUNT: Final = "wrong_field_count"
NO_NAMES: Final = "no_line_of_names"
TOO_MANY_NAMES: Final = "line_of_names_too_long"
MOST_NAMES: Final = 10_000
MOST_NAMES_CHARACTERS: Final = MEBIBYTE

# The S3 target of AWS DMS leaves this field out of full loads, which its line of names says.
_OPERATION: Final = '"Op"'
_ENDINGS: Final = re.compile(r"\.csv(\.[a-z0-9]+)?$", re.IGNORECASE)
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class CsvStyle:
    """How CSV files are written: the texts that are NULL, what is between fields, their names.

    `columns` is empty where the first line has the names.
    """

    nulls: tuple[str, ...] = CsvOptions.DEFAULT_NULLS
    delimiter: str = ","
    columns: tuple[str, ...] = ()


def style_of(options: CsvOptions) -> CsvStyle:
    """The style that a format's options ask for."""
    return CsvStyle(options.nulls, options.csv_delimiter, tuple(options.csv_columns))


def is_csv(key: str) -> bool:
    """Whether an object is a CSV file by its name; nothing in the bytes tells."""
    return _ENDINGS.search(key) is not None


def documents(chunks: Iterator[bytes], style: CsvStyle, limit: int) -> Iterator[Line | Refused]:
    """Every row as one JSON object; what is no row shows as Refused.

    Where the line of names is refused nobody knows the rows' columns: all of them are.

    Raises Damage where nothing of the file can be trusted.
    """
    csv.field_size_limit(sys.maxsize)
    lines = _Lines(chunks, limit)
    rows = csv.reader(lines, delimiter=style.delimiter, strict=True)
    names = [encoder.encode_basestring(name) for name in style.columns]
    nameless = False
    while True:
        found = _next_row(rows, lines)
        if found is None:
            return
        if isinstance(found, Refused):
            nameless = nameless or not names
            yield found
        elif nameless:
            yield Refused(NO_NAMES, _bytes(lines.record()))
        elif not names and _too_long(found):
            nameless = True
            yield Refused(TOO_MANY_NAMES, _bytes(lines.record()))
        elif not names:
            names = [encoder.encode_basestring(name) for name in found]
        elif found or len(names) == 1:  # of one column a blank line is a field with nothing in it
            yield _object(names, found or [""], lines.record(), style)


def _too_long(names: list[str]) -> bool:
    """Every row of the file repeats them."""
    return len(names) > MOST_NAMES or sum(map(len, names)) > MOST_NAMES_CHARACTERS


def _next_row(rows: Iterator[list[str]], lines: _Lines) -> list[str] | Refused | None:
    """The next row, [] for a blank line, None at the end."""
    lines.taken.clear()
    try:
        return next(rows)
    except StopIteration:
        return lines.pop_cut()
    except csv.Error:
        raw = _bytes(lines.record())
        cut = lines.pop_cut()
        return Refused(cut.reason, raw + cut.raw) if cut else Refused(MALFORMED, raw)
    except _TooLarge:
        lines.end()
        return Refused(TOO_LARGE, _bytes(lines.record()))


def _object(names: list[str], fields: list[str], record: str, style: CsvStyle) -> Line | Refused:
    if style.columns and len(fields) == len(names) - 1 and names[0] == _OPERATION:
        names = names[1:]
    if len(fields) != len(names):
        return Refused(FIELD_COUNT, _bytes(record))
    values = [encoder.encode_basestring(field) for field in fields]
    if not set(style.nulls).isdisjoint(fields):
        for at, quoted in enumerate(_quoted_fields(record, style.delimiter)):
            if fields[at] in style.nulls and not quoted:
                values[at] = "null"
    pairs = ",".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))
    try:
        return Line(f"{{{pairs}}}".encode())
    except UnicodeEncodeError:
        return Refused(INVALID_UTF8, _bytes(record))


def _quoted_fields(record: str, delimiter: str) -> Iterator[bool]:
    """For each field of a well-formed record whether it is in quotes; the parser does not tell."""
    at = 0
    while True:
        quoted = _QUOTED.match(record, at)
        yield quoted is not None
        at = record.find(delimiter, quoted.end() if quoted else at) + 1
        if at == 0:
            return


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class _TooLarge(Exception):
    """A row is larger than a document may be: most likely a quote that nothing closes."""


class _Lines(Iterator[str]):
    """The lines of a file with their ends; `taken` are those of the row that is being read."""

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
            raise _TooLarge
        return text

    def record(self) -> str:
        """The text of the row that was read last."""
        return "".join(self.taken)

    def pop_cut(self) -> Refused | None:
        """Once, where the file was cut off: what stood behind its last line is no row."""
        reason, self._cut = self._cut, ""
        return Refused(reason, b"".join(self._waiting)) if reason else None

    def end(self) -> None:
        """Read no further."""
        self._lines = iter(())

    def _split(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        start = BOM.encode()
        try:
            for line in self._whole_lines(chunks):
                yield line.removeprefix(start) + b"\n"
                start = b""
        except Damage as damage:
            if not damage.trusted:
                raise
            self._cut = damage.reason
            return
        if rest := b"".join(self._waiting):
            yield rest.removeprefix(start)

    def _whole_lines(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The lines that end, without their ends, until one is too long; the rest is waiting."""
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
