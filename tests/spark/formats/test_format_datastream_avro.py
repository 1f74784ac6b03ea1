"""Datastream Avro: the exact text and the type of every value, many schemas in a batch."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import DatastreamOptions
from sluice.errors import TerminalError
from sluice.manifest import SourceFile
from sluice.types.columns import ColumnType, decimal
from spark_jobs.canonical import ENVELOPE
from spark_jobs.formats.datastream import Datastream
from spark_jobs.values import decode
from tests.spark.datastream_events import avro_file, event
from tests.spark.envelopes import at, by_name, envelope_columns, jsonl
from tests.spark.sandbox import Sandbox

DEFAULTS = DatastreamOptions()
pytestmark = pytest.mark.spark


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name} | more


TZ = {"type": "record", "name": "timestampTz", "fields": [
    {"name": "timestamp", "type": logical("long", "timestamp-micros")},
    {"name": "offset", "type": logical("int", "time-millis")}]}  # fmt: skip
VARCHAR = {"type": "record", "name": "varchar", "fields": [
    {"name": "value", "type": "string"}, {"name": "length", "type": "int"}]}  # fmt: skip
AT_FIELD = {"type": "record", "name": "timestampTz", "fields": [
    {"name": "timestamp"} | logical("long", "timestamp-micros"),
    {"name": "offset"} | logical("int", "time-millis")]}  # fmt: skip
LOCAL = {"type": "record", "name": "datetime", "fields": [
    {"name": "date"} | logical("int", "date"),
    {"name": "time"} | logical("long", "time-micros")]}  # fmt: skip
DAY = {"type": "record", "name": "calendarDate", "fields": [
    {"name": name, "type": "int"} for name in ("year", "month", "day")]}  # fmt: skip
YEAR = {"type": "record", "name": "year", "fields": [{"name": "year", "type": "int"}]}
WIDE = Decimal("-12345678901234567890123456789012345.123456789012345678901234567890")
# name: (type, value as written, exact text, type of the column)
VALUES: dict[str, tuple[Any, Any, str, ColumnType]] = {
    "id": ("int", 1, "1", ColumnType("int")),
    "long": ("long", -(2**63), "-9223372036854775808", ColumnType("bigint")),
    "float": ("float", 45.67, "45.67", ColumnType("float")),
    "double": ("double", 0.1, "0.1", ColumnType("double")),
    "boolean": ("boolean", True, "true", ColumnType("boolean")),
    "text": (logical("string", "varchar", length=9), "é\n", "é\n", ColumnType("string")),
    "number": (logical("string", "number"), "1" * 50 + ".10", "1" * 50 + ".10",
               ColumnType("string")),
    "json": (logical("string", "Json"), '{"a": 1.10}', '{"a": 1.10}', ColumnType("string")),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B", ColumnType("string")),
    "bytes": ("bytes", b"\x00\xff", "AP8=", ColumnType("binary", "base64")),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, b"\x01\x02", "AQI=",
              ColumnType("binary", "base64")),
    "decimal": (logical("bytes", "decimal", precision=10, scale=2), Decimal("-456.10"), "-456.10",
                decimal(10, 2)),
    "wide": (logical("bytes", "decimal", precision=65, scale=30), WIDE, str(WIDE),
             ColumnType("string")),
    "wide_zero": (logical("bytes", "decimal", precision=65, scale=3), Decimal("0.000"), "0.000",
                  ColumnType("string")),
    "wide_minus_one": (logical("bytes", "decimal", precision=40), Decimal(-1), "-1",
                       ColumnType("string")),
    "wide_step": (logical("bytes", "decimal", precision=40), Decimal(-(2**64)),
                  str(-(2**64)), ColumnType("string")),
    "date": (logical("int", "date"), -1, "1969-12-31", ColumnType("date")),
    "micros": (logical("long", "timestamp-micros"), 1704164645678901,
               "2024-01-02T03:04:05.678901Z", ColumnType("timestamp")),
    "before_1970": (logical("long", "timestamp-micros"), -1,
                    "1969-12-31T23:59:59.999999Z", ColumnType("timestamp")),
    "infinity": (logical("long", "timestamp-micros"), 9223372036825200000,
                 "+294247-01-10T04:00:25.200000Z", ColumnType("timestamp")),
    "millis": (logical("long", "timestamp-millis"), 1704164645678,
               "2024-01-02T03:04:05.678000Z", ColumnType("timestamp")),
    "millis_first": (logical("long", "timestamp-millis"), -62135596800000,
                     "0001-01-01T00:00:00.000000Z", ColumnType("timestamp")),
    "millis_beyond": (logical("long", "timestamp-millis"), 2**63 - 1, str(2**63 - 1),
                      ColumnType("timestamp")),
    "local_beyond": (logical("long", "local-timestamp-millis"), -(2**63), str(-(2**63)),
                     ColumnType("timestamp_ntz")),
    "local": (logical("long", "local-timestamp-micros"), 1704164645678901,
              "2024-01-02T03:04:05.678901", ColumnType("timestamp_ntz")),
    "time": (logical("long", "time-micros"), 86400000000, "24:00:00", ColumnType("time")),
    "interval": (logical("long", "time-interval-micros"), -1, "-1", ColumnType("bigint")),
    "tz": (TZ, {"timestamp": 1665671400000056, "offset": -18000000},
           '{"timestamp":"2022-10-13T14:30:00.000056Z","offset":"-05:00:00"}',
           ColumnType("string")),
    "varchar": (VARCHAR, {"value": "v", "length": 3}, '{"value":"v","length":3}',
                ColumnType("string")),
    "again": ("varchar", {"value": "w", "length": 3}, '{"value":"w","length":3}',
              ColumnType("string")),
    "list": ({"type": "array", "items": ["null", "long"]}, [1, None], "[1,null]",
             ColumnType("string")),
    "either": (["null", "string", "long"], 7, "7", ColumnType("string")),
    "dotted": ("string", "x", "x", ColumnType("string")),
}  # fmt: skip


def raw_values() -> dict[str, Any]:
    """The values as fastavro has to get them: numbers for what has a logical type."""
    return {name: value for name, (_, value, _, _) in VALUES.items()}


def optional(kind: Any) -> Any:
    return kind if isinstance(kind, list) else ["null", kind]


@pytest.fixture(scope="module")
def avro_rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """A row with every type and one with nothing but its key; a second schema beside it."""
    folder = tmp_path_factory.mktemp("avro")
    fields = [{"name": n, "type": optional(kind)} for n, (kind, *_) in VALUES.items()]
    full = avro_file(folder / "full.avro", fields, [raw_values(), {"id": 2}])
    other = avro_file(folder / "other.avro", [{"name": "id", "type": "long"}], [{"id": 3}])
    lines = jsonl(folder / "lines.jsonl", [event({"id": 4})])
    decoded = Datastream().read(spark, (full, lines, other), DEFAULTS)
    assert envelope_columns(decoded) == list(ENVELOPE)
    return by_name(decoded.collect(), lambda row: row["after"]["id"])


def test_a_time_of_change_is_in_the_unit_of_its_type(spark: SparkSession, tmp_path: Path) -> None:
    fields, micros = [{"name": "id", "type": "long"}], 1704164645678901
    file = avro_file(tmp_path / "t.avro", fields, [{"id": 1}], micros, "timestamp-micros")
    (row,) = Datastream().read(spark, (file,), DEFAULTS).collect()
    assert row["source_ts"].timestamp() == 1704164645.678901


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2024-01-02T03:04:05.678Z", 1704164645.678), ("1704164645678", 1704164645.678),
     ("03:04:05-05:00", None)],
)  # fmt: skip
def test_a_time_of_change_as_a_text_is_read_as_in_json(
    spark: SparkSession, tmp_path: Path, text: str, seconds: float | None
) -> None:
    fields: list[Any] = [{"name": "id", "type": "long"}]
    avro, lines = tmp_path / "t.avro", tmp_path / "t.jsonl"
    files = (
        avro_file(avro, fields, [{"id": 1}], text, unit=""),
        jsonl(lines, [event({"id": 1}, top={"source_timestamp": text})]),
    )
    for row in Datastream().read(spark, files, DEFAULTS).collect():
        assert (row["source_ts"] and row["source_ts"].timestamp()) == seconds


def test_one_batch_holds_files_of_many_schemas(avro_rows: dict[str, Row]) -> None:
    assert {r["table"] for r in avro_rows.values()} == {"full", "other", "t"}
    assert avro_rows["2"]["position"] == at(9, 1)
    assert avro_rows["1"]["key"] == ["id"]
    assert avro_rows["1"]["source_ts"].timestamp() == 1704164645.678
    assert avro_rows["4"]["types"] is None


@pytest.mark.parametrize("name", VALUES)
def test_avro_values(avro_rows: dict[str, Row], name: str) -> None:
    _, _, text, kind = VALUES[name]
    assert avro_rows["1"]["after"][name] == text
    types = {c.name: c for c in Datastream().columns(avro_rows["1"]["types"], DEFAULTS)}
    assert types[name].type == kind
    if name != "id":
        assert avro_rows["2"]["after"][name] is None


@pytest.mark.parametrize("name", ["millis_beyond", "local_beyond"])
def test_invalid_avro_times_do_not_fit(
    spark: SparkSession, avro_rows: dict[str, Row], name: str
) -> None:
    value = decode(F.lit(avro_rows["1"]["after"][name]), VALUES[name][3])
    assert spark.range(1).select(value.isNull()).first() == (True,)


def test_times_beyond_what_spark_holds_end_no_batch(spark: SparkSession, tmp_path: Path) -> None:
    """A value is quarantined with its row; the time of the event is passed over."""
    sandbox = Sandbox(spark, tmp_path, {"format": "datastream"})
    fields = [{"name": "id", "type": "int"}, {"name": "at", "type": VALUES["millis"][0]}]
    rows = [{"id": 1, "at": 0}, {"id": 2, "at": 2**62}]
    avro_file(sandbox.landing / "t.avro", fields, rows, changed_at=2**62)
    result = sandbox.stage_manifest(sandbox.land())
    sandbox.publish(result)
    assert [row["id"] for row in sandbox.rows("t")] == [1]
    (bad,) = sandbox.quarantined()
    assert (bad["reason"], bad["detail"], bad["file"], bad["record"]) == (
        "does_not_fit", f"at: '{2**62}' does not fit timestamp", "t.avro", 2
    )  # fmt: skip
    assert json.loads(bad["raw"])["after"] == {"id": "2", "at": str(2**62)}


def test_a_required_column_has_its_type(avro_rows: dict[str, Row]) -> None:
    columns = Datastream().columns(avro_rows["3"]["types"], DEFAULTS)
    assert [(c.name, c.type.name) for c in columns] == [("id", "bigint")]


def test_records_as_values(spark: SparkSession, tmp_path: Path) -> None:
    """The vendor's page has the logical types of some records at their fields."""
    kinds = {
        "id": VARCHAR, "at": optional(AT_FIELD), "local": LOCAL, "day": DAY,
        "none": ["null", "datetime"], "no_day": ["null", "calendarDate"], "year": YEAR,
    }  # fmt: skip
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    day = {"year": 2024, "month": 1, "day": 2}
    rows = [{"id": {"value": "a", "length": 1}, "at": VALUES["tz"][1],
             "local": {"date": 19724, "time": 11045678901}, "day": day, "none": None,
             "no_day": None, "year": {"year": 2024}}]  # fmt: skip
    file = avro_file(tmp_path / "e.avro", fields, rows)
    options = DatastreamOptions(records="value")
    row = Datastream().read(spark, (file,), options).first()
    assert row is not None
    assert row["after"] == {
        "id": "a", "at": "2022-10-13T14:30:00.000056Z", "local": "2024-01-02T03:04:05.678901",
        "day": "2024-01-02", "none": None, "no_day": None, "year": "2024",
    }  # fmt: skip
    assert [c.type.name for c in Datastream().columns(row["types"], options)] == [
        "string", "timestamp", "timestamp_ntz", "date", "timestamp_ntz", "date", "int",
    ]  # fmt: skip


