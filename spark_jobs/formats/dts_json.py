"""DTS Avro records as JSON lines, in every form that printers of Avro give them.

A value stands under the name of its type, with its namespace or without (JsonEncoder, fastavro),
or without any name (`toString` and fastjson); then its fields tell the type. Bytes are characters
up to U+00FF, which `toString` puts under `bytes`; fastjson gives base64 under `array`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.dts_schema import JSON_CLOCK, JSON_VALUE, PARTS
from spark_jobs.formats.envelope import WHOLE_TEXTS

_BARE: Final = (
    "precision:int,scale:int,charset:string,type:string,value:string,timestamp:bigint,"
    f"{','.join(f'{part}:int' for part in PARTS)},timezone:string,printed:string"
)
_VALUES: Final = f"array<struct<{JSON_VALUE},{_BARE}>>"
# A quote within a JSON text has a backslash before it, so these meet no value's own text.
_LISTED: Final = r'(?s)^\s*\{\s*"array"\s*:(.*)\}\s*$'
_NAMESPACE: Final = r'\{\s*"[\w.]+\.(\w+)"\s*:'
_BRANCH_INT: Final = r'\{\s*"int"\s*:\s*(-?\d+)\s*\}'
_NUMBER: Final = r'("value"\s*:\s*)(-?\d[\d.eE+-]*)'
_NOT_ZERO: Final = "^[^eE]*[1-9]"
_BARE_EMPTY: Final = r'([\[,]\s*)"(NONE|NULL)"(?=\s*[,\]])'
_WRAPPED: Final = r'"value"\s*:\s*\{\s*"(bytes|array)"\s*:'
_LATIN1: Final = r"^[\x00-\xff]*\z"
_GEOMETRIES: Final = (
    "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON",
    "GEOMETRYCOLLECTION", "GEOMCOLLECTION", "WKB",
)  # fmt: skip


def text_of(branch: Column) -> Column:
    """A text that may stand under its branch's name, `string`."""
    named = F.from_json(branch, "string string", WHOLE_TEXTS)["string"]
    return F.when(branch.rlike(r'^\s*\{\s*"string"\s*:'), named).otherwise(branch)


def list_of(branch: Column) -> Column:
    """The JSON of a list that may stand under its branch's name, `array`."""
    named = F.nullif(F.regexp_extract(branch, _LISTED, 1), F.lit(""))
    return F.coalesce(named, branch)


def image_of(branch: Column) -> Column:
    """An image's values, each under the name of its type, and bytes as bytes."""
    text = list_of(branch)
    short = F.regexp_replace(text, _NAMESPACE, '{"$1":')
    plain = F.regexp_replace(short, _BRANCH_INT, "$1")
    # A double does not show that its text says another number.
    shown = F.regexp_replace(plain, _NUMBER, '$1$2,"printed":"$2"')
    named = F.regexp_replace(shown, _BARE_EMPTY, '$1{"EmptyObject":"$2"}')
    return F.transform(F.from_json(named, _VALUES, WHOLE_TEXTS), _named)


def _named(value: Column) -> Column:
    """A value under its type's name: that of the record, or that which its fields tell."""
    bare_number = value["precision"].isNotNull() & ~_is_lost(value["printed"])
    told = {
        "Integer": _of(value, bare_number, "precision", "value"),
        "Character": _of(value, value["charset"].isNotNull(), "charset", "value"),
        "Timestamp": _of(value, value["timestamp"].isNotNull(), "timestamp", "millis"),
        "DateTime": _of(value, _is_clock(value), *PARTS),
        "TimestampWithTimeZone": _zoned(value),
        **_objects(value),
    }
    given = [F.coalesce(value[name], bare).alias(name) for name, bare in told.items()]
    rest = [value[name].alias(name) for name in ("Decimal", "TextGeometry", "EmptyObject")]
    held = F.when(~_is_lost(value["Float"]["printed"]), value["Float"]).alias("Float")
    return F.when(value.isNotNull(), F.struct(*given, held, *rest))


def _is_lost(printed: Column) -> Column:
    """Whether a number is beyond the largest double, or so small that it becomes 0."""
    held = printed.try_cast("double")
    too_large = F.abs(held) == float("inf")
    return F.coalesce(too_large | ((held == 0) & printed.rlike(_NOT_ZERO)), F.lit(False))


def _of(value: Column, known: Column, *fields: str) -> Column:
    return F.when(known, F.struct(*(value[field].alias(field) for field in fields)))


def _is_clock(value: Column) -> Column:
    parts = F.coalesce(*(value[part] for part in PARTS))
    return parts.isNotNull() & value["timestamp"].isNull()


def _zoned(value: Column) -> Column:
    clock = F.from_json(value["value"], JSON_CLOCK)
    both = F.struct(clock.alias("value"), value["timezone"].alias("timezone"))
    return F.when(value["timezone"].isNotNull(), both)


def _objects(value: Column) -> dict[str, Column]:
    """Texts, geometries and other bytes, which without a name differ in nothing but that."""
    kind = value["type"]
    binary = F.coalesce(_is_wrapped(value["value"]), F.lit(False))
    geometry = F.upper(kind).isin(*_GEOMETRIES)
    told = {
        "BinaryGeometry": kind.isNotNull() & binary & geometry,
        "BinaryObject": kind.isNotNull() & binary & ~geometry,
        "TextObject": kind.isNotNull() & ~binary,
    }
    return {name: _of(value, known, "type", "value") for name, known in told.items()}


def _is_wrapped(text: Column) -> Column:
    return text.rlike(r'^\{"(bytes|array)":')


def bytes_of(branch: Column, text: Column) -> Column:
    """The bytes of a value of an image; NULL where a character is none.

    A value of the source may look like wrapped bytes; the image's own JSON tells them apart.
    """
    wrapped = F.from_json(text, "bytes string, array string", WHOLE_TEXTS)
    is_wrapped = branch.rlike(_WRAPPED) & _is_wrapped(text)
    characters = F.when(is_wrapped, wrapped["bytes"]).otherwise(text)
    latin1 = F.when(characters.rlike(_LATIN1), F.encode(characters, "ISO-8859-1"))
    base64 = F.when(is_wrapped, F.try_to_binary(wrapped["array"], F.lit("base64")))
    return F.coalesce(base64, latin1)
