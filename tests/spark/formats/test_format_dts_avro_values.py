"""DTS Avro's values by the record around them: its reader, its columns' types, its charsets."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from bench.dts_records import message, value
from sluice.config.format_options import DtsAvroOptions
from spark_jobs.formats.dts_avro.decoder import DtsAvro
from tests.spark.dts_records import bare_file, characters, clock, datum, of_one, values, when
from tests.spark.envelopes import in_turn

DEFAULTS = DtsAvroOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]


def typed(*columns: tuple[int, Any], **parts: Any) -> dict[str, Any]:
    """An INSERT whose columns c0, c1, … have these types and values."""
    fields = [(f"c{n}", kind) for n, (kind, _) in enumerate(columns)]
    return message("INSERT", after=[v for _, v in columns], fields=fields, tags={}, **parts)


COUNTS = (123456000, 123456789, 1000000, 999999, 500000, 7, 0)  # what `millis` may hold
PHYSICAL = "0/16B3748<->0/16B3750"
READERS: dict[str, dict[str, str]] = {
    "mysql": {"source": "MySQL"}, "postgresql": {"source": "PostgreSQL"},
    "oracle": {"source": "Oracle"}, "sqlserver": {"source": "SQLServer"},
    "ppas": {"source": "PPAS"}, "drds": {"source": "DRDS"},
    "physical_postgresql": {"source": "PostgreSQL", "position": PHYSICAL},
    "physical_mysql": {"source": "MySQL", "position": PHYSICAL},
}  # fmt: skip

MESSAGES: dict[str, Any] = {
    **{f"clock_of_{name}": of_one(
        *(when(2024, 2, 29, 1, 2, 3, count) for count in COUNTS), when(2024, 2, 29), **told)
       for name, told in READERS.items()},
    "zones": of_one(*(value("TimestampWithTimeZone", clock(2024, 1, 1, 8, 0, 0), zone)
                      for zone in ("8:00", "+8:00", " -03:30 ", "Z"))),
    "no_zone": of_one(value("TimestampWithTimeZone", clock(2024, 1, 1, 8, 0, 0), " ")),
    "typed_clocks": typed(
        (10, when(2024)), (14, when(2024, 2, 29, 0, 0, 0, 0)), (10, when(2024, 2, 29, 1, 0, 0)),
        (11, when(0, 0, 0, 12, 1, 2, 0)), (19, when(0, 0, 0, -1, 0, 0)),
        (11, when(2024, 1, 1, 1, 2, 3)), (13, when(1999, 0, 0, 0, 0, 0, 0)), (13, when(1999, 1))),
    "zero_dates": typed((10, when()), (14, when()), (12, when()), (18, when())),
    "zero_timestamps": typed(
        (7, value("Timestamp", 0, 0)), (17, value("Timestamp", 0, 0)),
        (7, value("Timestamp", 0, 1)), (17, value("Timestamp", 1, 0)),
        (12, value("Timestamp", 0, 0))),
    "clocks_of_drds": typed((10, when(2024)), (11, when(0, 0, 0, 1, 2, 3)), (13, when(1999, 0)),
                            (18, when()), (7, value("Timestamp", 0, 0)), source="DRDS"),
    "zero_timestamps_elsewhere": typed((1184, value("Timestamp", 0, 0)), source="PostgreSQL"),
    "no_time": typed((19, when())),
    "typed_elsewhere": typed((10, when(2024)), (11, when(0, 0, 0, 12, 1, 2)), source="Oracle"),
    "jsonb": typed((3802, value("BinaryObject", "", '{"k": "ä"}'.encode())),
                   (17, value("BinaryObject", "JSONB", b"[]")),
                   (17, value("BinaryObject", "jsonb", b"[]")),
                   (17, value("BinaryObject", "", b"a")),
                   source="PostgreSQL"),
    "jsonb_of_ppas": typed((3802, value("BinaryObject", "", b"{}")), source="PPAS"),
    "bad_jsonb": typed((3802, value("BinaryObject", "", b"\xff")), source="PostgreSQL"),
    "javas_charsets": characters(
        ("ISO-8859-1", b"\xe9"), ("iso-8859-15", b"\xa4"), ("UTF-16", b"\xff\xfeA\x00"),
        ("UTF-16BE", b"\x4e\x2d"), ("utf-16le", b"-N"), ("windows-1252", b"\x80"),
        ("windows-1251", b"\xe0"), ("US-ASCII", b"a"), ("Shift_JIS", b"\x82\xa0"),
        ("EUC-JP", b"\xa4\xa2"), ("EUC-KR", b"\xb0\xa1"), ("AL16UTF16", b"\x4e\x2d"),
        ("SQL_ASCII", "é".encode()), ("Cp1252", b"\x80"), *((name, b"a\xe9") for name in (
            "armscii8", "dec8", "geostd8", "hp8", "swe7")), ("keybcs2", b"a\x82")),
    "others_charsets": characters(
        ("LATIN1", b"\x80"), ("WIN1252", b"\x80"), ("LATIN9", b"\xa4"),
        ("UHC", b"\x8c\x63"), ("euckr", b"\x8c\x63"),
        ("WE8ISO8859P15", b"\xa4"), ("CL8MSWIN1251", b"\xe0"), ("JA16SJIS", b"\x82\xa0")),
    "bad_sql_ascii": characters(("SQL_ASCII", b"\xe9")),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every message above, decoded in one read."""
    file = bare_file(tmp_path_factory.mktemp("dts") / "all", [*map(datum, MESSAGES.values())])
    names = list(MESSAGES)
    found = DtsAvro().read(spark, (file,), DEFAULTS).collect()
    return in_turn(found, names)


