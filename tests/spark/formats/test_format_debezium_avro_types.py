"""Debezium in Avro: every Connect and semantic type, and values that were not sent."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import DebeziumOptions
from sluice.types.columns import ColumnType, decimal
from spark_jobs.formats.debezium import connect_avro
from spark_jobs.formats.debezium.decoder import Debezium
from tests.spark.avroevents import (
    GEOMETRY,
    PLACEHOLDER,
    VARIABLE,
    Schema,
    connect_decimal,
    container,
    decode,
    envelope,
    event,
    optional,
    semantic,
)

DEFAULTS = DebeziumOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]


def entries(value: Any, name: str = "") -> Schema:
    """A map as Confluent's AvroData writes it where the keys are no texts: its entry has one name,
    or that of a named map and a mark."""
    key = {"type": "int", "connect.type": "int16"}
    fields = [{"name": "key", "type": key}, {"name": "value", "type": value}]
    if not name:
        entry = {"type": "record", "name": "MapEntry", "namespace": "io.confluent.connect.avro"}
        return {"type": "array", "items": entry | {"fields": fields}}
    entry = {"type": "record", "name": name, "namespace": "com.example"}
    mark = {"connect.internal.type": "MapEntry"}
    return {"type": "array", "items": entry | {"fields": fields} | mark,
            "connect.name": f"com.example.{name}"}  # fmt: skip


def no_entries() -> Schema:
    """A list of records that have the fields of an entry of a map."""
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": "int"}]
    return {"type": "array", "items": {"type": "record", "name": "MapEntry",
                                       "namespace": "com.example", "fields": fields}}  # fmt: skip


SPARSE = {
    "type": "record", "name": "SparseDoubleVector", "namespace": "io.debezium.data",
    "fields": [{"name": "dimensions", "type": {"type": "int", "connect.type": "int16"}},
               {"name": "vector", "type": entries("double")}],
    "connect.name": "io.debezium.data.SparseDoubleVector",
}  # fmt: skip
DECIMAL_TEXT = "-12345678901234567890123456789012345678901.5"
TYPES: dict[str, tuple[Any, Any, str | None, ColumnType]] = {
    # name: Avro type, value, text, column
    "i8": ({"type": "int", "connect.type": "int8"}, -8, "-8", ColumnType("int")),
    "i16": ({"type": "int", "connect.type": "int16"}, 16, "16", ColumnType("int")),
    "i32": ("int", -(2**31), "-2147483648", ColumnType("int")),
    "i64": ("long", 2**63 - 1, "9223372036854775807", ColumnType("bigint")),
    "f32": ("float", 0.5, "0.5", ColumnType("float")),
    "f64": ("double", 0.1, "0.1", ColumnType("double")),
    "nan": ("double", float("nan"), "NaN", ColumnType("double")),
    "flag": ("boolean", True, "true", ColumnType("boolean")),
    "text": ("string", "\u00fc\0\n", "\u00fc\0\n", ColumnType("string")),
    "raw": ("bytes", b"\0\xff", "AP8=", ColumnType("binary", "base64")),
    "bits": (semantic("bytes", "io.debezium.data.Bits", **{"connect.parameters": {"length": "9"}}),
             b"\1\1", "AQE=", ColumnType("binary", "base64")),
    "dec": (connect_decimal(2, 10), Decimal("-1.50"), "/2o=", decimal(10, 2, "base64")),
    "dec_untold": (connect_decimal(3, None), Decimal("1.500"), "Bdw=", decimal(38, 3, "base64")),
    "dec_bare": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
                 Decimal("2.5"), "GQ==", decimal(9, 1, "base64")),
    "dec_wide": (connect_decimal(1, 50), Decimal(DECIMAL_TEXT), DECIMAL_TEXT, ColumnType("string")),
    "dec_negative": (semantic(
        "bytes", "org.apache.kafka.connect.data.Decimal",
        **{"connect.parameters": {"scale": "-2", "connect.decimal.precision": "3"}}),
        b"\5", "500", ColumnType("string")),
    "variable": (VARIABLE, {"scale": 2, "value": b"\xff\x6a"}, "-1.50",
                 ColumnType("string", "variable")),
    "variable_whole": ("io.debezium.data.VariableScaleDecimal", {"scale": -1, "value": b"\7"},
                       "70", ColumnType("string", "variable")),
    "variable_wide": ("io.debezium.data.VariableScaleDecimal",
                      {"scale": 1, "value": (10**50).to_bytes(22, "big")}, "1" + "0" * 49 + ".0",
                      ColumnType("string", "variable")),
    "day": (semantic("int", "io.debezium.time.Date"), 19000, "19000", ColumnType("date", "days")),
    "day_connect": (semantic("int", "org.apache.kafka.connect.data.Date", logicalType="date"),
                    -1, "-1", ColumnType("date", "days")),
    "time": (semantic("int", "io.debezium.time.Time"), 5, "5", ColumnType("time", "ms")),
    "time_connect": (semantic("int", "org.apache.kafka.connect.data.Time",
                              logicalType="time-millis"), 5, "5", ColumnType("time", "ms")),
    "time_us": (semantic("long", "io.debezium.time.MicroTime"), -3020399000000, "-3020399000000",
                ColumnType("time", "us")),
    "time_ns": (semantic("long", "io.debezium.time.NanoTime"), 7, "7", ColumnType("time", "ns")),
    "ts": (semantic("long", "io.debezium.time.Timestamp"), 1704164645678, "1704164645678",
           ColumnType("timestamp_ntz", "ms")),
    "ts_connect": (semantic("long", "org.apache.kafka.connect.data.Timestamp",
                            logicalType="timestamp-millis"), -62135596800000, "-62135596800000",
                   ColumnType("timestamp_ntz", "ms")),
    "ts_us": (semantic("long", "io.debezium.time.MicroTimestamp"), 1704164645678901,
              "1704164645678901", ColumnType("timestamp_ntz", "us")),
    "ts_ns": (semantic("long", "io.debezium.time.NanoTimestamp"), 1704164645678901234,
              "1704164645678901234", ColumnType("timestamp_ntz", "ns")),
    "ts_bare": ({"type": "long", "logicalType": "timestamp-micros"}, 1704164645678901,
                "1704164645678901", ColumnType("timestamp_ntz", "us")),
    "zoned": (semantic("string", "io.debezium.time.ZonedTimestamp"), "2024-01-02T03:04:05.1Z",
              "2024-01-02T03:04:05.1Z", ColumnType("timestamp")),
    "zoned_time": (semantic("string", "io.debezium.time.ZonedTime"), "03:04:05Z", "03:04:05Z",
                   ColumnType("string")),
    "year": (semantic("int", "io.debezium.time.Year"), 2024, "2024", ColumnType("int")),
    "enum": (semantic("string", "io.debezium.data.Enum",
                      **{"connect.parameters": {"allowed": "a,b"}}), "b", "b",
             ColumnType("string")),
    "avro_enum": ({"type": "enum", "name": "E", "symbols": ["x", "y"]}, "y", "y",
                  ColumnType("string")),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"ab", "YWI=",
              ColumnType("binary", "base64")),
    "json": (semantic("string", "io.debezium.data.Json"), '{"a": 1.10}', '{"a": 1.10}',
             ColumnType("string")),
    "list": ({"type": "array", "items": ["null", "long"]}, [2**53 + 1, None],
             "[9007199254740993,null]", ColumnType("string")),
    "list_bytes": ({"type": "array", "items": "bytes"}, [b"a"], '["YQ=="]', ColumnType("string")),
    "map": ({"type": "map", "values": ["null", "string"]}, {"k": None}, '{"k":null}',
            ColumnType("string")),
    "geometry": (GEOMETRY, {"wkb": b"\1\2", "srid": None}, '{"wkb":"AQI=","srid":null}',
                 ColumnType("string")),
    "map_of_numbers": (entries(["null", "string"], "OfTexts"),
                       [{"key": 2, "value": 'a"}'}, {"key": 1, "value": None}],
                       r'[[2,"a\"}"],[1,null]]', ColumnType("string")),
    "map_of_none": (entries("long", "OfLongs"), [], "[]", ColumnType("string")),
    "map_of_lists": (entries({
        "type": "array", "items": "io.debezium.data.geometry.Geometry"}, "OfLists"),
                     [{"key": 1, "value": [{"wkb": b"\1\2", "srid": None}]}],
                     '[[1,[{"wkb":"AQI=","srid":null}]]]', ColumnType("string")),
    "sparse": (SPARSE, {"dimensions": 5, "vector": [{"key": 1, "value": 1.0},
                                                    {"key": 3, "value": 2.5}]},
               '{"dimensions":5,"vector":[[1,1.0],[3,2.5]]}', ColumnType("string")),
    "map_again": ({"type": "array", "items": "io.confluent.connect.avro.MapEntry"},
                  [{"key": 1, "value": 1.5}], "[[1,1.5]]", ColumnType("string")),
    "list_of_records": (no_entries(), [{"key": 1, "value": 2}], '[{"key":1,"value":2}]',
                        ColumnType("string")),
    "union": (["null", "string", "boolean"], False, "false", ColumnType("string")),
    "gone": (["null", "long"], None, None, ColumnType("bigint")),
}  # fmt: skip


@pytest.fixture(scope="module")
def typed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Row:
    schema = envelope({name: kind for name, (kind, *_) in TYPES.items()})
    row = {name: value for name, (_, value, *_) in TYPES.items()}
    file = container(tmp_path_factory.mktemp("types") / "t.avro", schema, [event(row=row)])
    (found,) = decode(spark, file)
    return found


@pytest.mark.parametrize("name", list(TYPES))
def test_types_and_exact_texts(typed: Row, name: str) -> None:
    columns = {c.name: c for c in Debezium().columns(typed["types"], DEFAULTS)}
    assert (typed["after"][name], columns[name].type) == TYPES[name][2:]
    assert list(columns) == list(TYPES)
    assert set(typed["after"]) == set(TYPES)


def test_a_wide_row_of_decimals_of_any_scale(spark: SparkSession, tmp_path: Path) -> None:
    """Every number of Oracle's is one: the long way to its text must not be in the plan often."""
    names = [f"n{i}" for i in range(200)]
    kinds = [VARIABLE] + [f"{VARIABLE['namespace']}.{VARIABLE['name']}"] * 199
    schema = envelope({"id": {"type": "int"}} | dict(zip(names, kinds, strict=True)))
    row = {"id": 1} | {n: {"scale": 1, "value": bytes([i % 128])} for i, n in enumerate(names)}
    (found,) = decode(spark, container(tmp_path / "w.avro", schema, [event("u", row, before=row)]))
    assert found["after"]["n127"] == found["before"]["n127"] == "12.7"
    assert set(found["after"]) == {"id", *names}


