"""Text of a value → a typed column; NULL where the text does not fit, and never a rounded value.

`decode` is exact or NULL: the caller compares with the text's own NULL to find the misfits
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
from spark_jobs.number_text import bound, decimal_text, shift_point, unscaled_text

ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
"""A time as text, by its column's type without or with a zone behind it."""
_LONG_EXPONENT: Final = r"[eE][+-]?0*[1-9]\d{3,}"
_WHOLE: Final = r"^[+-]?\d+$"
_PLAIN_NUMBER: Final = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_NOT_ZERO: Final = "^[^eE]*[1-9]"
_NOT_FINITE: Final = r"(?i)^([+-]?inf(inity)?|nan)$"
# To a time alone the cast would add today's date, to a month its first day.
_DATED: Final = r"^\s*[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
_OWN_ZONE: Final = r"\d[T ].*[^0-9:. ]"
_TRUTH: Final = "(?i)^(true|false)$"
_FRACTION: Final = r"^[+-]?\d+\.\d{1,9}0*$"
# As GoldenGate writes a time; one with a zone is none of its.
_COLON_TIME: Final = r"^(\d{4}-\d\d-\d\d):(\d\d:\d\d:\d\d(\.\d+)?)$"
_BELOW_MICROSECOND: Final = r"\.\d{6}\d*[1-9]"
_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
# As many of any decimal a double keeps; as many as any float is written with.
_DIGITS_OF_DOUBLE: Final = 15
# A float is written with at most so many digits, and has every number of so few.
_DIGITS_OF_FLOAT: Final = 9
_DIGITS_OF_EVERY_FLOAT: Final = 6
_NEXT_TO_ONE: Final = 1 - 2**-52
_BASE64_LINE: Final = 76
_LEAST_LONG: Final = -(2**63)
_DAY: Final = 86_400_000_000
_FIRST_DAY: Final = _LEAST_LONG // _DAY * _DAY + _DAY
# What Debezium makes of PostgreSQL's infinite timestamps: as texts, and as microseconds.
_INFINITE: Final = {
    "infinity": 9_223_372_036_825_200_000,
    "-infinity": -9_223_372_036_832_400_000,
    "+292278994-08-16T23:00:00Z": 9_223_372_036_825_200_000,
    "-292275055-05-16T23:00:00Z": -9_223_372_036_832_400_000,
}
# The same with `time.precision.mode=nanoseconds`, which have no room for them.
_INFINITE_NANOS: Final = {
    "9223372036854775807": 9_223_372_036_825_200_000,
    "-9223372036854775808": -9_223_372_036_832_400_000,
}
_LATIN1: Final = r"^[\x00-\xff]*\z"


def fitted(text: Column, kind: ColumnType, into: ColumnType) -> Column:
    """The value of `text`, a `kind`, in a column `into`; NULL where it does not fit exactly.

    No value of a kind that the column does not hold fits, whatever it looks like.
    """
    holds = into == widest_or_text(kind, into)
    return as_type(decode(text, kind), kind, into.spark) if holds else F.lit(None).cast(into.spark)


def as_type(value: Column, before: ColumnType, after: str) -> Column:
    """A value in a wider type (`widest_or_text`), the same by whatever types it comes there.

    So a decimal's text has no zeros at its end, and a float's is that of the double.
    """
    if before.spark == after:
        return value
    if after != STRING.spark:
        return value.cast(after)
    text = (value.cast("double") if before.name == "float" else value).cast(after)
    return F.regexp_replace(text, r"\.?0+$", "") if before.scale > 0 else text


def as_type_sql(value: str, before: str, after: str) -> str:
    """The same in SQL, by the types as Spark has them."""
    if before == after:
        return value
    if after != STRING.spark:
        return f"CAST({value} AS {after})"
    text = f"CAST({f'CAST({value} AS double)' if before == 'float' else value} AS {after})"
    return rf"regexp_replace({text}, r'\.?0+$', '')" if parse_type(before).scale > 0 else text


