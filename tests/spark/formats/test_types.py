"""Values are exact or rejected: each reading of each type, through one query."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.types.columns import ColumnType, parse_type
from spark_jobs.formats.common.connect import connect_type
from spark_jobs.values import decode

pytestmark = pytest.mark.spark

NINES = "9" * 38
LONG = "12345678901234567890.123456789012345678"


def b64(value: int, size: int | None = None) -> str:
    """A whole number as Connect writes it: big-endian, two's complement, shortest or padded."""
    length = size or (value + (value < 0)).bit_length() // 8 + 1
    return base64.b64encode(value.to_bytes(length, "big", signed=True)).decode()


def variable(scale: int, value: int) -> str:
    return f'{{"scale":{scale},"value":"{b64(value)}"}}'


def micros(text: str) -> datetime:
    return datetime.fromisoformat(text)


# type, text, value (None: does not fit)
EXACT: list[tuple[str, str, Any]] = [
    # whole numbers
    ("int", "2147483647", 2147483647), ("int", "-2147483648", -2147483648),
    ("int", "2147483648", None), ("int", "1.0", None), ("int", "1e3", None), ("int", "", None),
    ("int", " 1", None), ("int", "0x10", None), ("int", "true", None), ("int", "+7", 7),
    ("bigint", "9223372036854775807", 2**63 - 1), ("bigint", "-9223372036854775808", -(2**63)),
    ("bigint", "9223372036854775808", None), ("bigint", "18446744073709551615", None),
    ("decimal(20,0)", "18446744073709551615", Decimal(2**64 - 1)),
    ("decimal(20,0)[unsigned]", "-1", Decimal(2**64 - 1)),
    ("decimal(20,0)[unsigned]", "7", Decimal(7)),
    ("decimal(20,0)[unsigned]", "-9223372036854775808", Decimal(2**63)),
    ("decimal(20,0)[unsigned]", "9223372036854775807", Decimal(2**63 - 1)),
    ("decimal(20,0)[unsigned]", "18446744073709551615", Decimal(2**64 - 1)),
    ("decimal(20,0)[unsigned]", "-9223372036854775809", None),
    ("decimal(20,0)[unsigned]", "-1.5", None), ("decimal(20,0)[unsigned]", "x", None),
    ("decimal(19,0)[unsigned]", "-1", None), ("decimal(38,0)[unsigned]", "-1", Decimal(2**64 - 1)),
    # decimals
    ("decimal(38,0)", NINES, Decimal(NINES)), ("decimal(38,0)", f"-{NINES}", Decimal(f"-{NINES}")),
    ("decimal(38,0)", f"1{NINES}", None), ("decimal(38,18)", LONG, Decimal(LONG)),
    ("decimal(38,38)", f"0.{NINES}", Decimal(f"0.{NINES}")),
    ("decimal(10,2)", "1.10", Decimal("1.10")), ("decimal(10,2)", "1.1", Decimal("1.10")),
    ("decimal(10,1)", "1.10", Decimal("1.1")), ("decimal(10,2)", "1.005", None),
    ("decimal(10,2)", "1.999", None), ("decimal(4,2)", "99.995", None),
    ("decimal(4,2)", "100", None), ("decimal(4,2)", "100.00", None),
    ("decimal(10,0)", "1e3", Decimal(1000)), ("decimal(10,2)", "1.5E-1", Decimal("0.15")),
    ("decimal(10,2)", "15e-3", None), ("decimal(10,2)", "1e999", None),
    ("decimal(10,2)", "1e-999", None), ("decimal(10,2)", "NaN", None),
    ("decimal(10,2)", "Infinity", None), ("decimal(10,2)", "", None), ("decimal(10,2)", ".", None),
    ("decimal(10,2)", "0.000", Decimal(0)), ("decimal(10,2)", "-0", Decimal(0)),
    ("decimal(10,2)", "0e5", Decimal(0)), ("decimal(10,2)", "000012.50", Decimal("12.50")),
    ("decimal(10,2)", "1,5", None), ("decimal(10,2)", "12abc", None),
    ("decimal(5,2)", "100.00000", Decimal(100)), ("decimal(5,2)", "1050e-1", Decimal(105)),
    # Connect's decimals
    ("decimal(10,2)[base64]", b64(110), Decimal("1.10")),
    ("decimal(10,2)[base64]", b64(-1), Decimal("-0.01")),
    ("decimal(10,2)[base64]", b64(0), Decimal("0.00")),
    ("decimal(10,2)[base64]", b64(-128), Decimal("-1.28")),
    ("decimal(10,2)[base64]", b64(128), Decimal("1.28")),
    ("decimal(10,2)[base64]", b64(10**10), None),
    ("decimal(10,2)[base64]", b64(5, 16), Decimal("0.05")),
    ("decimal(10,2)[base64]", b64(-5, 16), Decimal("-0.05")),
    ("decimal(10,2)[base64]", "", None), ("decimal(10,2)[base64]", "!!", None),
    # numbers that came plain: of such a length, or with such bits left over, no encoder writes any
    ("decimal(10,2)[base64]", "123", None), ("decimal(10,2)[base64]", "12", None),
    ("decimal(10,2)[base64]", "12==", None), ("decimal(10,2)[base64]", "B8Y", None),
    ("decimal(10,2)[base64]", "123456", None), ("decimal(10,2)[base64]", "B8Y=\n", None),
    ("decimal(38,2)[variable]", '{"scale":2,"value":"B8Y"}', None),
    ("string[variable]", '{"scale":2147483647,"value":"AQ=="}', None),
    ("string[variable]", '{"scale":-2147483648,"value":"AQ=="}', None),
    ("date[us]", "-9223372036832400000", None), ("date[us]", "-9223372022400000000", -106751991),
    ("timestamp", "+292278994-08-16T23:00:00Z", 9223372036825200000),
    ("timestamp", "-292275055-05-16T23:00:00Z", -9223372036832400000),
    ("timestamp", "infinity", 9223372036825200000),
    ("timestamp_ntz", "-infinity", -9223372036832400000),
    ("timestamp_ntz", "+292278994-08-16T23:00:00Z", 9223372036825200000),
    ("timestamp_ntz", "-292275055-05-16T23:00:00Z", -9223372036832400000),
    ("date", "+10000-01-01Z", 2932897), ("date", "-0043-03-15Z", -735160),
    ("date", "+5874897-12-31Z", 2145042905), ("date", "-5877611-06-21Z", -2147472692),
    ("double[exact]", "989162987314859.85", None), ("double[exact]", "9251513692735045", None),
    ("double[exact]", "0.30000000000000004", 0.30000000000000004),
    # C's %f, %.17g, and the shortest digits of other writers than Java
    ("double[exact]", "12345678901.122999", 12345678901.123),
    ("double[exact]", "-12345678901.122999", -12345678901.123),
    ("double[exact]", "12345678901.122998", None), ("double[exact]", "12345678901.1229993", None),
    ("double[exact]", "1.1000000000000001", 1.1), ("double[exact]", "1.1000000000000002", None),
    ("double[exact]", "8.652949253041829e+16", 8.652949253041829e16),
    ("double[exact]", "86529492530418288.000000", 8.652949253041829e16),
    ("double[exact]", "86529492530418289", None),
    ("double[exact]", "9223372036854774784", 2.0**63 - 1024),
    ("double[exact]", "9.2233720368547748e18", 2.0**63 - 1024),
    ("double[exact]", "1.100000000000000088", None), ("double[exact]", "1.100000000000000089", 1.1),
    ("double[exact]", "12345678901.1229992", 12345678901.123),
    ("double[exact]", "0.10000000000000000", 0.1), ("double[exact]", "86529492530418290", None),
    ("decimal(38,0)[base64]", b64(10**38 - 1), Decimal(NINES)),
    ("decimal(38,0)[base64]", b64(1 - 10**38), Decimal(f"-{NINES}")),
    ("decimal(38,10)[base64]", b64(-(10**38) + 1), Decimal("-" + "9" * 28 + "." + "9" * 10)),
    ("decimal(38,0)[base64]", b64(10**38), None), ("decimal(38,0)[base64]", b64(2**127 - 1), None),
    ("decimal(38,0)[base64]", b64(-(2**127)), None),
    ("decimal(38,0)[base64]", b64(7, 17), None),
    # decimals that carry their scale
    ("string[variable]", variable(2, 12345), "123.45"),
    ("string[variable]", variable(0, -7), "-7"),
    ("string[variable]", variable(3, -7), "-0.007"),
    ("string[variable]", variable(-3, 5), "5000"),
    ("string[variable]", variable(-2, -12), "-1200"),
    ("string[variable]", variable(38, 10**38 - 1), f"0.{NINES}"),
    ("string[variable]", variable(40, 1), "0." + "0" * 39 + "1"),
    ("string[variable]", variable(4, -(10**60) - 7), f"-1{'0' * 55}0.0007"),
    ("string[variable]", variable(0, 10**4000), "1" + "0" * 4000),
    ("string[variable]", variable(0, 2**32800), None),
    ("string[variable]", "12.50", "12.50"),
    ("decimal(20,2)[variable]", variable(2, 12345), Decimal("123.45")),
    ("decimal(20,2)[variable]", variable(-3, -5), Decimal(-5000)),
    ("decimal(20,2)[variable]", variable(3, 5), None),
    ("decimal(20,2)[variable]", "12.50", Decimal("12.50")),
    ("decimal(20,2)[variable]", "{", None),
    # floating point
    ("double", "NaN", float("nan")), ("double", "Infinity", float("inf")),
    ("double", "-Infinity", float("-inf")), ("double", "1e999", None), ("double", "-1e999", None),
    ("double", "1.7976931348623157e308", 1.7976931348623157e308), ("double", "0.1", 0.1),
    ("double", "5e-324", 5e-324), ("double", "abc", None), ("double", "1.5d", None),
    ("double", "1.5F", None), ("double", " 1", None),
    ("float", "3.4028235e38", 3.4028234663852886e38), ("float", "1e39", None),
    ("double", "4e-400", None), ("double", "-0.0e-999", -0.0), ("float", "4.9E-324", None),
    ("float", "NaN", float("nan")), ("float", "3.14159274", 3.1415927410125732),
    ("float", "3.14159265358979", None), ("float", "16777217", None),
    ("float", "16777216", 16777216.0), ("float", "3.1415927", 3.1415927410125732),
    ("float", "3.14159265", None), ("float", "1.17549435E-38", 1.1754943508222875e-38),
    ("float", "3.1415927410125732", 3.1415927410125732),
    ("float", "0.100000001", 0.10000000149011612), ("float", "12345678901", None),
    ("float", "-0.000000123456789012", None), ("float", "340282346638528860000000000000000000000",
    3.4028234663852886e38), ("float", "1.500000000000000", 1.5),
    # floats halfway between two texts: Java and C round to the even digit, others up
    ("float", "2.1289062", 2.12890625), ("float", "2.1289063", 2.12890625),
    ("float", "-65058.812", -65058.8125), ("float", "-65058.813", -65058.8125),
    ("float", "1.95507812", 1.955078125), ("float", "1.95507813", 1.955078125),
    ("float", "2.1289061", None), ("float", "2.1289064", None), ("float", "-65058.811", None),
    ("float", "1.95507811", None), ("float", "1.95507814", None),
    ("double[exact]", "12345678901234567.89", None), ("double[exact]", "1234567890123456789", None),
    ("double[exact]", "0.10000000149011612", 0.10000000149011612),
    ("double[exact]", "1.100000000000000000000", 1.1), ("double[exact]", "-1.5E300", -1.5e300),
    ("double[exact]", "12345678900000000000000", 1.23456789e22), ("double[exact]", "0.000", 0.0),
    # truth
    ("boolean", "true", True), ("boolean", "0", False), ("boolean", "T", True),
    ("boolean", "yes", None), ("boolean", "2", None), ("boolean", "", None),
    # dates
    ("date[days]", "0", date(1970, 1, 1)), ("date[days]", "-719162", date(1, 1, 1)),
    ("date[days]", "2932896", date(9999, 12, 31)), ("date[days]", "1.5", None),
    ("date[days]", "99999999999", None),
    ("date", "2024-02-29", date(2024, 2, 29)), ("date", "2023-02-29", None),
    ("date", "9999-12-31", date(9999, 12, 31)), ("date", "0001-01-01", date(1, 1, 1)),
    ("date", "0000-00-00", None), ("date", "20240229", None),
    ("date", "2024-02-29Z", date(2024, 2, 29)), ("date", "0001-01-01Z", date(1, 1, 1)),
    ("date", "2023-02-29Z", None), ("date", "2024-02-29ZZ", None),
    ("date", "2024-02-29+02:00", None),
    ("date", "2024-02-29T00:00:00Z", date(2024, 2, 29)), ("date", "2024-02-29T00:00:01Z", None),
    ("date[ms]", "86400000", date(1970, 1, 2)), ("date[ms]", "86400001", None),
    # instants
    ("timestamp[us]", "1704164645678901", micros("2024-01-02T03:04:05.678901Z")),
    ("timestamp[us]", "-1", micros("1969-12-31T23:59:59.999999Z")),
    ("timestamp[ms]", "1704164645678", micros("2024-01-02T03:04:05.678Z")),
    ("timestamp[ms]", "253402300799999", micros("9999-12-31T23:59:59.999Z")),
    ("timestamp[ms]", "9223372036854775807", None),
    ("timestamp[s]", "1", micros("1970-01-01T00:00:01Z")),
    ("timestamp[s]", "1624614713.201", micros("2021-06-25T09:51:53.201Z")),
    ("timestamp[s]", "-0.000001", micros("1969-12-31T23:59:59.999999Z")),
    ("timestamp[s]", "1.0000010", micros("1970-01-01T00:00:01.000001Z")),
    ("timestamp[s]", "1.0000001", None), ("timestamp[s]", "1.5e3", None),
    ("timestamp[s]", "99999999999999999999.5", None), ("timestamp[s]", "1.0000000001", None),
    ("timestamp[ms]", "1.5", None),
    ("timestamp", "1994-09-30:15:33:00", micros("1994-09-30T15:33:00Z")),
    ("timestamp", "1994-09-30:15:33:00.123456000", micros("1994-09-30T15:33:00.123456Z")),
    ("timestamp_ntz", "1994-09-30:15:33:00", micros("1994-09-30T15:33:00")),
    ("timestamp_ntz", "1994-09-30:15:33:00+02:00", None),
    ("timestamp", "1994-09-31:15:33:00", None), ("date", "1994-09-30:00:00:00", date(1994, 9, 30)),
    ("date", "1994-09-30:15:33:00", None),
    ("timestamp[ns]", "1704164645678901000", micros("2024-01-02T03:04:05.678901Z")),
    ("timestamp[ns]", "1704164645678901001", None),
    ("timestamp[ns]", "-1000", micros("1969-12-31T23:59:59.999999Z")),
    ("timestamp_ntz[ns]", "9223372036854775807", 9223372036825200000),
    ("timestamp_ntz[ns]", "-9223372036854775808", -9223372036832400000),
    ("timestamp_ntz[ns]", "9223372036854775806", None),
    ("timestamp_ntz[us]", "9223372036825200000", 9223372036825200000),
    ("timestamp[ns]", "9007199254740993000", micros("2255-06-05T23:47:34.740993Z")),
    ("timestamp", "2024-01-02T03:04:05.678901Z", micros("2024-01-02T03:04:05.678901Z")),
    ("timestamp", "2024-01-02T03:04:05.678901+02:00", micros("2024-01-02T01:04:05.678901Z")),
    ("timestamp", "2024-01-02T03:04:05.6789010Z", micros("2024-01-02T03:04:05.678901Z")),
    ("timestamp", "2024-01-02T03:04:05.6789011Z", None), ("timestamp", "1704164645", None),
    ("timestamp", "0000-00-00 00:00:00", None), ("timestamp", "2024-13-01T00:00:00Z", None),
    ("timestamp", "12:34:56", None), ("timestamp", "T12:34:56Z", None),
    ("timestamp", "2024-05", None), ("timestamp_ntz", "2024-05", None),
    ("timestamp_ntz", "12:34:56", None), ("date", "00:00:00", None), ("date", "2024-05", None),
    ("timestamp", "2024-1-2 03:04:05", micros("2024-01-02T03:04:05Z")),
    ("timestamp_ntz", "2024-01-02 03:04:05.000001", micros("2024-01-02T03:04:05.000001")),
    ("timestamp_ntz", "2024-01-02T03:04:05Z", micros("2024-01-02T03:04:05")),
    ("timestamp_ntz", "2024-01-02T03:04:05+08:00", None),
    ("timestamp_ntz", "2024-01-02 03:04:05 Asia/Shanghai", None),
    ("timestamp_ntz[us]", "-62135596800000000", micros("0001-01-01T00:00:00")),
    ("timestamp_ntz[us]", "253402300799999999", micros("9999-12-31T23:59:59.999999")),
    # times of day
    ("time[us]", "0", "00:00:00"), ("time[us]", "45296789012", "12:34:56.789012"),
    ("time[ms]", "86400000", "24:00:00"), ("time[us]", "3020399000000", "838:59:59"),
    ("time[us]", "-1", "-00:00:00.000001"), ("time[us]", "-3020399000000", "-838:59:59"),
    ("time[ns]", "1000", "00:00:00.000001"), ("time[ms]", "x", None),
    ("time[ns]", "1", "00:00:00.000000001"), ("time[ns]", "-45296123456700", "-12:34:56.123456700"),
    ("time[ns]", "3020399000000001", "838:59:59.000000001"), ("time[ns]", "1.5", None),
    ("time[ns]", "-9223372036854775808", None), ("time[us]", "-9223372036854775808", None),
    ("time[us]", "9223372036854775807", "2562047788:00:54.775807"),
    ("time", "12:34:56.789", "12:34:56.789"), ("time", "-838:59:59", "-838:59:59"),
    ("time", "12:34:56+02", "12:34:56+02"), ("time", "noon", None),
    # bytes
    ("binary", "AP+A", b"\x00\xff\x80"), ("binary", "", b""), ("binary", "*", None),
    ("binary[base64]", "-_8=", b"\xfb\xff"), ("binary", "A_-_", b"\x03\xff\xbf"),
    ("binary[hex]", "00fF80", b"\x00\xff\x80"), ("binary[hex]", "0g", None),
    ("binary[hex]", "0x4869", b"Hi"), ("binary[hex]", "\\x4869", b"Hi"),
    ("binary[hex]", "0x486", None), ("binary[hex]", "0x", b""), ("binary[hex]", "0x0x48", None),
    ("binary[hex]", "", b""), ("binary[utf8]", "ü", "ü".encode()),
    ("binary[latin1]", "\x00é\xff\n", b"\x00\xe9\xff\n"), ("binary[latin1]", "", b""),
    ("binary(4)[latin1]", "\x00é", b"\x00\xe9\x00\x00"), ("binary(2)", "AP+A", None),
    ("binary(3)", "AP+A", b"\x00\xff\x80"), ("binary(2)[hex]", "00ff80", None),
    ("binary(2)[latin1]", "", b"\x00\x00"), ("binary(2)[latin1]", "€", None),
    ("binary[latin1]", "€", None), ("binary[latin1]", "a\u2028", None),
    # text
    ("string", " 1.10 ", " 1.10 "), ("string", "", ""),
]  # fmt: skip


