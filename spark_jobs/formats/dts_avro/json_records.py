"""DTS Avro records as JSON lines, in every form that Avro's printers write.

A value is under the name of its type, with its namespace or without (JsonEncoder, fastavro), or
under none (`toString` and fastjson), where its fields show the type. Bytes are characters
up to U+00FF, plain or under `bytes` (`toString`), or base64 under `array` (fastjson).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.common.envelope import WHOLE_TEXTS
from spark_jobs.formats.dts_avro.schema import (
    BINARY_VALUES,
    EXACT_NUMBERS,
    JSON_CLOCK,
    JSON_VALUE,
    JSON_WRAPPED,
    PARTS,
)
from spark_jobs.values import LATIN1, is_lost

_BARE: Final = (
    f"precision:int,scale:int,charset:string,type:string,value:string,{JSON_WRAPPED},"
    f"timestamp:bigint,{','.join(f'{part}:int' for part in PARTS)},clock:boolean,"
    "timezone:string,printed:string"
)
_VALUES: Final = f"array<struct<{JSON_VALUE},{_BARE}>>"
# A quote inside a JSON string has a backslash before it, so none of these matches in a string.
_LISTED: Final = r'(?s)^\s*\{\s*"array"\s*:(.*)\}\s*$'
_NAMESPACE: Final = r'\{\s*"[\w.]+\.(\w+)"\s*:'
_BRANCH_INT: Final = r'\{\s*"int"\s*:\s*(-?\d+)\s*\}'
_NUMBER: Final = r'("value"\s*:\s*)(-?\d[\d.eE+-]*)'
_BARE_EMPTY: Final = r'([\[,]\s*)"(NONE|NULL)"(?=\s*[,\]])'
_WRAPPED: Final = r'"value"(\s*:\s*\{\s*"(?:bytes|array)"\s*:)'
_CLOCK: Final = rf'\{{(\s*"(?:{"|".join(PARTS)})"\s*:)'
_GEOMETRIES: Final = (
    "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON",
    "GEOMETRYCOLLECTION", "GEOMCOLLECTION", "WKB",
)  # fmt: skip
# The binary ones of ObjectType in Alibaba's SDK, and MySQL's VARBINARY.
_BINARIES: Final = ("BINARY", "VARBINARY", "BLOB", "BFILE", "RAW", "LONG_RAW", "BYTEA")
_NUL: Final = "\x00"


def text_of(branch: Column) -> Column:
    """Return a text, which may be under its branch's name `string`."""
    named = F.from_json(branch, "string string", WHOLE_TEXTS)["string"]
    return F.when(branch.rlike(r'^\s*\{\s*"string"\s*:'), named).otherwise(branch)


def list_of(branch: Column) -> Column:
    """Return the JSON of a list, which may be under its branch's name `array`."""
    named = F.nullif(F.regexp_extract(branch, _LISTED, 1), F.lit(""))
    return F.coalesce(named, branch)


def image_of(branch: Column) -> Column:
    """Return an image's values, each under the name of its type, its bytes as binary."""
    text = list_of(branch)
    short = F.regexp_replace(text, _NAMESPACE, '{"$1":')
    plain = F.regexp_replace(short, _BRANCH_INT, "$1")
    # from_json copies a number through a double, which may have other digits.
    shown = F.regexp_replace(plain, _NUMBER, '$1$2,"printed":"$2"')
    named = F.regexp_replace(shown, _BARE_EMPTY, '$1{"EmptyObject":"$2"}')
    unwrapped = F.regexp_replace(named, _WRAPPED, '"wrapped"$1')
    marked = F.regexp_replace(unwrapped, _CLOCK, '{"clock":true,$1')
    return F.transform(F.from_json(marked, _VALUES, WHOLE_TEXTS), _named)


def _named(value: Column) -> Column:
    """Return a value under its type's name, which is in the record or follows from its fields."""
    bare_number = value["precision"].isNotNull() & ~_is_lost(value["printed"])
    by_fields = {
        "Integer": _of(value, bare_number, "precision", "value", "printed"),
        "Character": _of(value, value["charset"].isNotNull(), "charset", "value", "wrapped"),
        "Timestamp": _of(value, value["timestamp"].isNotNull(), "timestamp", "millis"),
        "DateTime": _of(value, _is_clock(value), *PARTS),
        "TimestampWithTimeZone": _zoned(value),
        **_objects(value),
    }
    given = {name: F.coalesce(value[name], bare) for name, bare in by_fields.items()}
    given |= {name: value[name] for name in ("Decimal", "TextGeometry", "EmptyObject")}
    exact = (_exact(name, each) for name, each in given.items())
    float_value = F.when(~_is_lost(value["Float"]["printed"]), value["Float"]).alias("Float")
    return F.when(value.isNotNull(), F.struct(*exact, float_value))


def _is_lost(printed: Column) -> Column:
    """Whether a printed number is too large for a double, or so small that it becomes 0."""
    return F.coalesce(is_lost(printed, printed.try_cast("double")), F.lit(False))


def _of(value: Column, is_type: Column, *fields: str) -> Column:
    return F.when(is_type, F.struct(*(value[field].alias(field) for field in fields)))


def _is_clock(value: Column) -> Column:
    return value["clock"] & value["timestamp"].isNull()


def _zoned(value: Column) -> Column:
    clock = F.from_json(value["value"], JSON_CLOCK)
    both = F.struct(clock.alias("value"), value["timezone"].alias("timezone"))
    return F.when(value["timezone"].isNotNull(), both)


def _objects(value: Column) -> dict[str, Column]:
    """Tell texts, geometries and other bytes apart, which have the same fields.

    Plain characters are bytes by the object's type. A geometry's are WKB if one of them is NUL: a
    WKB has its type as a number of four bytes, and no text has NUL.
    """
    kind, wrapped = value["type"], value["wrapped"].isNotNull()
    geometry = F.upper(kind).isin(*_GEOMETRIES)
    wkb = wrapped | F.contains(value["value"], F.lit(_NUL))
    binary = F.when(geometry, wkb).otherwise(wrapped | F.upper(kind).isin(*_BINARIES))
    fields = ("type", "value")
    return {
        "BinaryGeometry": _of(value, geometry & binary, *fields, "wrapped"),
        "BinaryObject": _of(value, ~geometry & binary, *fields, "wrapped"),
        "TextObject": _of(value, kind.isNotNull() & ~binary, *fields),
    }


def _exact(name: str, value: Column) -> Column:
    """Return a number as it is printed, and bytes as binary; NULL if a character is no byte."""
    if name in EXACT_NUMBERS:
        return value.withField("value", F.coalesce(value["printed"], value["value"])).alias(name)
    if name not in BINARY_VALUES:
        return value.alias(name)
    wrapped = value["wrapped"]
    characters = F.coalesce(wrapped["bytes"], value["value"])
    latin1 = F.when(characters.rlike(LATIN1), F.encode(characters, "ISO-8859-1"))
    base64 = F.try_to_binary(wrapped["array"], F.lit("base64"))
    return value.withField("value", F.coalesce(base64, latin1)).alias(name)
