"""Column types: a Spark SQL type and how events write its values.

`decimal(18,2)`, `timestamp[ms]`, `date[days]`, `binary[base64]`, `decimal(10,2)[base64]`: the part
in brackets is the *encoding*, the way a bare number or text is read. Hints in `columns:` and the
formats' own schemas are both expressed this way. `timestamp_ntz[ms@Asia/Shanghai]`: behind the `@`
the *zone* whose local time an instant becomes. A time of day is stored as ISO text (`time` →
string), for Spark tables have no TIME type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from zoneinfo import ZoneInfo

TIME_UNITS: Final = ("s", "ms", "us", "ns")
COUNTED: Final = ("days", *TIME_UNITS)
"""Encodings of dates and times as a number."""
BASE64: Final = "base64"
UNSCALED: Final = f"{BASE64}:"
"""Before a scale: bytes of a decimal with that scale, whatever the column's type."""
EXACT: Final = "exact"
"""A double whose text may be a decimal: one with more digits than a double holds does not fit."""
VARIABLE: Final = "variable"
"""A decimal with its scale in the value, such as Debezium's VariableScaleDecimal."""
UNSIGNED: Final = "unsigned"
"""An unsigned 64-bit number that may be written as the negative number with the same bits."""
LISTED: Final = "list:"
"""Before a type with an encoding: a JSON list of elements written this way."""
MOST_DIGITS: Final = 38
"""Of Iceberg's decimals."""
LONGEST_FLOAT: Final = 24
"""The most bits of a number that a float holds."""
_RESPELLED: Final = ("date", "timestamp_ntz")
"""Types whose ISO text is spelt otherwise inside of a list: without the Z that some write."""
_WIDEST_BINARY: Final = 8000
"""Largest length of SQL Server's BINARY in bytes; MySQL's is 255."""
ENCODINGS: Final[dict[str, tuple[str, ...]]] = {
    "timestamp": ("", *TIME_UNITS),
    "timestamp_ntz": ("", *TIME_UNITS),
    "date": ("", "days", *TIME_UNITS),
    "time": ("", *TIME_UNITS),
    "binary": ("", BASE64, "hex", "utf8", "latin1"),
    "decimal": ("", BASE64, VARIABLE, UNSIGNED),
    "double": ("", EXACT),
    "boolean": ("",),
    "string": ("", VARIABLE),
}
_ALIASES: Final = {
    "int": "int", "integer": "int", "long": "bigint", "bigint": "bigint", "short": "int",
    "smallint": "int", "tinyint": "int", "byte": "int", "float": "float", "real": "float",
    "double": "double", "string": "string", "text": "string", "varchar": "string",
    "char": "string", "character": "string", "boolean": "boolean", "bool": "boolean",
    "binary": "binary", "bytes": "binary", "date": "date", "time": "time",
    "timestamp": "timestamp", "timestamp_ltz": "timestamp", "timestamptz": "timestamp",
    "timestamp_ntz": "timestamp_ntz", "decimal": "decimal", "dec": "decimal",
    "numeric": "decimal",
}  # fmt: skip
_PATTERN: Final = re.compile(
    r"^\s*(?P<name>[a-z_]+)\s*(\(\s*(?P<p>\d+)\s*(,\s*(?P<s>\d+)\s*)?\))?\s*"
    r"(\[(?!\s*\])\s*(?P<encoding>[a-z0-9]+)?\s*(@\s*(?P<zone>[^\s\]]+)\s*)?\])?\s*$",
    re.IGNORECASE | re.ASCII,
)
_ZONED: Final = ("timestamp_ntz", "date")
"""Types that an instant becomes by a time zone."""
# Java's zones are names as in the time zone database, with a capital, and offsets up to 18 hours.
_OFFSET: Final = re.compile(r"[+-](0\d|1[0-7]):[0-5]\d")
_REGION: Final = re.compile(r"[A-Z]\w*(/[\w+-]+)*", re.ASCII)


@dataclass(frozen=True)
class ColumnType:
    """A type by `name` (one of the keys above) with its encoding; precision and scale of decimals.

    `zone`: that of the local time which an instant becomes; '' if values are local times already.
    `width`: the length of BINARY(n), to which values are padded with zeros, since MySQL's binary
    log leaves these out. `most`: the length of VARBINARY(n). A longer value fits neither.
    """

    name: str
    encoding: str = ""
    precision: int = 0
    scale: int = 0
    width: int = 0
    most: int = 0
    zone: str = ""

    @property
    def how(self) -> str:
        """The encoding with the zone, as a hint has them in brackets."""
        return f"{self.encoding}@{self.zone}" if self.zone else self.encoding

    @property
    def spark(self) -> str:
        """The Spark SQL type of the stored column."""
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return "string" if self.name == "time" else self.name


STRING: Final = ColumnType("string")


def decimal(precision: int, scale: int, encoding: str = "") -> ColumnType:
    """Return a decimal type; raises ValueError beyond Iceberg's limit of digits."""
    if not 1 <= precision <= MOST_DIGITS or not 0 <= scale <= precision:
        raise ValueError(f"decimal({precision},{scale}) is not within {MOST_DIGITS} digits")
    return ColumnType("decimal", encoding, precision, scale)


