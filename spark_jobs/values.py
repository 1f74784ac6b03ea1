"""Convert texts of values to typed columns: exactly, or to NULL if a text does not fit.

The caller finds the misfits by comparing with the texts that are NULL themselves
(docs/architecture.md, "A batch": values are exact or rejected).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.types.columns import (
    BASE64,
    EXACT,
    LISTED,
    STRING,
    UNSCALED,
    UNSIGNED,
    VARIABLE,
    ColumnType,
    element_of,
    parse_type,
    widest_or_text,
)
from spark_jobs.double_text import is_rounded_double
from spark_jobs.evaluated_once import bound
from spark_jobs.local_times import local_date, local_time
from spark_jobs.number_text import decimal_text, shift_point, unscaled_text

ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
"""The format of times as text; a zone follows if the column's type has one."""
_LONG_EXPONENT: Final = r"[eE][+-]?0*[1-9]\d{3,}"
_WHOLE: Final = r"^[+-]?\d+$"
# Possessive and atomic against backtracking: the texts come from files, in any length.
_PLAIN_NUMBER: Final = r"^[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?+\d++)?+$"
_NOT_ZERO: Final = "^[^eE]*[1-9]"
_NOT_FINITE: Final = r"(?i)^([+-]?inf(inity)?|nan)$"
# Without a full date the cast would add today's, or the first day of a month.
_DATED: Final = r"^\s*[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
_OWN_ZONE: Final = r"\A(?>[\s\S]*?\d[T ])[0-9:. ]*+[^0-9:. ]"
_TRUTH: Final = "(?i)^(true|false)$"
_FRACTION: Final = r"^[+-]?\d+\.\d{1,9}0*$"
# GoldenGate's spelling of a time, which has no zone.
_COLON_TIME: Final = r"^(\d{4}-\d\d-\d\d):(\d\d:\d\d:\d\d(\.\d+)?)$"
_BELOW_MICROSECOND: Final = r"\.\d{6}\d*[1-9]"
_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
# A double keeps any decimal number of so many digits.
_DIGITS_OF_DOUBLE: Final = 15
# A float is written with at most 9 digits, and keeps any decimal number of 6.
_DIGITS_OF_FLOAT: Final = 9
_DIGITS_OF_EVERY_FLOAT: Final = 6
_NEXT_TO_ONE: Final = 1 - 2**-52
_BASE64_LINE: Final = 76
_LEAST_LONG: Final = -(2**63)
_DAY: Final = 86_400_000_000
_FIRST_DAY: Final = _LEAST_LONG // _DAY * _DAY + _DAY
# Debezium's values for PostgreSQL's infinite timestamps: as texts → as microseconds.
_INFINITE: Final = {
    "infinity": 9_223_372_036_825_200_000,
    "-infinity": -9_223_372_036_832_400_000,
    "+292278994-08-16T23:00:00Z": 9_223_372_036_825_200_000,
    "-292275055-05-16T23:00:00Z": -9_223_372_036_832_400_000,
}
# With `time.precision.mode=nanoseconds` they are the ends of the range.
_INFINITE_NANOS: Final = {
    "9223372036854775807": 9_223_372_036_825_200_000,
    "-9223372036854775808": -9_223_372_036_832_400_000,
}
LATIN1: Final = r"^[\x00-\xff]*\z"
"""A text whose characters are all of ISO-8859-1, one for each byte."""


def fitted(text: Column, kind: ColumnType, into: ColumnType) -> Column:
    """Return `text`, a value of `kind`, in a column of type `into`; NULL if it does not fit
    exactly.

    If `into` cannot hold `kind`, no value fits, whatever it looks like.
    """
    holds = into == widest_or_text(kind, into)
    return as_type(decode(text, kind), kind, into.spark) if holds else F.lit(None).cast(into.spark)


def as_type(value: Column, before: ColumnType, after: str) -> Column:
    """Widen a value (see `widest_or_text`); the result does not depend on types in between.

    So a decimal's text has no trailing zeros, and a float's text is that of the double.
    """
    if before.spark == after:
        return value
    if after != STRING.spark:
        return value.cast(after)
    text = (value.cast("double") if before.name == "float" else value).cast(after)
    return F.regexp_replace(text, r"\.?0+$", "") if before.scale > 0 else text


def as_type_sql(value: str, before: str, after: str) -> str:
    """Return `as_type` as SQL, by Spark's names of the types."""
    if before == after:
        return value
    if after != STRING.spark:
        return f"CAST({value} AS {after})"
    text = f"CAST({f'CAST({value} AS double)' if before == 'float' else value} AS {after})"
    return rf"regexp_replace({text}, r'\.?0+$', '')" if parse_type(before).scale > 0 else text