def test_another_avro_file_is_refused_by_name(spark: SparkSession) -> None:
    schema = '{"type": "record", "name": "x", "fields": [{"name": "a", "type": "int"}]}'
    file = SourceFile("in/x.avro", "file:///x.avro", 1, container="avro", avro_schema=schema)
    with pytest.raises(TerminalError, match=r"in/x\.avro is not a Datastream Avro file"):
        Datastream().read(spark, (file,), DEFAULTS)


def test_a_hint_for_texts_says_nothing_of_avro(spark: SparkSession, tmp_path: Path) -> None:
    """MySQL's DATE and DATETIME are microseconds in Avro; JSON beside it has numbers and hex."""
    hints = {"d": "date[us]", "t": "timestamp_ntz[us]", "clock": "time[us]", "b": "binary[hex]"}
    table = {"key": ["id"], "columns": hints}
    sandbox = Sandbox(spark, tmp_path, {"format": "datastream", "tables": {"t": table}})
    day, at, clock = 1704153600000000, 1704164645678901, 11045678901
    micros, time = logical("long", "timestamp-micros"), logical("long", "time-micros")
    kinds = {"id": "int", "d": micros, "t": micros, "clock": time, "b": "bytes"}
    row = {"id": 1, "d": day, "t": at, "clock": clock, "b": b"\xd3\x5d"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    avro_file(sandbox.landing / "t.avro", fields, [row])
    sandbox.write("t.jsonl", [event(row | {"id": 2, "b": "d35d"})])
    sandbox.load_landed()
    assert sandbox.quarantined() == []
    found = {(str(r["d"]), str(r["t"]), r["clock"], bytes(r["b"])) for r in sandbox.rows("t")}
    assert found == {
        ("2024-01-02", "2024-01-02 03:04:05.678901", "03:04:05.678901", b"\xd3\x5d")
    }  # fmt: skip
    assert len(sandbox.rows("t")) == 2