def test_defaults() -> None:
    row = {"type": "record", "name": "Value", "fields": [
        {"name": "id", "type": {"type": "int", "connect.default": 5}},
        {"name": "b", **optional({"type": "bytes", "connect.default": "\u00ff"})}]}  # fmt: skip
    node = connect_avro.resolve([row], "here")
    types = json.dumps({"fields": [connect_avro.row_schema("after", node)]})
    defaults = [(c.name, c.default) for c in Debezium().columns(types, DEFAULTS)]
    assert defaults == [("id", "5"), ("b", "/w==")]


def test_defaults_of_decimals_that_are_read_as_text() -> None:
    """`ADD COLUMN v numeric NOT NULL DEFAULT 5`: two columns of one named type, each its own."""
    wide, name = connect_decimal(1, 50), "io.debezium.data.VariableScaleDecimal"
    row = {"type": "record", "name": "Value", "fields": [
        {"name": "first", "type": VARIABLE, "default": {"scale": 0, "value": "\u0005"}},
        {"name": "second", "type": [name, "null"], "default": {"scale": 2, "value": "\u00ffj"}},
        {"name": "none", **optional(name)}, {"name": "untold", "type": name},
        {"name": "wide", "type": wide, "default": "\u000f"},
        {"name": "zero", "type": [wide, "null"], "default": "\u0000"},
        {"name": "open", **optional(wide)},
        {"name": "odd", "type": name, "default": {"scale": 2**31 - 1, "value": "\u0005"}},
    ]}  # fmt: skip
    node = connect_avro.resolve([row], "here")
    types = json.dumps({"fields": [connect_avro.row_schema("after", node)]})
    defaults = {c.name: c.default for c in Debezium().columns(types, DEFAULTS)}
    assert defaults == {
        "first": "5", "second": "-1.50", "none": None, "untold": None, "wide": "1.5",
        "zero": "0.0", "open": None, "odd": None,
    }  # fmt: skip