def decode(text: Column, kind: ColumnType) -> Column:
    """The value of `text` as `kind.spark`; NULL where it is NULL or does not fit exactly."""
    if kind.encoding.startswith(LISTED):
        return _list(text, element_of(kind))
    if not kind.encoding.startswith((VARIABLE, UNSCALED)):
        return _DECODERS[kind.name](text, kind)
    plain = replace(kind, encoding="")
    number = variable_decimal(text)
    if kind.encoding != VARIABLE:
        scale = int(kind.encoding.removeprefix(UNSCALED))
        number = decimal_text(_base64(text), F.lit(scale))
    return number if plain == STRING else bound(number, lambda digits: decode(digits, plain))


def _list(text: Column, element: ColumnType) -> Column:
    """JSON of the elements' own texts, null for null; NULL where one does not fit."""

    def shown(values: Column) -> Column:
        texts = F.transform(values, lambda value: _element(value, element))
        return bound(texts, lambda known: F.when(_nulls(known) == _nulls(values), F.to_json(known)))

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
    """A whole number; a cast alone would let blanks and fractions pass.

    Comparing the number's own spelling is cheaper than the pattern, which few texts then need.
    """
    value = text.try_cast(kind)
    return F.when((value.cast("string") == text) | text.rlike(_WHOLE), value)


def _float(text: Column, kind: ColumnType) -> Column:
    value = text.try_cast(kind.spark)
    overflowed = F.abs(value) == F.lit(float("inf"))
    vanished = (value == 0) & text.rlike(_NOT_ZERO)
    number = text.rlike(_PLAIN_NUMBER) & ~overflowed & ~vanished
    if kind.encoding == EXACT:
        number &= (F.length(_digits(text)) <= _DIGITS_OF_DOUBLE) | (
            _digits(text) == _digits(value.cast("string"))
        )
    if kind.name == "float":
        number &= _is_written(text, value)
    return F.when(number | text.rlike(_NOT_FINITE), value)


def _is_written(text: Column, held: Column) -> Column:
    """Whether a text is what a float is written as: the double that it is, or that one in fewer
    digits. In so few that every number has a float, none is another's.

    Of a number halfway between two texts Java has the even one, C too; `format_string` rounds up,
    and so it is asked for the double next to it as well.
    """
    digits, count = _digits(text), F.length(_digits(text))
    exact = held.cast("double")
    below = exact * F.lit(_NEXT_TO_ONE)
    shorter = F.when(count <= _DIGITS_OF_EVERY_FLOAT, True)
    for most in range(_DIGITS_OF_EVERY_FLOAT + 1, _DIGITS_OF_FLOAT + 1):
        up, down = (_digits(F.format_string(f"%.{most - 1}e", near)) for near in (exact, below))
        shorter = shorter.when(count == most, (digits == up) | (digits == down))
    same = (text.try_cast("double") == exact) | (digits == _digits(held.cast("string")))
    return same | F.coalesce(shorter, F.lit(False))


def _boolean(text: Column, kind: ColumnType) -> Column:
    lower = F.lower(text)
    return F.when(lower.isin("true", "1", "t"), F.lit(True)).when(
        lower.isin("false", "0", "f"), F.lit(False)
    )


def _decimal(text: Column, kind: ColumnType) -> Column:
    if kind.encoding == BASE64:
        return _scaled(unscaled_text(_base64(text)), kind)
    if kind.encoding == UNSIGNED:
        return bound(_decimal(text, replace(kind, encoding="")), lambda n: _unsigned(n, kind))
    value = F.when(~_has_long_exponent(text), text).try_cast(kind.spark)
    # Most texts are spelled as the value itself would be: only the others need a closer look.
    same = (value.cast("string") == text) | (text.rlike(_PLAIN_NUMBER) & _same_number(text, value))
    return F.when(same, value)


def _unsigned(number: Column, kind: ColumnType) -> Column:
    """What the bits of a signed number of 64 bits are without a sign; others as they are."""
    least, range_of = (F.lit(str(n)).cast("decimal(20,0)") for n in (_LEAST_LONG, 2**64))
    return F.when(number >= 0, number).when(
        number >= least, (number + range_of).try_cast(kind.spark)
    )