def decoded(spark: SparkSession, kind: ColumnType, texts: list[str | None]) -> list[Any]:
    """The texts, read as one type in one query; dates and instants by their exact distance."""
    frame = spark.createDataFrame([(i, t) for i, t in enumerate(texts)], "i int, t string")
    value = decode(F.col("t"), kind)
    if kind.name == "timestamp":
        value = F.unix_micros(value)
    if kind.name == "timestamp_ntz":
        value = F.unix_micros(value.cast("timestamp"))
    if kind.name == "date":
        value = F.unix_date(value)
    rows = frame.select("i", value.alias("v")).collect()
    return [row["v"] for row in sorted(rows, key=lambda r: r["i"])]


def expected(kind: ColumnType, value: Any) -> Any:
    """The wanted value as `decoded` gives it."""
    if isinstance(value, datetime):
        distance = value.replace(tzinfo=value.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return (distance.days * 86400 + distance.seconds) * 10**6 + distance.microseconds
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    return value


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> dict[tuple[str, str], Any]:
    """Every text above, read once."""
    found: dict[tuple[str, str], Any] = {}
    for kind in dict.fromkeys(k for k, _, _ in EXACT):
        texts = [t for k, t, _ in EXACT if k == kind]
        values = decoded(spark, parse_type(kind), [*texts, None])
        assert values.pop() is None
        found.update(zip(((kind, t) for t in texts), values, strict=True))
    return found


@pytest.mark.parametrize(("kind", "text", "value"), EXACT)
def test_exact_or_nothing(
    answers: dict[tuple[str, str], Any], kind: str, text: str, value: Any
) -> None:
    got, wanted = answers[kind, text], expected(parse_type(kind), value)
    assert repr(got) == repr(wanted) or (got == wanted and type(got) is type(wanted))


def test_no_two_cases_are_the_same() -> None:
    assert len({(k, t) for k, t, _ in EXACT}) == len(EXACT)


DECIMALS = st.tuples(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))


