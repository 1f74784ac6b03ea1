"""DTS Avro's values as text: each is one union of twelve types.

Sources: record.avsc for the shapes; Alibaba's own readers for what `millis` and the charsets of
`Character` mean, and for the text that MySQL writes of dates and times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.dts_avro.charsets import JAVA_CHARSETS
from spark_jobs.formats.dts_avro.schema import MYSQL, PARTS, POSTGRESQL

_UNREADABLE: Final = "unreadable_value"
_BAD_CHARACTERS: Final = "bad_characters"
_UNKNOWN_CHARSET: Final = "unknown_charset"
PROBLEMS: Final = (_UNREADABLE, _BAD_CHARACTERS, _UNKNOWN_CHARSET)
"""Why a value cannot be read; the last one is followed by a colon and the charset."""

# PostgreSQL's SQL_ASCII means any bytes: those that are not UTF-8 are rejected, not guessed.
_UTF8: Final = ("utf8mb4", "utf8", "utf8mb3", "utf-8", "unicode", "al32utf8", "sql_ascii", "")
_MYSQL_LATIN1: Final = "latin1"
_BYTES: Final = "binary"
# MySQL's latin1 is windows-1252, but keeps its five unused bytes as they are.
_WINDOWS_1252: Final = {
    chr(byte): bytes([byte]).decode("cp1252")
    for byte in range(0x80, 0xA0)
    if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
_REPLACED: Final = "\ufffd"
_SECOND: Final = 1_000_000
_IN_MICROS: Final = ("MySQL", "PostgreSQL")
_DATE: Final = (10, 14)
_DATETIME: Final = (12, 18)
_TIME: Final = (11, 19)
_TIMESTAMP: Final = (7, 17)
_YEAR: Final = 13
_JSONB: Final = 3802
_ZERO_TIMESTAMP: Final = "0000-00-00T00:00:00"
_ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


@dataclass(frozen=True)
class ValueFacts:
    """What is needed besides a value to read it.

    `nanos`: the `millis` of a clock are nanoseconds; `source` and `number` say the column's type.
    """

    nanos: Column
    source: Column
    number: Column

    def is_of(self, sources: Sequence[str], *numbers: int) -> Column:
        """Whether the column has one of these types; never NULL."""
        return F.coalesce(self.source.isin(*sources) & self.number.isin(*numbers), F.lit(False))


def in_nanos(source: Column, position: Column) -> Column:
    """Whether `millis` of a DateTime counts nanoseconds.

    Alibaba's SDK (LazyRecordDeserializer): microseconds only from MySQL and PostgreSQL, except from
    their readers of physical logs, whose positions contain `<->`.
    """
    physical = F.contains(position, F.lit("<->"))
    return F.coalesce(~source.isin(*_IN_MICROS) | physical, F.lit(False))


def cells(image: Column, facts_at: Callable[[Column], ValueFacts]) -> Column:
    """Return the values of an image as array<struct<text, absent, problem>>; the text of SQL NULL
    is NULL. `facts_at` tells of a value's place in the image.

    In two steps, for Spark would find the text again for each use of it within one.
    """
    read = F.transform(
        image, lambda value, at: F.struct(value.alias("value"), _text(value, facts_at(at)))
    )
    return F.transform(read, lambda cell: _cell(cell["value"], cell["text"]))


def _cell(value: Column, text: Column) -> Column:
    unread = value.isNotNull() & text.isNull() & value["EmptyObject"].isNull()
    return F.struct(
        text.alias("text"),
        F.coalesce(value["EmptyObject"] == "NONE", F.lit(False)).alias("absent"),
        F.when(unread, _problem(value["Character"]["charset"])).alias("problem"),
    )


def _problem(charset: Column) -> Column:
    return (
        F.when(charset.isNull(), F.lit(_UNREADABLE))
        .when(_is_known(charset), F.lit(_BAD_CHARACTERS))
        .otherwise(F.concat(F.lit(f"{_UNKNOWN_CHARSET}:"), charset))
    )


def _text(value: Column, facts: ValueFacts) -> Column:
    """Return the text of the one type that the value has; the cheapest to find come first."""
    texts = {
        "Integer": value["Integer"]["value"],
        "Decimal": value["Decimal"]["value"],
        "Character": _decoded(value["Character"]["value"], value["Character"]["charset"]),
        "DateTime": _wall_clock(value["DateTime"], facts),
        "Timestamp": _instant(value["Timestamp"], facts),
        "TextObject": value["TextObject"]["value"],
        "Float": value["Float"]["value"].cast("string"),
        "BinaryObject": _object(
            value["BinaryObject"]["value"], value["BinaryObject"]["type"], facts
        ),
        "TimestampWithTimeZone": _zoned(value["TimestampWithTimeZone"], facts),
        "BinaryGeometry": F.hex(value["BinaryGeometry"]["value"]),
        "TextGeometry": value["TextGeometry"]["value"],
    }
    present = (F.when(value[name].isNotNull(), text) for name, text in texts.items())
    return F.coalesce(*present).alias("text")


def _object(raw: Column, kind: Column, facts: ValueFacts) -> Column:
    """Return base64, or for PostgreSQL's JSONB its text, as Alibaba's SDK does."""
    text, jsonb = raw.cast("string"), (F.upper(kind) == "JSONB") | facts.is_of(POSTGRESQL, _JSONB)
    return F.when(jsonb, F.when(F.is_valid_utf8(text), text)).otherwise(F.base64(raw))


def _is_known(charset: Column) -> Column:
    return F.lower(charset).isin(*_UTF8, *JAVA_CHARSETS, _BYTES)


def _decoded(raw: Column, charset: Column) -> Column:
    """Return the characters; NULL if the bytes are invalid in the charset, or it is unknown.

    MySQL's BINARY and VARBINARY come in the charset `binary`: as text they are base64 like a BLOB.
    """
    utf8 = raw.cast("string")
    latin1 = F.translate(F.decode(raw, "ISO-8859-1"), *_cp1252())
    names = F.create_map(*(F.lit(text) for pair in JAVA_CHARSETS.items() for text in pair))
    other = F.call_function("decode", raw, F.try_element_at(names, F.lower(charset)))
    return (
        F.when(F.lower(charset).isin(*_UTF8), F.when(F.is_valid_utf8(utf8), utf8))
        .when(F.lower(charset) == _BYTES, F.base64(raw))
        .when(charset == _MYSQL_LATIN1, latin1)
        .otherwise(F.when(~F.contains(other, F.lit(_REPLACED)), other))
    )


def _cp1252() -> tuple[str, str]:
    return "".join(_WINDOWS_1252), "".join(_WINDOWS_1252.values())


def _instant(value: Column, facts: ValueFacts) -> Column:
    """Return an instant from seconds since 1970 and microseconds, which are called `millis`.

    MySQL's TIMESTAMP begins at 1970-01-01 00:00:01, and its binary log has 0000-00-00 00:00:00 as 0
    (MySQL's manual, "The DATE, DATETIME, and TIMESTAMP Types").
    """
    seconds = F.try_multiply(value["timestamp"], F.lit(_SECOND).cast("bigint"))
    micros = F.try_add(seconds, value["millis"])
    zero = facts.is_of(MYSQL, *_TIMESTAMP) & (micros == 0)
    shown = F.date_format(F.timestamp_micros(micros), _ISO)
    return F.when(zero, F.lit(_ZERO_TIMESTAMP)).otherwise(shown)


def _wall_clock(value: Column, facts: ValueFacts) -> Column:
    """Return a date, a time of day, both, or a bare year, by MySQL's type or by the parts present.

    A missing part of a date is 00, as in MySQL, whose DATE and DATETIME may lack all parts; a
    negative time has negative parts.
    """
    part = {name: value[name].cast("bigint") for name in PARTS}
    nanos = _nanos(part["millis"], facts)
    has_date, has_clock = _any(part, PARTS[:3]), _any(part, PARTS[3:])
    zero_date = value.isNotNull() & ~_any(part, PARTS) & facts.is_of(MYSQL, *_DATE, *_DATETIME)
    has_date |= zero_date
    is_date = facts.is_of(MYSQL, *_DATE) & has_date & _nothing(part, PARTS[3:])
    is_time = facts.is_of(MYSQL, *_TIME) & has_clock & _nothing(part, PARTS[:3])
    is_year = facts.is_of(MYSQL, _YEAR) & _nothing(part, PARTS[1:])
    bare_year = is_year | (~_any(part, PARTS[1:]) & ~is_date & ~zero_date)
    date = F.when(has_date & ~is_time, _date(part))
    clock = F.when(has_clock & ~is_date, _clock(part, nanos))
    fits = (has_date | has_clock) & (nanos < 1000 * _SECOND)
    return F.when(bare_year, part["year"].cast("string")).when(fits, F.concat_ws("T", date, clock))


def _any(part: dict[str, Column], names: tuple[str, ...]) -> Column:
    return F.coalesce(*(part[name] for name in names)).isNotNull()


def _nothing(part: dict[str, Column], names: tuple[str, ...]) -> Column:
    """Whether these parts are missing or zero, so that nothing is lost without them."""
    return F.coalesce(*(F.nullif(part[name], F.lit(0)) for name in names)).isNull()


def _date(part: dict[str, Column]) -> Column:
    sign = F.when(part["year"] < 0, F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, F.format_string("%04d-%02d-%02d", *_sizes(part, PARTS[:3])))


def _nanos(millis: Column, facts: ValueFacts) -> Column:
    """Return the size of the fraction in nanoseconds; a million or more can only be nanoseconds."""
    size = F.abs(F.coalesce(millis, F.lit(0).cast("bigint")))
    return F.when(facts.nanos | (size >= _SECOND), size).otherwise(size * 1000)


def _clock(part: dict[str, Column], nanos: Column) -> Column:
    negative = F.least(*(part[name] for name in PARTS[3:])) < 0
    sign = F.when(negative, F.lit("-")).otherwise(F.lit(""))
    shown = F.format_string("%02d:%02d:%02d", *_sizes(part, PARTS[3:6]))
    return F.concat(sign, shown, _fraction(nanos))


def _fraction(nanos: Column) -> Column:
    """Return six digits, or nine if six would cut it; no column of microseconds takes nine."""
    micros = F.call_function("div", nanos, F.lit(1000))
    return (
        F.when(nanos == 0, F.lit(""))
        .when(nanos % 1000 == 0, F.format_string(".%06d", micros))
        .otherwise(F.format_string(".%09d", nanos))
    )


def _sizes(part: dict[str, Column], names: tuple[str, ...]) -> list[Column]:
    return [F.abs(F.coalesce(part[name], F.lit(0).cast("bigint"))) for name in names]


def _zoned(value: Column, facts: ValueFacts) -> Column:
    """Return a wall clock with its offset, or with its zone's name after a blank.

    An offset without a sign is east of UTC (DateTime of Alibaba's SDK). Without a zone there is no
    instant, so NULL.
    """
    zone = F.nullif(F.btrim(value["timezone"]), F.lit(""))
    signed = F.when(zone.rlike(r"^\d"), F.concat(F.lit("+"), zone)).otherwise(zone)
    gap = F.when(signed.rlike("^([+-]|Z$)"), F.lit("")).otherwise(F.lit(" "))
    return F.concat(_wall_clock(value["value"], facts), gap, signed)
