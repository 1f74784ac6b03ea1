"""How Connect's schemas, and Avro as Confluent's converter writes it, tell a list's elements."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.types.columns import STRING, ColumnType, element_of, is_code, listed
from spark_jobs.formats.common.connect import DECIMAL, VARIABLE_DECIMAL, connect_type
from spark_jobs.formats.debezium import connect_avro

SCALE = {"parameters": {"scale": "2"}}
AVRO_SCALE = {"connect.parameters": {"scale": "2", "connect.decimal.precision": "60"}}
ELEMENTS: dict[str, tuple[dict[str, Any], dict[str, Any], ColumnType]] = {
    # name: the same in Connect and in Avro, how an element is written
    DECIMAL: ({"type": "bytes", **SCALE}, {"type": "bytes", **AVRO_SCALE},
              ColumnType("string", "base64:2")),
    "io.debezium.time.Date": ({"type": "int32"}, {"type": "int"}, ColumnType("date", "days")),
    "io.debezium.time.MicroTimestamp": ({"type": "int64"}, {"type": "long"},
                                        ColumnType("timestamp_ntz", "us")),
    "io.debezium.time.IsoDate": ({"type": "string"}, {"type": "string"}, ColumnType("date")),
    "io.debezium.time.IsoTimestamp": ({"type": "string"}, {"type": "string"},
                                      ColumnType("timestamp_ntz")),
    VARIABLE_DECIMAL: ({"type": "struct"}, {"type": "record", "name": VARIABLE_DECIMAL,
                                            "fields": []}, ColumnType("string", "variable")),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTS)
def test_type_of_a_list_has_the_encoding_of_its_elements(name: str) -> None:
    connect, avro, kind = ELEMENTS[name]
    found = connect_type({"type": "array", "items": {"name": name, **connect}})
    assert (found, element_of(found)) == (listed(kind), kind)
    assert is_code(found) == bool(kind.encoding)
    items = {"connect.name": name, **avro}
    row = {"type": "record", "name": "R", "fields": [
        {"name": "l", "type": {"type": "array", "items": ["null", items]}}]}  # fmt: skip
    (field,) = connect_avro.row_schema("after", connect_avro.resolve([row], "here"))["fields"]
    assert connect_type(field) == found


@pytest.mark.parametrize("items", [
    None, "x", {}, {"type": "string"}, {"type": "bytes"}, {"type": "int64", "name": ["x"]},
    {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}},
    {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
])  # fmt: skip
def test_lists_of_other_elements_are_plain_text(items: Any) -> None:
    assert connect_type({"type": "array", "items": items}) == STRING


CONFLUENT = {"name": "MapEntry", "namespace": "io.confluent.connect.avro"}
MARK = {"connect.internal.type": "MapEntry"}


@pytest.mark.parametrize(("entry", "kind"), [
    (CONFLUENT, "map"), ({"name": "io.confluent.connect.avro.MapEntry"}, "map"),
    ({"name": "M", "namespace": "com.example"} | MARK, "map"),
    ({"name": "MapEntry", "namespace": "com.example"}, "array"), ({"name": "MapEntry"}, "array"),
])  # fmt: skip
def test_a_list_of_entries_is_a_map(entry: dict[str, str], kind: str) -> None:
    """Avro has no map whose keys are no texts; Confluent's AvroData writes a list of entries."""
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": "double"}]
    listed = {"type": "array", "items": {"type": "record", "fields": fields} | entry}
    row = {"type": "record", "name": "R", "fields": [{"name": "m", "type": listed}]}
    (field,) = connect_avro.row_schema("after", connect_avro.resolve([row], "here"))["fields"]
    assert (field["type"], connect_type(field)) == (kind, STRING)