@settings(max_examples=5, deadline=None)
@given(st.lists(DECIMALS, min_size=50, max_size=50), st.integers(0, 38))
def test_connect_decimals_of_every_size(
    spark: SparkSession, numbers: list[tuple[int, int]], scale: int
) -> None:
    """Shifted by any number of bits, so that short numbers come too."""
    values = [n >> (3 * shift) for n, shift in numbers]
    got = decoded(spark, ColumnType("decimal", "base64", 38, scale), [b64(v) for v in values])
    with localcontext(prec=50):
        assert got == [Decimal(v).scaleb(-scale) for v in values]


@settings(max_examples=5, deadline=None)
@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False), min_size=50, max_size=50),
       st.integers(1, 38), st.data())  # fmt: skip
def test_a_decimal_column_never_rounds(
    spark: SparkSession, numbers: list[Decimal], precision: int, data: st.DataObject
) -> None:
    scale = data.draw(st.integers(0, precision))
    got = decoded(spark, ColumnType("decimal", "", precision, scale), [str(n) for n in numbers])
    for number, value in zip(numbers, got, strict=True):
        fits = _fits(number, precision, scale)
        assert (value is not None) == fits, (number, precision, scale)
        assert value is None or value == number


def _fits(number: Decimal, precision: int, scale: int) -> bool:
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).strip("0") or "0"
    if text == "0":
        return True
    trailing = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    exponent += trailing
    return exponent >= -scale and number.adjusted() < precision - scale