def decode(text: Column, kind: ColumnType) -> Column:
    """Convert `text` to `kind.spark`; NULL if it is NULL or does not fit exactly."""
    if kind.encoding.startswith(LISTED):
        return _list(text, element_of(kind))
    if not kind.encoding.startswith((VARIABLE, UNSCALED)):
        return _DECODERS[kind.name](text, kind)
    plain = replace(kind, encoding="")
    number = _variable_decimal(text)
    if kind.encoding != VARIABLE:
        scale = int(kind.encoding.removeprefix(UNSCALED))
        number = bound(_base64(text), lambda raw: decimal_text(raw, F.lit(scale)))
    return number if plain == STRING else bound(number, lambda digits: decode(digits, plain))


def _list(text: Column, element: ColumnType) -> Column:
    """Return a JSON array of the elements' texts; NULL if one does not fit."""

    def shown(values: Column) -> Column:
        texts = F.transform(values, lambda value: _element(value, element))
        return bound(texts, lambda fit: F.when(_nulls(fit) == _nulls(values), F.to_json(fit)))

    return bound(F.from_json(text, "array<string>"), shown)


def _element(text: Column, kind: ColumnType) -> Column:
    value = decode(text, kind)
    if kind.name.startswith("timestamp"):
        return F.date_format(value, ISO)
    return value.cast("string")


def _nulls(values: Column) -> Column:
    return F.size(F.filter(values, lambda value: value.isNull()))


def _string(text: Column, kind: ColumnType) -> Column:
    return text


def _integer(text: Column, kind: ColumnType) -> Column:
    value = _whole(text, kind.spark)
    if kind.encoding == "boolean":
        return F.coalesce(value, F.when(text.rlike(_TRUTH), _boolean(text, kind).cast(kind.spark)))
    return value


def _whole(text: Column, kind: str) -> Column:
    """Convert a whole number; a cast alone would accept blanks and fractions.

    Comparing with the number's own spelling is cheaper than the pattern, which few texts then need.
    """
    value = text.try_cast(kind)
    return F.when((value.cast("string") == text) | text.rlike(_WHOLE), value)


def is_lost(text: Column, number: Column) -> Column:
    """Whether a number of a text is too large for the type of `number`, or so small that it became
    0."""
    return (F.abs(number) == float("inf")) | ((number == 0) & text.rlike(_NOT_ZERO))


def _float(text: Column, kind: ColumnType) -> Column:
    value = text.try_cast(kind.spark)
    number = text.rlike(_PLAIN_NUMBER) & ~is_lost(text, value)
    if kind.encoding == EXACT:
        own = _digits(text) == _digits(value.cast("string"))
        short = F.length(_digits(text)) <= _DIGITS_OF_DOUBLE
        number &= short | own | is_rounded_double(text, value)
    if kind.name == "float":
        number &= _is_written(text, value)
    return F.when(number | text.rlike(_NOT_FINITE), value)


def _is_written(text: Column, value: Column) -> Column:
    """Whether a text is a spelling of the float: its double, exactly or rounded to fewer digits.

    Up to 6 digits every number has its own float. Java and C round a tie to even, `format_string`
    rounds it up: so the double next to it is formatted as well.
    """
    digits, count = _digits(text), F.length(_digits(text))
    exact = value.cast("double")
    below = exact * F.lit(_NEXT_TO_ONE)
    shorter = F.when(count <= _DIGITS_OF_EVERY_FLOAT, True)
    for most in range(_DIGITS_OF_EVERY_FLOAT + 1, _DIGITS_OF_FLOAT + 1):
        up, down = (_digits(F.format_string(f"%.{most - 1}e", near)) for near in (exact, below))
        shorter = shorter.when(count == most, (digits == up) | (digits == down))
    same = (text.try_cast("double") == exact) | (digits == _digits(value.cast("string")))
    return same | F.coalesce(shorter, F.lit(False))


def _boolean(text: Column, kind: ColumnType) -> Column:
    lower = F.lower(text)
    return F.when(lower.isin("true", "1", "t"), F.lit(True)).when(
        lower.isin("false", "0", "f"), F.lit(False)
    )


def _decimal(text: Column, kind: ColumnType) -> Column:
    if kind.encoding == BASE64:
        return bound(_unscaled(text), lambda number: _scaled(number, kind))
    if kind.encoding == UNSIGNED:
        return bound(_decimal(text, replace(kind, encoding="")), lambda n: _unsigned(n, kind))
    value = F.when(~_has_long_exponent(text), text).try_cast(kind.spark)
    # Most texts equal the value's own spelling; only the others need the patterns.
    same = (value.cast("string") == text) | (text.rlike(_PLAIN_NUMBER) & _same_number(text, value))
    return F.when(same, value)


