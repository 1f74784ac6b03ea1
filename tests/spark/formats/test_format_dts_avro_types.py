"""DTS Avro's numbers of types as column types."""

from __future__ import annotations

import json

import pytest

from sluice.config.format_options import DtsAvroOptions
from sluice.types.columns import ColumnType
from spark_jobs.formats.dts_avro.decoder import DtsAvro

DEFAULTS = DtsAvroOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]


def columns(source: str, numbers: list[int]) -> list[ColumnType]:
    fields = [{"name": f"c{n}", "dataTypeNumber": n} for n in numbers]
    found = DtsAvro().columns(json.dumps({"source": source, "fields": fields}), DEFAULTS)
    assert [c.name for c in found] == [f["name"] for f in fields]
    return [c.type for c in found]


def test_types_of_mysql() -> None:
    assert columns("MySQL", [1, 2, 9, 3, 13]) == [ColumnType(n) for n in (
        "int", "int", "int", "bigint", "int")]  # fmt: skip
    assert columns("DRDS", [8, 16]) == [ColumnType("decimal", "", 20, 0)] * 2
    assert columns("MySQL", [4, 5, 7, 17, 12, 18, 10, 14, 11, 19]) == [ColumnType(n) for n in (
        "float", "double", "timestamp", "timestamp", "timestamp_ntz", "timestamp_ntz", "date",
        "date", "time", "time")]  # fmt: skip
    texts = [0, 6, 15, 245, 246, 247, 248, 249, 250, 251, 252, 253, 254, 255, 999]
    assert set(columns("MySQL", texts)) == {ColumnType("string")}


def test_types_of_others() -> None:
    assert columns("PostgreSQL", [16, 21, 20, 701, 1114, 1184, 17]) == [
        ColumnType("boolean"), ColumnType("int"), ColumnType("bigint"), ColumnType("double"),
        ColumnType("timestamp_ntz"), ColumnType("timestamp"), ColumnType("binary", "base64"),
    ]  # fmt: skip
    assert columns("PPAS", [20, 1184]) == [ColumnType("bigint"), ColumnType("timestamp")]
    assert columns("PostgreSQL", [23, 26, 700, 1082, 1083]) == [ColumnType(n) for n in (
        "int", "bigint", "float", "date", "time")]  # fmt: skip
    assert columns("PostgreSQL", [1700, 25]) == [ColumnType("string")] * 2
    assert columns("Oracle", [2, 8]) == [ColumnType("string")] * 2