def test_a_connect_decimal_beyond_38_digits_keeps_its_text(spark: SparkSession) -> None:
    field = {
        "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "40", "connect.decimal.precision": "60"},
    }  # fmt: skip
    kind = connect_type(field)
    assert kind.spark == "string"
    assert decoded(spark, kind, [b64(15)]) == ["0." + "0" * 38 + "15"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("IsoDate", "2024-02-29Z", date(2024, 2, 29)),
        ("IsoTimestamp", "2024-01-02T03:04:05.678901Z", micros("2024-01-02T03:04:05.678901")),
        ("IsoTime", "12:34:56Z", "12:34:56Z"),
    ],
)
def test_iso_texts_of_debezium(spark: SparkSession, name: str, text: str, value: Any) -> None:
    """What `time.precision.mode=isostring` writes."""
    kind = connect_type({"type": "string", "name": f"io.debezium.time.{name}"})
    assert decoded(spark, kind, [text]) == [expected(kind, value)]


def test_years_before_christ_are_kept(spark: SparkSession) -> None:
    """PostgreSQL has dates down to 4713 BC; Python has none of them."""
    days = [-1_000_000, -719_163]
    assert decoded(spark, parse_type("date[days]"), [str(d) for d in days]) == days
    us = [-210_866_803_200_000_000]
    assert decoded(spark, parse_type("timestamp_ntz[us]"), [str(u) for u in us]) == us
