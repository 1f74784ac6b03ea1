"""DTS Avro from bare datums to rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.dts_records import integer, message, text, value
from tests.spark.dts_records import NONE, datum, prefixed, when
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.formats]
FIELDS = [("id", 8), ("v", 253), ("at", 12), ("d", 10)]
MOMENT = when(2024, 1, 2, 3, 4, 5, 6)


def whole(number: int, row: list[Any], op: str = "INSERT", **parts: Any) -> bytes:
    return datum(message(op, number, fields=FIELDS, after=row, **parts))


STREAM = [
    whole(900, [integer(1), text("full load"), MOMENT, None], "INIT", seconds=1),
    whole(901, [integer(9), text("only there"), MOMENT, when(2024, 5, 6)], "INIT", seconds=1),
    datum(message("BEGIN", 9, object=None, tags={})),
    whole(10, [integer(1), text("new"), MOMENT, None]),
    whole(11, [integer(2), text("moves"), MOMENT, None]),
    whole(12, [integer(3), text("moved"), NONE, None], "UPDATE",
          before=[integer(2), text("moves"), MOMENT, None]),
    whole(13, [integer(1), NONE, NONE, when(2024, 2, 29)], "UPDATE"),
    whole(14, [integer(2**64 - 1), text("largest"), MOMENT, None]),
    datum(message("DELETE", 15, fields=FIELDS, before=[integer(9), NONE, NONE, NONE])),
    whole(16, [integer(4), text("zero date"), MOMENT, when(0, 0, 0)]),
    b"\0junk",
]  # fmt: skip


def wanted() -> list[tuple[Any, ...]]:
    return [
        (1, "new", "2024-01-02 03:04:05.000006", "2024-02-29"),
        (3, "moved", "2024-01-02 03:04:05.000006", "None"),
        (2**64 - 1, "largest", "2024-01-02 03:04:05.000006", "None"),
    ]


@pytest.mark.parametrize("late", [False, True])
def test_from_datums_to_rows(spark: SparkSession, tmp_path: Path, late: bool) -> None:
    """In two files, in either order, with most records twice: the same table."""
    options = {"framing": "length_prefixed"}
    sandbox = Sandbox(spark, tmp_path, {"format": "dts_avro", "format_options": options})
    one, two = prefixed(*STREAM[:6]), prefixed(*STREAM[2:])
    for number, content in enumerate((two, one) if late else (one, two)):
        (sandbox.landing / f"{number}.bin").write_bytes(content)
        sandbox.load_landed()
    rows = [(int(r["id"]), r["v"], str(r["at"]), str(r["d"])) for r in sandbox.rows("t")]
    assert sorted(rows) == wanted()
    assert sandbox.types("t")["id"] == "decimal(20, 0)"
    rejects = {q["reason"]: q for q in sandbox.quarantined()}
    assert set(rejects) == {"not_a_record", "does_not_fit"}
    assert bytes(rejects["not_a_record"]["raw"]) == STREAM[10]
    assert bytes(rejects["does_not_fit"]["raw"]) == STREAM[9]
    assert {q["record"] for q in rejects.values()} == {8, 9}
    assert {q["file"] for q in rejects.values()} == {"0.bin" if late else "1.bin"}


def test_a_nanosecond_is_never_cut(spark: SparkSession, tmp_path: Path) -> None:
    """A column of microseconds refuses it, text keeps it."""
    hints = {"at": "timestamp_ntz", "shown": "string"}
    sandbox = Sandbox(spark, tmp_path, {
        "format": "dts_avro", "format_options": {"framing": "length_prefixed"},
        "tables": {"t": {"columns": hints}},
    })  # fmt: skip
    fields = [("id", 2), ("at", 180), ("shown", 180)]
    finest = when(2024, 2, 29, 1, 2, 3, 123456789)
    rows: Any = ([when(2024, 2, 29, 1, 2, 3, 123456000), finest], [finest, None])
    datums = [
        datum(message("INSERT", n, source="Oracle", fields=fields, after=[integer(n), *row]))
        for n, row in enumerate(rows)
    ]
    (sandbox.landing / "a.bin").write_bytes(prefixed(*datums))
    sandbox.load_landed()
    (row,) = sandbox.rows("t")
    assert (str(row["at"]), row["shown"]) == (
        "2024-02-29 01:02:03.123456", "2024-02-29T01:02:03.123456789")  # fmt: skip
    expected = "at: '2024-02-29T01:02:03.123456789' does not fit timestamp_ntz"
    assert [(q["reason"], q["detail"]) for q in sandbox.quarantined()] == [
        ("does_not_fit", expected)
    ]


def test_a_value_that_cannot_be_read_is_in_quarantine_with_its_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also beside changes that wait for the end of their transaction."""
    sandbox = Sandbox(spark, tmp_path, {
        "format": "dts_avro", "format_options": {"framing": "length_prefixed"},
        "on_open_transaction": "hold",
    })  # fmt: skip
    bad = value("Character", "utf8mb4", b"\xff")
    sent = [
        message("INSERT", 1, tx="1", after=[integer(1), bad]),
        message("INSERT", 2, tx="1", after=[integer(2), text("a")]), message("COMMIT", 3, tx="1"),
        message("INSERT", 4, tx="2", after=[integer(3), text("a")]),
    ]  # fmt: skip
    (sandbox.landing / "a.bin").write_bytes(prefixed(*map(datum, sent)))
    sandbox.load_landed()
    assert sorted((q["reason"], q["detail"]) for q in sandbox.quarantined()) == [
        ("bad_characters", "v"), ("transaction_open", "2"),
    ]  # fmt: skip


