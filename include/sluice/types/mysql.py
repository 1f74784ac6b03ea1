"""Column types for MySQL's type names, as `SHOW COLUMNS` and CREATE statements spell them."""

from __future__ import annotations

import re
from typing import Final

from sluice.types.columns import (
    LONGEST_FLOAT,
    MOST_DIGITS,
    STRING,
    ColumnType,
    binary_width,
    decimal,
)

_NAME: Final = re.compile(
    r"(?:unsigned\s+)?(?P<name>long varbinary|[a-z]\w*)\s*"
    r"(?:\(\s*(?P<p>\d+)\s*(?:,\s*(?P<s>\d+)\s*)?\))?"
)
_POSITIVE: Final = re.compile(r"\b(unsigned|zerofill)\b")
_SMALL: Final = ("tinyint", "smallint", "mediumint", "year")
_BOOLEANS: Final = ("bool", "boolean")
_INT: Final = ("int", "integer")
_DECIMAL: Final = ("decimal", "numeric", "dec", "fixed")
_PLAIN: Final = {
    **dict.fromkeys(_SMALL, ColumnType("int")),
    # MySQL writes numbers, other databases with these names true and false.
    **dict.fromkeys(_BOOLEANS, ColumnType("int", "boolean")),
    "serial": decimal(20, 0),
    "double": ColumnType("double"),
    "real": ColumnType("double"),
    "date": ColumnType("date"),
    "time": ColumnType("time"),
    # TIMESTAMP is local text too: the zone of the reader's session is unknown.
    **dict.fromkeys(("datetime", "timestamp"), ColumnType("timestamp_ntz")),
}
BYTES: Final = (
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point",
    "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection",
    "geometrycollection", "long varbinary",
)  # fmt: skip
"""Types whose values are bytes."""
_TEXTS: Final = (
    "char", "varchar", "character", "nchar", "nvarchar", "tinytext", "text", "mediumtext",
    "longtext", "enum", "set", "json", "uuid", "inet4", "inet6", "vector",
)  # fmt: skip
# Names that statements use and MySQL's catalog does not: MySQL's manual, "Using Data Types from
# Other Database Engines".
_SYNONYMS: Final = {
    "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint",
    "int4": "int", "int8": "bigint", "float4": "float", "float8": "double", "long": "mediumtext",
}  # fmt: skip
_KNOWN: Final = frozenset(
    (*_PLAIN, *BYTES, *_TEXTS, *_INT, *_DECIMAL, "bigint", "bit", "float", *_SYNONYMS)
)  # fmt: skip
# Each byte is written as its character in this charset.
_BYTES_AS: Final = "latin1"
_SIGNED_BITS: Final = 63


def is_known(text: str) -> bool:
    """Whether a text names a type of MySQL; damaged or foreign names do not."""
    match = _NAME.match(_normalized(text))
    return match is not None and match["name"] in _KNOWN


def mysql_type(text: str) -> ColumnType:
    """Return the column type that holds every value of a MySQL type; text for an unknown type.

    A decimal without precision is text: some writers leave the precision out, so MySQL's default of
    (10,0) would be a guess.
    """
    lower = _normalized(text)
    match = _NAME.match(lower)
    if match is None:
        return STRING
    name, positive = _SYNONYMS.get(match["name"], match["name"]), bool(_POSITIVE.search(lower))
    precision, scale = (None if match[part] is None else int(match[part]) for part in "ps")
    if name in _INT:
        return ColumnType("bigint" if positive else "int")
    if name == "bigint":
        return decimal(20, 0) if positive else ColumnType("bigint")
    if name in _DECIMAL:
        return _decimal(precision, scale or 0)
    if name == "bit":
        return _bits(precision)
    if name == "float":
        single = scale is not None or (precision or 0) <= LONGEST_FLOAT
        return ColumnType("float" if single else "double")
    if name == "binary":
        return ColumnType("binary", _BYTES_AS, width=binary_width(match["p"]))
    if name == "varbinary":
        return ColumnType("binary", _BYTES_AS, most=precision or 0)
    return ColumnType("binary", _BYTES_AS) if name in BYTES else _PLAIN.get(name, STRING)


def _normalized(text: str) -> str:
    return " ".join(text.lower().split())


def _decimal(precision: int | None, scale: int) -> ColumnType:
    """Return the decimal type; text without a precision or beyond MOST_DIGITS."""
    if precision is None or not 1 <= precision <= MOST_DIGITS or scale > precision:
        return STRING
    return decimal(precision, scale)


def _bits(width: int | None) -> ColumnType:
    """Return the type of BIT, an unsigned number; without a width it may have 64 bits."""
    return ColumnType("bigint") if (width or 64) <= _SIGNED_BITS else decimal(20, 0)