def _unsigned(number: Column, kind: ColumnType) -> Column:
    """Return a negative 64-bit number as the unsigned one of the same bits; others unchanged."""
    least, range_of = (F.lit(str(n)).cast("decimal(20,0)") for n in (_LEAST_LONG, 2**64))
    return F.when(number >= 0, number).when(
        number >= least, (number + range_of).try_cast(kind.spark)
    )


def _has_long_exponent(text: Column) -> Column:
    """Whether the exponent is so long that the cast would first write the number out in full."""
    return (text.contains("e") | text.contains("E")) & text.rlike(_LONG_EXPONENT)


def _same_number(text: Column, value: Column) -> Column:
    """Whether `value` has all digits of `text`, compared without padding zeros."""
    kept = F.regexp_replace(value.cast("string"), r"[-.]", "")
    return _digits(text) == F.btrim(kept, F.lit("0"))


def _digits(number: Column) -> Column:
    """Return the significant digits of a number's text, without padding zeros and exponent."""
    mantissa = F.regexp_extract(number, r"^[+-]?([0-9.]+)", 1)
    return F.btrim(F.regexp_replace(mantissa, r"\.", ""), F.lit("0"))


def _unscaled(text: Column) -> Column:
    return bound(_base64(text), unscaled_text)


def _scaled(unscaled: Column, kind: ColumnType) -> Column:
    return shift_point(unscaled, F.lit(kind.scale)).try_cast(kind.spark)


def _variable_decimal(text: Column) -> Column:
    """Return Debezium's VariableScaleDecimal `{"scale":…,"value":base64}` as exact decimal text."""
    parsed = F.from_json(text, "scale int, value string")
    raw = bound(parsed["value"], _base64)
    number = F.struct(raw.alias("raw"), parsed["scale"].alias("scale"))
    shown = bound(number, lambda one: decimal_text(one["raw"], one["scale"]))
    return F.when(text.startswith("{"), shown).otherwise(text)


def _base64(text: Column) -> Column:
    """Decode a decimal's bytes; NULL for a text that no encoder writes, such as plain digits."""
    raw = F.try_to_binary(text, F.lit(BASE64))
    written = F.base64(raw)
    # Spark may break longer texts into lines.
    compact, shown = (F.translate(whole, "\r\n", "") for whole in (text, written))
    return F.when((written == text) | ((F.length(text) > _BASE64_LINE) & (compact == shown)), raw)


def _micros(text: Column, unit: str) -> Column:
    """Return a number of `unit` as microseconds; NULL beyond 64 bits or below a microsecond."""
    value = _whole(text, "bigint")
    if unit == "ns":
        return F.when(value % 1000 == 0, F.call_function("div", value, F.lit(1000)))
    micros = F.try_multiply(value, F.lit(_MICROS[unit]).cast("bigint"))
    return F.coalesce(micros, _micros_of_fraction(text)) if unit == "s" else micros


def _micros_of_fraction(seconds: Column) -> Column:
    """Return seconds with a fraction as microseconds; Huawei DRS writes milliseconds so."""
    exact = seconds.try_cast("decimal(28,9)") * F.lit(_MICROS["s"]).cast("decimal(7,0)")
    micros = exact.try_cast("bigint")
    return F.when(seconds.rlike(_FRACTION) & (exact == micros), micros)


def _timestamp(text: Column, kind: ColumnType) -> Column:
    if kind.zone:
        return local_time(_instant(text, kind), kind.zone)
    if kind.encoding:
        instant = F.timestamp_micros(_micros(text, kind.encoding)).cast(kind.spark)
        if kind.encoding != "ns":
            return instant
        return F.coalesce(instant, _infinite(text, kind.spark, _INFINITE_NANOS))
    exact, unzoned = text.rlike(_DATED) & ~text.rlike(_BELOW_MICROSECOND), text
    if kind.name == "timestamp_ntz":
        unzoned = F.regexp_replace(text, r"(Z|[+-]00:?00)$", "")
        # The cast would drop another zone silently.
        exact &= ~unzoned.rlike(_OWN_ZONE)
    return F.coalesce(
        F.when(exact, _moment(unzoned, kind.spark)), _infinite(text, kind.spark, _INFINITE)
    )


def _instant(text: Column, kind: ColumnType) -> Column:
    return _timestamp(text, ColumnType("timestamp", kind.encoding))


def _infinite(text: Column, kind: str, spellings: Mapping[str, int]) -> Column:
    value = F.lit(None).cast(kind)
    for spelled, micros in spellings.items():
        instant = F.timestamp_micros(F.lit(micros).cast("bigint")).cast(kind)
        value = F.when(text == spelled, instant).otherwise(value)
    return value


