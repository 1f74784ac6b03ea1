"""Huawei CDL JSON: columns and types by the message's schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.config.format_options import HuaweiCdlOptions
from sluice.types.columns import STRING, ColumnType, decimal
from spark_jobs.formats.huawei_cdl.decoder import HuaweiCdl
from spark_jobs.planning.descriptions import read_description
from tests.spark.cdl_messages import schema

DEFAULTS = HuaweiCdlOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]


def vendor(name: str, kind: str = "string", **parameters: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "field": "c", "parameters": parameters}


@pytest.mark.parametrize("image", ["data", "after", "before"])
def test_columns_come_from_the_schema_of_the_row(image: str) -> None:
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "int64", "optional": True, "field": "n", "default": 7},
    ]
    columns = HuaweiCdl().columns(json.dumps(schema(image, fields)), DEFAULTS)
    described = [(c.name, c.type, c.default) for c in columns]
    assert described == [("id", ColumnType("int"), None), ("n", ColumnType("bigint"), "7")]


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        (vendor("com.xxx.cdc.data.timestamp"), ColumnType("timestamp_ntz")),
        (vendor("com.huawei.cdc.data.Timestamp"), ColumnType("timestamp_ntz")),
        (vendor("com.xxx.cdc.data.timestamp", "int64"), ColumnType("bigint")),
        (vendor("com.xxx.cdc.data.Decimal"), STRING),
        (vendor("com.xxx.cdc.data.Decimal", scale="2"), decimal(38, 2)),
        (vendor("com.xxx.cdc.data.Decimal", scale="2", **{"connect.decimal.precision": "10"}),
         decimal(10, 2)),
        (vendor("com.xxx.cdc.data.Decimal", scale="-2"), STRING),
        (vendor("com.xxx.cdc.data.Decimal", scale="40"), STRING),
        (vendor("com.xxx.cdc.data.Decimal", scale="2", **{"connect.decimal.precision": "39"}),
         STRING),
        (vendor("com.xxx.cdc.data.Decimal", scale="5", **{"connect.decimal.precision": "3"}),
         STRING),
        (vendor("com.xxx.cdc.data.Geometry"), STRING),
        (vendor("org.apache.kafka.connect.data.Timestamp", "int64"),
         ColumnType("timestamp_ntz", "ms")),
        (vendor("org.apache.kafka.connect.data.Date", "int32"), ColumnType("date", "days")),
        (vendor("org.apache.kafka.connect.data.Decimal", "bytes", scale="2"),
         decimal(38, 2, "base64")),
        (vendor("io.debezium.time.ZonedTimestamp"), ColumnType("timestamp")),
        ({"type": "boolean", "field": "c"}, ColumnType("boolean")),
        ({"type": "bytes", "field": "c"}, ColumnType("binary", "base64")),
    ],
)  # fmt: skip
def test_types(field: dict[str, Any], kind: ColumnType) -> None:
    assert HuaweiCdl().columns(json.dumps(schema("data", [field])), DEFAULTS)[0].type == kind


@pytest.mark.parametrize(
    "types",
    [
        "[1]", "{", '{"fields": "x"}', '{"fields": [1]}', '{"fields": null}',
        json.dumps(schema("data", [{"type": "int32"}])),
        json.dumps(schema("data", [{"field": "id"}])),
        json.dumps(schema("data", [vendor("com.xxx.cdc.data.Decimal", scale="two")])),
        '{"fields": ' + "[" * 100_000,
    ],
)  # fmt: skip
def test_damaged_schema_describes_no_columns(types: str) -> None:
    assert read_description(HuaweiCdl(), types, DEFAULTS) == []
