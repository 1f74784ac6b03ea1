"""DataHub Tuple in Parquet: the exact text and the type of every value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import DatahubTupleOptions
from sluice.containers.parquet_file import avro_schema
from sluice.errors import TerminalError
from sluice.manifest import SourceFile
from sluice.types.columns import ColumnType, decimal
from spark_jobs.formats.datahub_tuple import DatahubTuple
from tests.spark.sandbox import Sandbox
from tests.spark.tuple_records import record

DEFAULTS = DatahubTupleOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]
TEXT = ColumnType("string")
ABOUT = {"_sequence_id_": "7", "_operation_type_": "I", "_source_table_": "t",
         "_before_image_": "N", "_after_image_": "Y"}  # fmt: skip
MOMENT = datetime(2022, 4, 15, 3, 2, 6, 1)
WIDE = Decimal("-12345678901234567890123456789012345.123456789012345678901234567890")
# name: (Arrow type, value, exact text, type of the column)
VALUES: dict[str, tuple[pa.DataType, Any, str | None, ColumnType]] = {
    "int8": (pa.int8(), -128, "-128", ColumnType("int")),
    "int16": (pa.int16(), -1, "-1", ColumnType("int")),
    "int32": (pa.int32(), 2**31 - 1, "2147483647", ColumnType("int")),
    "int64": (pa.int64(), -(2**63), "-9223372036854775808", ColumnType("bigint")),
    "uint8": (pa.uint8(), 255, "255", ColumnType("int")),
    "uint32": (pa.uint32(), 2**32 - 1, "4294967295", ColumnType("bigint")),
    "uint64": (pa.uint64(), 2**64 - 1, "18446744073709551615", decimal(20, 0)),
    "float": (pa.float32(), 0.1, "0.1", ColumnType("float")),
    "double": (pa.float64(), 0.1, "0.1", ColumnType("double")),
    "boolean": (pa.bool_(), True, "true", ColumnType("boolean")),
    "empty": (pa.string(), "", "", TEXT),
    "missing": (pa.string(), None, None, TEXT),
    "nothing": (pa.null(), None, None, TEXT),
    "large": (pa.large_string(), "x", "x", TEXT),
    "days": (pa.date64(), date(1969, 12, 31), "1969-12-31", ColumnType("date")),
    "seconds": (pa.timestamp("s"), MOMENT.replace(microsecond=0), "2022-04-15T03:02:06.000000",
                ColumnType("timestamp_ntz")),
    "short_time": (pa.time32("s"), time(1, 2, 3), "01:02:03", ColumnType("time")),
    "duration": (pa.duration("us"), 7, "7", ColumnType("bigint")),
    "category": (pa.dictionary(pa.int8(), pa.string()), "é", "é", TEXT),
    "binary": (pa.binary(), b"\x00\xff", "AP8=", ColumnType("binary", "base64")),
    "fixed": (pa.binary(2), b"\x01\x02", "AQI=", ColumnType("binary", "base64")),
    "decimal": (pa.decimal128(10, 2), Decimal("-456.10"), "-456.10", decimal(10, 2)),
    "wide": (pa.decimal256(65, 30), WIDE, str(WIDE), TEXT),
    "date": (pa.date32(), date(1969, 12, 31), "1969-12-31", ColumnType("date")),
    "local": (pa.timestamp("us"), MOMENT, "2022-04-15T03:02:06.000001",
              ColumnType("timestamp_ntz")),
    "millis": (pa.timestamp("ms"), datetime(1969, 12, 31, 23, 59, 59, 999000),
               "1969-12-31T23:59:59.999000", ColumnType("timestamp_ntz")),
    "instant": (pa.timestamp("us", "Asia/Shanghai"), MOMENT.replace(tzinfo=UTC),
                "2022-04-15T03:02:06.000001Z", ColumnType("timestamp")),
    "nanos": (pa.timestamp("ns", "UTC"), 1001, "1001", ColumnType("timestamp", "ns")),
    "time": (pa.time64("us"), time(23, 59, 59, 1), "23:59:59.000001", ColumnType("time")),
    "list": (pa.list_(pa.decimal128(3, 2)), [Decimal("1.10"), None], "[1.10,null]", TEXT),
    "record": (pa.struct([("d", pa.date32()), ("b", pa.binary())]),
               {"d": date(1970, 1, 2), "b": b"x"}, '{"d":"1970-01-02","b":"eA=="}', TEXT),
    "pair": (pa.list_(pa.decimal128(3, 2), 2), [Decimal("1.10"), None], "[1.10,null]", TEXT),
    "view": (pa.list_view(pa.int32()), [1, None], "[1,null]", TEXT),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)], '{"k":1}', TEXT),
    "large_map": (pa.map_(pa.large_string(), pa.int64()), [("k", 1)], '{"k":1}', TEXT),
    "category_map": (pa.map_(pa.dictionary(pa.int8(), pa.string()), pa.int64()), [("k", 1)],
                     '{"k":1}', TEXT),
}  # fmt: skip


def parquet(path: Path, table: pa.Table, **how: Any) -> SourceFile:
    """A Parquet file as landing describes it."""
    pq.write_table(table, path, **how)
    with path.open("rb") as stream:
        schema = avro_schema(stream)
    return SourceFile(
        path.name, path.as_uri(), path.stat().st_size, container="parquet", avro_schema=schema
    )


def table_of(values: dict[str, tuple[pa.DataType, Any]]) -> pa.Table:
    """One row, with what it says about the change."""
    about = {name: pa.array([text]) for name, text in ABOUT.items()}
    typed = {name: pa.array([value], kind) for name, (kind, value) in values.items()}
    return pa.table(about | typed)


def test_parquet_values_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    values = {name: (kind, value) for name, (kind, value, _, _) in VALUES.items()}
    about = {"_execute_time_": (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC))}
    file = parquet(tmp_path / "a.parquet", table_of(values | about))
    row = DatahubTuple().read(spark, (file,), DEFAULTS).first()
    assert row is not None
    assert row["after"] == {name: text for name, (_, _, text, _) in VALUES.items()}
    assert row["source_ts"].replace(tzinfo=UTC) == MOMENT.replace(tzinfo=UTC)
    columns = DatahubTuple().columns(row["types"], DEFAULTS)
    assert {c.name: c.type for c in columns} == {n: kind for n, (_, _, _, kind) in VALUES.items()}


def test_old_timestamps_of_parquet(spark: SparkSession, tmp_path: Path) -> None:
    values = {"at": (pa.timestamp("us"), MOMENT)}
    file = parquet(tmp_path / "a.parquet", table_of(values), use_deprecated_int96_timestamps=True)
    row = DatahubTuple().read(spark, (file,), DEFAULTS).first()
    assert row is not None
    assert row["after"] == {"at": "2022-04-15T03:02:06.000001Z"}
    (column,) = DatahubTuple().columns(row["types"], DEFAULTS)
    assert column.type == ColumnType("timestamp")


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (pa.time64("ns"), 1, "time64[ns]"), (pa.float16(), None, "halffloat"),
        (pa.map_(pa.int8(), pa.int8()), [], "map with keys of int8"),
    ],
)  # fmt: skip
def test_a_type_that_nobody_can_read_stops_the_batch(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, value: Any, told: str
) -> None:
    """Also within another one; the message names the column and the type."""
    wrong = re.escape(f"column 'x' has the Parquet type {told}, which is not read")
    held = [
        (kind, value), (pa.list_(kind), [value]), (pa.struct([("a", kind)]), {"a": value}),
        (pa.map_(pa.string(), kind), [("a", value)]),
    ]  # fmt: skip
    for each in held:
        file = parquet(tmp_path / "odd.parquet", table_of({"v": (pa.int8(), 1), "x": each}))
        with pytest.raises(TerminalError, match=rf"odd\.parquet is no file of rows.*{wrong}"):
            DatahubTuple().read(spark, (file,), DEFAULTS)


def test_old_timestamps_in_a_group_stop_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    values = {"x": (pa.struct([("at", pa.timestamp("us"))]), {"at": MOMENT})}
    file = parquet(tmp_path / "odd.parquet", table_of(values), use_deprecated_int96_timestamps=True)
    with pytest.raises(TerminalError, match=r"'x' has the Parquet type int96 inside a group"):
        DatahubTuple().read(spark, (file,), DEFAULTS)


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [("xx", "has the column 'x' more than once"), (["x", ""], "without a name")],
)
def test_columns_with_indistinguishable_names_stop_the_batch(
    spark: SparkSession, tmp_path: Path, columns: Sequence[str], wrong: str
) -> None:
    """Of two of one name Spark reads one: the other's values would be lost without a word."""
    names = ["_operation_type_", "_source_table_", *columns]
    file = parquet(tmp_path / "odd.parquet", pa.table([["I"], ["t"], [1], [2]], names=names))
    with pytest.raises(TerminalError, match=rf"odd\.parquet.*{wrong}"):
        DatahubTuple().read(spark, (file,), DEFAULTS)