def test_a_zero_timestamp_is_no_moment_of_1970(spark: SparkSession, tmp_path: Path) -> None:
    """In a column of moments it does not fit, text keeps it."""
    sandbox = Sandbox(spark, tmp_path, {
        "format": "dts_avro", "format_options": {"framing": "length_prefixed"},
        "tables": {"t": {"columns": {"shown": "string"}}},
    })  # fmt: skip
    fields, zero = [("id", 2), ("at", 17), ("shown", 17)], value("Timestamp", 0, 0)
    first = value("Timestamp", 1, 0)
    rows = ([integer(1), first, zero], [integer(2), zero, first])
    datums = [datum(message("INSERT", n, fields=fields, after=row)) for n, row in enumerate(rows)]
    (sandbox.landing / "a.bin").write_bytes(prefixed(*datums))
    sandbox.load_landed()
    (row,) = sandbox.rows("t")
    assert (row["id"], row["shown"]) == (1, "0000-00-00T00:00:00")
    expected = "at: '0000-00-00T00:00:00' does not fit timestamp"
    assert [(q["reason"], q["detail"]) for q in sandbox.quarantined()] == [
        ("does_not_fit", expected)
    ]


def test_full_load_rows_of_one_id(spark: SparkSession, tmp_path: Path) -> None:
    """Without a key they are told apart by what they hold."""
    sandbox = Sandbox(spark, tmp_path, {
        "format": "dts_avro", "format_options": {"framing": "length_prefixed"},
        "tables": {"t": {"key": []}},
    })  # fmt: skip
    rows = [message("INIT", 0, after=[integer(n), text("x")], tags={}) for n in range(3)]
    (sandbox.landing / "a.bin").write_bytes(prefixed(*map(datum, rows)))
    sandbox.load_landed()
    assert sorted(int(row["id"]) for row in sandbox.rows("t")) == [0, 1, 2]


def test_one_hint_for_all_binary_columns(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path, {
        "format": "dts_avro", "tables": {"t": {"columns": {"b": "binary", "c": "binary"}}},
    })  # fmt: skip
    raw = b"\x00\xff\x10"
    row = [integer(1), value("BinaryObject", "BLOB", raw), value("Character", "binary", raw)]
    fields = [("id", 8), ("b", 252), ("c", 254)]
    (sandbox.landing / "a.bin").write_bytes(datum(message("INSERT", fields=fields, after=row)))
    sandbox.load_landed()
    (found,) = sandbox.rows("t")
    assert (found["b"], found["c"]) == (raw, raw)


def test_a_hint_for_numbers_says_nothing_of_clocks(spark: SparkSession, tmp_path: Path) -> None:
    """A DateTime has parts, and PostgreSQL's bytes are bytes: no record has them in a unit."""
    hints = {"at": "timestamp_ntz[us]", "d": "date[days]", "b": "binary[hex]"}
    sandbox = Sandbox(spark, tmp_path, {
        "format": "dts_avro", "tables": {"t": {"columns": hints}},
    })  # fmt: skip
    row = [integer(1), MOMENT, when(2024, 5, 6), value("BinaryObject", "bytea", b"\xd3")]
    fields = [("id", 20), ("at", 1114), ("d", 1082), ("b", 17)]
    told = message("INSERT", source="PostgreSQL", fields=fields, after=row)
    (sandbox.landing / "a.bin").write_bytes(datum(told))
    sandbox.load_landed()
    (found,) = sandbox.rows("t")
    assert (str(found["at"]), str(found["d"]), found["b"]) == (
        "2024-01-02 03:04:05.000006", "2024-05-06", b"\xd3")  # fmt: skip