@pytest.mark.parametrize("reader", READERS)
def test_clocks_are_in_microseconds_or_nanoseconds(rows: dict[str, Row], reader: str) -> None:
    """By the reader; what is too large for microseconds is nanoseconds, and never cut."""
    micros = reader in ("mysql", "postgresql")
    small = [".999999", ".500000", ".000007"] if micros else [
        ".000999999", ".000500", ".000000007"]  # fmt: skip
    fractions = [".123456", ".123456789", ".001000", *small, ""]
    moments = [f"2024-02-29T01:02:03{fraction}" for fraction in fractions]
    assert values(rows[f"clock_of_{reader}"]) == [*moments, "2024-02-29"]


def test_zones_without_a_sign_are_east(rows: dict[str, Row]) -> None:
    moments = [f"2024-01-01T08:00:00{zone}" for zone in ("+8:00", "+8:00", "-03:30", "Z")]
    assert values(rows["zones"]) == moments


def test_mysqls_dates_times_and_years_by_their_type(rows: dict[str, Row]) -> None:
    """Parts that are zero say nothing; what is there is never left out."""
    assert values(rows["typed_clocks"]) == [
        "2024-00-00", "2024-02-29", "2024-02-29T01:00:00", "12:01:02", "-01:00:00",
        "2024-01-01T01:02:03", "1999", "1999-01-00",
    ]  # fmt: skip
    assert values(rows["zero_dates"]) == ["0000-00-00"] * 4
    assert rows["no_time"]["reason"] == "unreadable_value"
    assert values(rows["clocks_of_drds"]) == [
        "2024-00-00", "01:02:03", "1999", "0000-00-00", "0000-00-00T00:00:00",
    ]  # fmt: skip
    assert values(rows["typed_elsewhere"]) == ["2024", "0000-00-00T12:01:02"]


def test_mysqls_timestamp_of_zero_is_no_moment(rows: dict[str, Row]) -> None:
    """Its TIMESTAMP begins a second after 1970 does: what is at 1970 is 0000-00-00 00:00:00."""
    assert values(rows["zero_timestamps"]) == [
        "0000-00-00T00:00:00", "0000-00-00T00:00:00",
        "1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:01.000000Z",
        "1970-01-01T00:00:00.000000Z",
    ]  # fmt: skip
    assert values(rows["zero_timestamps_elsewhere"]) == ["1970-01-01T00:00:00.000000Z"]


def test_jsonb_is_text(rows: dict[str, Row]) -> None:
    """PostgreSQL's, by the column's type or the value's."""
    assert values(rows["jsonb"]) == ['{"k": "ä"}', "[]", "[]", "YQ=="]
    assert values(rows["jsonb_of_ppas"]) == ["{}"]


def test_charsets_by_javas_names(rows: dict[str, Row]) -> None:
    """Those that only MySQL knows are read as Alibaba's SDK does."""
    assert values(rows["javas_charsets"]) == [
        "é", "€", "A", "中", "中", "€", "\u0430", "a", "あ", "あ", "가", "中",
        "é", "€", *["aé"] * 6,
    ]  # fmt: skip


def test_charsets_by_the_names_of_postgresql_and_oracle(rows: dict[str, Row]) -> None:
    assert values(rows["others_charsets"]) == [
        "\x80", "€", "€", "똠", "똠", "€", "\u0430", "あ",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_zone", "unreadable_value"), ("bad_jsonb", "unreadable_value"),
        ("bad_sql_ascii", "bad_characters"),
    ],
)  # fmt: skip
def test_values_that_nobody_can_read(rows: dict[str, Row], name: str, reason: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("reject", reason)