def _has_long_exponent(text: Column) -> Column:
    """The cast would write such a number out, digit by digit, before it finds that it fits none."""
    return (text.contains("e") | text.contains("E")) & text.rlike(_LONG_EXPONENT)


def _same_number(text: Column, value: Column) -> Column:
    """Whether the digits of `text` survive in `value`: compare both without padding zeros."""
    kept = F.regexp_replace(F.regexp_replace(value.cast("string"), r"[-.]", ""), r"^0+|0+$", "")
    return _digits(text) == kept


def _digits(number: Column) -> Column:
    """The significant digits of a number's text, without padding zeros and exponent."""
    mantissa = F.regexp_extract(number, r"^[+-]?([0-9.]+)", 1)
    return F.regexp_replace(F.regexp_replace(mantissa, r"\.", ""), r"^0+|0+$", "")


def _scaled(unscaled: Column, kind: ColumnType) -> Column:
    return shift_point(unscaled, F.lit(kind.scale)).try_cast(kind.spark)


def variable_decimal(text: Column) -> Column:
    """Debezium's VariableScaleDecimal `{"scale":…,"value":base64}` as exact decimal text."""
    parsed = F.from_json(text, "scale int, value string")
    raw = _base64(parsed["value"])
    return F.when(text.startswith("{"), decimal_text(raw, parsed["scale"])).otherwise(text)


def _base64(text: Column) -> Column:
    """The bytes of a decimal; NULL of a text that no encoder makes of them, as plain digits are."""
    raw = F.try_to_binary(text, F.lit(BASE64))
    written = F.base64(raw)
    # Spark may break what is longer into lines.
    bare, shown = (F.translate(whole, "\r\n", "") for whole in (text, written))
    return F.when((written == text) | ((F.length(text) > _BASE64_LINE) & (bare == shown)), raw)


def _micros(text: Column, unit: str) -> Column:
    """A bare number in `unit` as microseconds; NULL beyond 64 bits or below a microsecond."""
    value = _whole(text, "bigint")
    if unit == "ns":
        return F.when(value % 1000 == 0, F.call_function("div", value, F.lit(1000)))
    micros = F.try_multiply(value, F.lit(_MICROS[unit]).cast("bigint"))
    return F.coalesce(micros, _micros_of_fraction(text)) if unit == "s" else micros


def _micros_of_fraction(seconds: Column) -> Column:
    """Huawei DRS writes milliseconds behind the point."""
    exact = seconds.try_cast("decimal(28,9)") * F.lit(_MICROS["s"]).cast("decimal(7,0)")
    micros = exact.try_cast("bigint")
    return F.when(seconds.rlike(_FRACTION) & (exact == micros), micros)


def _timestamp(text: Column, kind: ColumnType) -> Column:
    if kind.encoding:
        told = F.timestamp_micros(_micros(text, kind.encoding)).cast(kind.spark)
        nanos = kind.encoding == "ns"
        return F.coalesce(told, _infinite(text, kind.spark, _INFINITE_NANOS)) if nanos else told
    exact, bare = text.rlike(_DATED) & ~text.rlike(_BELOW_MICROSECOND), text
    if kind.name == "timestamp_ntz":
        bare = F.regexp_replace(text, r"(Z|[+-]00:?00)$", "")
        # The cast would drop another zone without a word.
        exact &= ~bare.rlike(_OWN_ZONE)
    return F.coalesce(
        F.when(exact, _moment(bare, kind.spark)), _infinite(text, kind.spark, _INFINITE)
    )


def _infinite(text: Column, kind: str, spellings: Mapping[str, int]) -> Column:
    found = F.lit(None).cast(kind)
    for spelled, micros in spellings.items():
        instant = F.timestamp_micros(F.lit(micros).cast("bigint")).cast(kind)
        found = F.when(text == spelled, instant).otherwise(found)
    return found


def _moment(text: Column, kind: str) -> Column:
    blank = F.regexp_replace(text, _COLON_TIME, "$1 $2")
    return F.coalesce(text.try_cast(kind), F.when(text.rlike(_COLON_TIME), blank.try_cast(kind)))