def parse_type(text: str) -> ColumnType:
    """Parse a type hint; raises ValueError saying what is allowed."""
    match = _PATTERN.match(text)
    name = _ALIASES.get(match["name"].lower()) if match else None
    if match is None or name is None:
        raise ValueError(f"unknown column type {text!r}; known: {', '.join(sorted(_ALIASES))}")
    encoding, zone = (match["encoding"] or "").lower(), match["zone"] or ""
    allowed = ENCODINGS.get(name, ("",))
    if encoding not in allowed:
        raise ValueError(f"{text!r}: {name} takes {_any_of([e for e in allowed if e])}")
    if zone:
        _refuse_zone(text, ColumnType(name, encoding), zone)
    if name == "decimal":
        return decimal(int(match["p"] or 10), int(match["s"] or 0), encoding)
    width = binary_width(match["p"]) if name == "binary" else 0
    return ColumnType(name, encoding, width=width, zone=zone)


def _refuse_zone(text: str, kind: ColumnType, zone: str) -> None:
    """Raise ValueError for a zone that is none, or that the type cannot have."""
    if kind.name not in _ZONED or kind.encoding == "days":
        raise ValueError(f"{text!r}: only instants as {' or '.join(_ZONED)} take a time zone")
    if not (_OFFSET.fullmatch(zone) or _is_region(zone)):
        raise ValueError(f"{text!r}: a time zone is one such as Asia/Shanghai or +08:00")


def _is_region(name: str) -> bool:
    try:
        return _REGION.fullmatch(name) is not None and bool(ZoneInfo(name))
    except (LookupError, ValueError, OSError):
        return False


def is_type(text: str) -> bool:
    """Whether `parse_type` knows a type."""
    try:
        parse_type(text)
    except ValueError:
        return False
    return True


def _any_of(encodings: list[str]) -> str:
    *others, last = encodings or ["no encoding"]
    return f"{', '.join(others)} or {last}" if others else last


def listed(element: ColumnType) -> ColumnType:
    """Return the type of a list, stored as JSON text; elements without an encoding stay as they
    are, but for dates and times without a zone."""
    coded = f"{LISTED}{element.name}[{element.encoding}]"
    read = element.encoding or element.name in _RESPELLED
    return ColumnType("string", coded) if read else STRING


def element_of(kind: ColumnType) -> ColumnType:
    """Return the element type of a type made by `listed`; a decimal loses precision and scale."""
    name, _, encoding = kind.encoding.removeprefix(LISTED).rstrip("]").partition("[")
    return ColumnType(name, encoding)


def binary_width(stated: str | None) -> int:
    """Return the length of BINARY(n); 0 if absent, or larger than any database pads to."""
    width = int(stated or 0)
    return width if width <= _WIDEST_BINARY else 0


def is_code(kind: ColumnType) -> bool:
    """Whether text alone does not show its value: decimals in base64, counts of a time unit, and
    lists of elements with an encoding."""
    if kind.encoding.startswith(LISTED):
        return bool(element_of(kind).encoding)
    return kind.name != "binary" and kind.encoding.startswith((BASE64, *COUNTED))


_NUMBERS: Final = frozenset({"decimal", "int", "bigint", "float", "double", "string"})
_INSTANTS: Final = frozenset({"timestamp", "timestamp_ntz", "date"})


def as_described(hint: ColumnType, described: ColumnType, typed: bool = False) -> ColumnType:
    """Return a hint without an encoding in the encoding that the events describe.

    `typed` values of the hint's own kind need none: their text is the reader's.
    """
    if hint.name == described.name == "binary" and not hint.width:
        hint = replace(hint, width=described.width, most=described.most)
    if typed and _of_one_kind(hint, described):
        hint = replace(hint, encoding="")
    return hint if hint.encoding else replace(hint, encoding=_encoding_for(hint, described))


def _of_one_kind(one: ColumnType, other: ColumnType) -> bool:
    return one.name == other.name or {one.name, other.name} <= _INSTANTS


def _encoding_for(hint: ColumnType, described: ColumnType) -> str:
    """Return the described encoding if the hint's type can be read from it; else ''.

    The hint `double` says that the values are no decimals, so it need not be EXACT.
    """
    coded = "" if described.encoding == EXACT else described.encoding
    if described.name in ("decimal", "string") and coded.startswith((BASE64, VARIABLE)):
        unscaled = f"{UNSCALED}{described.scale}" if coded == BASE64 else coded
        return unscaled if hint.name in _NUMBERS else ""
    timed = coded in TIME_UNITS and _of_one_kind(hint, described)
    return coded if timed or hint.name == described.name else ""


def widest(one: ColumnType, two: ColumnType) -> ColumnType | None:
    """Return the type that holds both without loss, without an encoding; None if there is none."""
    plain = (_plain(one), _plain(two))
    if plain[0] == plain[1]:
        return plain[0]
    names = {t.name for t in plain}
    if names <= {"int", "bigint"}:
        return ColumnType("bigint")
    if names <= {"float", "double"}:
        return ColumnType("double")
    if names <= {"int", "bigint", "decimal"}:
        return _widest_decimal(*(_as_decimal(t) for t in plain))
    return None


def widest_or_text(one: ColumnType, two: ColumnType) -> ColumnType | None:
    """Return the type that holds both without loss, else string; None for bytes, which
    have no text."""
    return widest(one, two) or (None if "binary" in (one.name, two.name) else STRING)


def _plain(kind: ColumnType) -> ColumnType:
    return ColumnType(kind.name, "", kind.precision, kind.scale)


def _as_decimal(kind: ColumnType) -> ColumnType:
    digits = {"int": 10, "bigint": 19}
    return kind if kind.name == "decimal" else decimal(digits[kind.name], 0)


def _widest_decimal(one: ColumnType, two: ColumnType) -> ColumnType | None:
    scale = max(one.scale, two.scale)
    precision = max(one.precision - one.scale, two.precision - two.scale) + scale
    return decimal(precision, scale) if precision <= MOST_DIGITS else None