def _moment(text: Column, kind: str) -> Column:
    blank = F.regexp_replace(text, _COLON_TIME, "$1 $2")
    return F.coalesce(text.try_cast(kind), F.when(text.rlike(_COLON_TIME), blank.try_cast(kind)))


def _date(text: Column, kind: ColumnType) -> Column:
    if kind.zone:
        return local_date(_instant(text, kind), kind.zone)
    if kind.encoding == "days":
        return F.when(text.rlike(_WHOLE), F.date_from_unix_date(text.try_cast("int")))
    if kind.encoding:
        return _whole_day(F.timestamp_micros(_micros(text, kind.encoding)))
    plain = F.rtrim(text, F.lit("Z"))
    short = F.when(text.rlike(r"^[+-]?\d{4,7}-\d\d-\d\dZ?$"), plain.try_cast("date"))
    return F.coalesce(short, F.when(text.rlike(_DATED), _whole_day(_moment(text, "timestamp"))))


def _whole_day(instant: Column) -> Column:
    # The earliest day began before the first microsecond: date_trunc of it would fail the batch.
    whole = F.when(F.unix_micros(instant) >= _FIRST_DAY, F.date_trunc("DAY", instant) == instant)
    return F.when(whole, instant.cast("date"))


def _time(text: Column, kind: ColumnType) -> Column:
    """Return a time as ISO text; it may be negative or above 24 hours (MySQL TIME)."""
    if not kind.encoding:
        return F.when(text.rlike(r"^-?\d{2,3}:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:\d\d)?)?$"), text)
    if kind.encoding == "ns":
        nanos = _whole(text, "bigint")
        return F.coalesce(_clock(_micros(text, "ns"), 6), _clock(nanos, 9))
    return _clock(_micros(text, kind.encoding), 6)


def _clock(time: Column, digits: int) -> Column:
    """Return a time in units of 10^-`digits` seconds as ISO text; a fraction has all `digits`."""
    return bound(time, lambda parts: _clock_text(parts, digits))


def _clock_text(time: Column, digits: int) -> Column:
    # The lowest bigint has no absolute value: abs of it would fail the batch.
    signed = F.when(time > _LEAST_LONG, time)
    size, second = F.abs(signed), F.lit(10**digits).cast("bigint")
    seconds = F.call_function("div", size, second)
    fraction = F.lpad((size % second).cast("string"), digits, "0")
    clock = F.format_string(
        "%02d:%02d:%02d", F.floor(seconds / 3600), F.floor(seconds / 60) % 60, seconds % 60
    )
    # format_string writes NULL as text
    clock = F.when(signed.isNotNull(), clock)
    shown = F.when(size % second == 0, clock).otherwise(F.concat(clock, F.lit("."), fraction))
    return F.when(signed < 0, F.concat(F.lit("-"), shown)).otherwise(shown)


def _binary(text: Column, kind: ColumnType) -> Column:
    value, most = _bytes(text, kind), kind.width or kind.most
    if not most:
        return value
    filled = F.call_function("rpad", value, F.lit(kind.width), F.lit(b"\x00"))
    return F.when(F.octet_length(value) <= most, filled if kind.width else value)


def _bytes(text: Column, kind: ColumnType) -> Column:
    if kind.encoding == "utf8":
        return F.encode(text, "UTF-8")
    if kind.encoding == "latin1":
        return F.when(text.rlike(LATIN1), F.encode(text, "ISO-8859-1"))
    if kind.encoding == "hex":
        # The prefixes of AWS DMS and PostgreSQL; no two hex digits look like them.
        prefixed = text.startswith("0x") | text.startswith(r"\x")
        text = F.when(prefixed, F.substr(text, F.lit(3))).otherwise(text)
        text = F.when(F.length(text) % 2 == 0, text)
    elif kind.encoding in ("", BASE64):
        # Characters of the URL-safe alphabet only (RFC 4648, 5).
        safe = text.contains("-") | text.contains("_")
        text = F.when(safe, F.translate(text, "-_", "+/")).otherwise(text)
    return F.try_to_binary(text, F.lit(kind.encoding or BASE64))


_DECODERS: Final[dict[str, Callable[[Column, ColumnType], Column]]] = {
    "string": _string, "int": _integer, "bigint": _integer, "float": _float, "double": _float,
    "boolean": _boolean, "decimal": _decimal, "timestamp": _timestamp,
    "timestamp_ntz": _timestamp, "date": _date, "time": _time, "binary": _binary,
}  # fmt: skip