def _date(text: Column, kind: ColumnType) -> Column:
    if kind.encoding == "days":
        return F.when(text.rlike(_WHOLE), F.date_from_unix_date(text.try_cast("int")))
    if kind.encoding:
        return _whole_day(F.timestamp_micros(_micros(text, kind.encoding)))
    plain = F.rtrim(text, F.lit("Z"))
    short = F.when(text.rlike(r"^[+-]?\d{4,7}-\d\d-\d\dZ?$"), plain.try_cast("date"))
    return F.coalesce(short, F.when(text.rlike(_DATED), _whole_day(_moment(text, "timestamp"))))


def _whole_day(instant: Column) -> Column:
    # The first day of all began before the first microsecond: to ask for it would end the batch.
    whole = F.when(F.unix_micros(instant) >= _FIRST_DAY, F.date_trunc("DAY", instant) == instant)
    return F.when(whole, instant.cast("date"))


def _time(text: Column, kind: ColumnType) -> Column:
    """ISO text of a time of day: it may be negative or beyond 24 hours (MySQL TIME)."""
    if not kind.encoding:
        return F.when(text.rlike(r"^-?\d{2,3}:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:\d\d)?)?$"), text)
    if kind.encoding == "ns":
        nanos = _whole(text, "bigint")
        micros = _clock(_micros(text, "ns"), 6)
        return F.coalesce(micros, _clock(nanos, 9))
    return _clock(_micros(text, kind.encoding), 6)


def _clock(time: Column, digits: int) -> Column:
    """A time in parts of a second as ISO text, its fraction with as many `digits` or none."""
    # The least long has no absolute value, and to ask for it would end the batch.
    known = F.when(time > _LEAST_LONG, time)
    size, second = F.abs(known), F.lit(10**digits).cast("bigint")
    seconds = F.call_function("div", size, second)
    fraction = F.lpad((size % second).cast("string"), digits, "0")
    clock = F.format_string(
        "%02d:%02d:%02d", F.floor(seconds / 3600), F.floor(seconds / 60) % 60, seconds % 60
    )
    # format_string writes NULL as text
    clock = F.when(known.isNotNull(), clock)
    shown = F.when(size % second == 0, clock).otherwise(F.concat(clock, F.lit("."), fraction))
    return F.when(known < 0, F.concat(F.lit("-"), shown)).otherwise(shown)


def _binary(text: Column, kind: ColumnType) -> Column:
    value = _bytes(text, kind)
    if not kind.width:
        return value
    filled = F.call_function("rpad", value, F.lit(kind.width), F.lit(b"\x00"))
    return F.when(F.octet_length(value) < kind.width, filled).otherwise(value)


def _bytes(text: Column, kind: ColumnType) -> Column:
    if kind.encoding == "utf8":
        return F.encode(text, "UTF-8")
    if kind.encoding == "latin1":
        return F.when(text.rlike(_LATIN1), F.encode(text, "ISO-8859-1"))
    if kind.encoding == "hex":
        # As AWS DMS and PostgreSQL begin it; no two digits look so.
        prefixed = text.startswith("0x") | text.startswith(r"\x")
        text = F.when(prefixed, F.substr(text, F.lit(3))).otherwise(text)
        text = F.when(F.length(text) % 2 == 0, text)
    elif kind.encoding in ("", BASE64):
        # Of the alphabet that is safe in URLs (RFC 4648, 5); the other one has neither.
        safe = text.contains("-") | text.contains("_")
        text = F.when(safe, F.translate(text, "-_", "+/")).otherwise(text)
    return F.try_to_binary(text, F.lit(kind.encoding or BASE64))


_DECODERS: Final[dict[str, Callable[[Column, ColumnType], Column]]] = {
    "string": _string, "int": _integer, "bigint": _integer, "float": _float, "double": _float,
    "boolean": _boolean, "decimal": _decimal, "timestamp": _timestamp,
    "timestamp_ntz": _timestamp, "date": _date, "time": _time, "binary": _binary,
}  # fmt: skip
