"""Column types: a Spark SQL type and how its values are written in the events.

`decimal(18,2)`, `timestamp[ms]`, `date[days]`, `binary[base64]`, `decimal(10,2)[base64]`: the
part in brackets is the *encoding*, the way a bare number or text has to be read. Hints in
`columns:` and the formats' own schemas both end here. A time of day is stored as ISO text
(`time` → string), for Spark tables have no TIME type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

TIME_UNITS: Final = ("s", "ms", "us", "ns")
BASE64: Final = "base64"
UNSCALED: Final = f"{BASE64}:"
"""Before a scale: the bytes of a decimal of that scale, whatever the column's own type is."""
EXACT: Final = "exact"
"""A float in whose text a decimal may hide: one of more digits than a float has does not fit."""
VARIABLE: Final = "variable"
"""A decimal that brings its scale along, as Debezium's VariableScaleDecimal does."""
UNSIGNED: Final = "unsigned"
"""An unsigned number of 64 bits, which may have come as the negative one of the same bits."""
LISTED: Final = "list:"
"""Before a type with an encoding: JSON of a list, whose elements are written so."""
_WIDEST_BINARY: Final = 8000
"""Bytes: what SQL Server's BINARY may have at most; MySQL's has 255."""
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
    r"(\[\s*(?P<encoding>[a-z0-9]+)\s*\])?\s*$"
)


@dataclass(frozen=True)
class ColumnType:
    """A type by `name` (one of the keys above), with encoding; precision and scale of decimals.

    `width`: the bytes that a value of a `binary` has at least, zeros at its end (MySQL's binary log
    leaves these out).
    """

    name: str
    encoding: str = ""
    precision: int = 0
    scale: int = 0
    width: int = 0

    @property
    def spark(self) -> str:
        """The Spark SQL type of the stored column."""
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return "string" if self.name == "time" else self.name


STRING: Final = ColumnType("string")


def decimal(precision: int, scale: int, encoding: str = "") -> ColumnType:
    """A decimal type; raises ValueError beyond what Iceberg holds (38 digits)."""
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise ValueError(f"decimal({precision},{scale}) is not within 38 digits")
    return ColumnType("decimal", encoding, precision, scale)


def parse_type(text: str) -> ColumnType:
    """Read a type as written in a hint; raises ValueError saying what is allowed."""
    found = _PATTERN.match(text.lower())
    name = _ALIASES.get(found["name"]) if found else None
    if found is None or name is None:
        raise ValueError(f"unknown column type {text!r}; known: {', '.join(sorted(_ALIASES))}")
    encoding = found["encoding"] or ""
    allowed = ENCODINGS.get(name, ("",))
    if encoding not in allowed:
        raise ValueError(f"{text!r}: {name} takes {_any_of([e for e in allowed if e])}")
    if name == "decimal":
        return decimal(int(found["p"] or 10), int(found["s"] or 0), encoding)
    return ColumnType(name, encoding, width=binary_width(found["p"]) if name == "binary" else 0)


def _any_of(encodings: list[str]) -> str:
    *others, last = encodings or ["no encoding"]
    return f"{', '.join(others)} or {last}" if others else last


def listed(element: ColumnType) -> ColumnType:
    """A list of elements as JSON text; without an encoding of theirs it stays as it comes."""
    coded = f"{LISTED}{element.name}[{element.encoding}]"
    return ColumnType("string", coded) if element.encoding else STRING


def element_of(kind: ColumnType) -> ColumnType:
    """What `listed` made a list of; of a decimal the text alone."""
    name, _, encoding = kind.encoding.removeprefix(LISTED).rstrip("]").partition("[")
    return ColumnType(name, encoding)


def binary_width(told: str | None) -> int:
    """What stands behind `binary` in parentheses; 0 for nothing, and for more than any database
    fills up, which would be a size of memory that a text chooses."""
    width = int(told or 0)
    return width if width <= _WIDEST_BINARY else 0


_NUMBERS: Final = frozenset({"decimal", "int", "bigint", "float", "double", "string"})
_INSTANTS: Final = frozenset({"timestamp", "timestamp_ntz", "date"})


def as_described(hint: ColumnType, described: ColumnType, typed: bool = False) -> ColumnType:
    """A hint that leaves the encoding open, in the one that a description of the events tells.

    Of `typed` values a hint of their own kind says nothing of that: their text is a reader's.
    """
    if hint.name == described.name == "binary" and not hint.width:
        hint = replace(hint, width=described.width)
    if typed and _of_one_kind(hint, described):
        hint = replace(hint, encoding="")
    return hint if hint.encoding else replace(hint, encoding=_encoding_for(hint, described))


def _of_one_kind(one: ColumnType, other: ColumnType) -> bool:
    return one.name == other.name or {one.name, other.name} <= _INSTANTS


def _encoding_for(hint: ColumnType, described: ColumnType) -> str:
    """The described encoding, where a value of the hint can be read from it; else ''."""
    coded = described.encoding
    if described.name in ("decimal", "string") and coded.startswith((BASE64, VARIABLE)):
        unscaled = f"{UNSCALED}{described.scale}" if coded == BASE64 else coded
        return unscaled if hint.name in _NUMBERS else ""
    timed = coded in TIME_UNITS and _of_one_kind(hint, described)
    return coded if timed or hint.name == described.name else ""


def widest(one: ColumnType, two: ColumnType) -> ColumnType | None:
    """The type that holds both without loss, or None; the encoding is left out."""
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
    """The type that holds both without loss, else their text; None for bytes, which have none."""
    return widest(one, two) or (None if "binary" in (one.name, two.name) else STRING)


def _plain(kind: ColumnType) -> ColumnType:
    return ColumnType(kind.name, "", kind.precision, kind.scale)


def _as_decimal(kind: ColumnType) -> ColumnType:
    digits = {"int": 10, "bigint": 19}
    return kind if kind.name == "decimal" else decimal(digits[kind.name], 0)


def _widest_decimal(one: ColumnType, two: ColumnType) -> ColumnType | None:
    scale = max(one.scale, two.scale)
    precision = max(one.precision - one.scale, two.precision - two.scale) + scale
    return decimal(precision, scale) if precision <= 38 else None