def test_names_resolve_in_their_namespace() -> None:
    """Two types of one short name, each used again by a name that only its namespace makes full."""

    def pair(name: str, kind: str, namespace: str) -> Schema:
        inner = {"type": "record", "name": "T", "fields": [{"name": kind, "type": kind}]}
        fields = [{"name": "one", "type": inner}, {"name": "two", "type": "T"}]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}

    both = {"type": "record", "name": "Both", "fields": [
        {"name": "a", "type": pair("P", "int", "a")}, {"name": "b", "type": pair("P", "long", "b")},
        {"name": "again", "type": "a.T"}]}  # fmt: skip
    written = connect_avro.writer_schema(connect_avro.resolve([both], "here"))
    fields = {f["name"]: f["type"] for f in written["fields"]}
    assert [f["type"] for f in fields["b"]["fields"]][1] == "b.T"
    assert fields["again"] == "a.T"
    fastavro.parse_schema(written)


def test_values_that_were_not_sent(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "id": {"type": "int"},
        "t": optional("string"),
        "b": optional("bytes"),
        "l": optional({"type": "array", "items": "string"}),
        "i": optional({"type": "array", "items": ["null", "int"]}),
        "y": optional({"type": "array", "items": "bytes"}),
        "h": optional({"type": "map", "values": ["null", "string"]}),
        "n": optional("string"),
    }
    text = PLACEHOLDER.decode()
    row = {"id": 1, "t": text, "b": PLACEHOLDER, "l": [text], "i": list(PLACEHOLDER),
           "y": [PLACEHOLDER], "h": {text: text}, "n": None}  # fmt: skip
    file = container(tmp_path / "p.avro", envelope(columns), [event("u", row), event("u", row | {
        "t": "x", "b": b"y", "l": [], "i": [], "y": [], "h": {}})])  # fmt: skip
    absent = ["t", "b", "l", "i", "y", "h"]
    assert [r["absent"] for r in decode(spark, file)] == [absent, None]
    assert [r["absent"] for r in decode(spark, file, unavailable_value="x")] == [None, ["t"]]