def test_later_full_load_by_a_typed_time_wins(spark: SparkSession, tmp_path: Path) -> None:
    """Whichever file is read first."""
    for name, months in {"later_last": (1, 6), "later_first": (6, 1)}.items():
        sandbox = Sandbox(spark, tmp_path / name, {
            "format": "datahub_tuple", "tables": {"t": {"key": ["id"]}},
        })  # fmt: skip
        for number, month in enumerate(months):
            read = datetime(2024, month, 1, tzinfo=UTC)
            rows = [record("I", "-1", id=n, v=f"{month}", _execute_time_=read) for n in range(6)]
            pq.write_table(pa.Table.from_pylist(rows), sandbox.landing / f"{number}.parquet")
        sandbox.load_landed()
        assert {row["v"] for row in sandbox.rows("t")} == {"6"}


def test_a_hint_for_texts_says_nothing_of_typed_values(spark: SparkSession, tmp_path: Path) -> None:
    """One batch, one row as JSON and one as Parquet, both of the same values."""
    hints = {"b": "binary[utf8]", "h": "binary[hex]", "at": "timestamp[us]"}
    table = {"key": ["id"], "columns": hints}
    sandbox = Sandbox(spark, tmp_path, {"format": "datahub_tuple", "tables": {"t": table}})
    micros = 1649991726000001
    sandbox.write("a.jsonl", [record("I", "1", id=1, b="hi", h="d35db7", at=micros)])
    at = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
    typed = record("I", "2", id=2, b=b"hi", h=b"\xd3\x5d\xb7", at=at)
    pq.write_table(pa.Table.from_pylist([typed]), sandbox.landing / "b.parquet")
    sandbox.load_landed()
    assert sandbox.quarantined() == []
    rows = {(row["b"], row["h"], row["at"]) for row in sandbox.rows("t")}
    assert rows == {(b"hi", b"\xd3\x5d\xb7", at)}
