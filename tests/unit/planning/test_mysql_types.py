"""MySQL's type names as column types."""

from __future__ import annotations

import pytest

from sluice.types.columns import ColumnType, decimal
from sluice.types.mysql import is_known, mysql_type


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int(11)", ColumnType("int")), ("INT", ColumnType("int")),
        ("INTEGER", ColumnType("int")), ("int(10) unsigned", ColumnType("bigint")),
        ("INT UNSIGNED ZEROFILL", ColumnType("bigint")), ("int zerofill", ColumnType("bigint")),
        ("tinyint(1)", ColumnType("int")), ("boolean", ColumnType("int", "boolean")),
        ("smallint(5) unsigned", ColumnType("int")), ("mediumint", ColumnType("int")),
        ("year(4)", ColumnType("int")), ("bigint(20)", ColumnType("bigint")),
        ("BIGINT(20) UNSIGNED", decimal(20, 0)), ("unsigned bigint", decimal(20, 0)),
        ("serial", decimal(20, 0)), ("bit(1)", ColumnType("bigint")),
        ("bit(63)", ColumnType("bigint")), ("bit(64)", decimal(20, 0)), ("bit", decimal(20, 0)),
        ("decimal(10,2)", decimal(10, 2)), ("DECIMAL(8, 3) unsigned", decimal(8, 3)),
        ("numeric(5)", decimal(5, 0)), ("decimal", ColumnType("string")),
        ("decimal(65,30)", ColumnType("string")), ("float", ColumnType("float")),
        ("float(7,4)", ColumnType("float")), ("float(53)", ColumnType("double")),
        ("float(24)", ColumnType("float")), ("float(25)", ColumnType("double")),
        ("float(30,2)", ColumnType("float")), ("decimal(5,6)", ColumnType("string")),
        ("double(10,2)", ColumnType("double")), ("double precision", ColumnType("double")),
        ("date", ColumnType("date")), ("time(3)", ColumnType("time")),
        ("datetime(6)", ColumnType("timestamp_ntz")),
        ("timestamp", ColumnType("timestamp_ntz")), ("varchar(50)", ColumnType("string")),
        ("enum('unsigned','b')", ColumnType("string")), ("set('a','b')", ColumnType("string")),
        ("json", ColumnType("string")), ("longtext", ColumnType("string")),
        ("varbinary(10)", ColumnType("binary", "latin1", most=10)),
        ("VARBINARY", ColumnType("binary", "latin1")),
        ("binary(16)", ColumnType("binary", "latin1", width=16)),
        ("BINARY", ColumnType("binary", "latin1")),
        ("MEDIUMBLOB", ColumnType("binary", "latin1")),
        ("geometry", ColumnType("binary", "latin1")), ("", ColumnType("string")),
        ("?", ColumnType("string")), ("INT1 unsigned", ColumnType("int")),
        ("int2", ColumnType("int")), ("int3", ColumnType("int")), ("MIDDLEINT", ColumnType("int")),
        ("int4", ColumnType("int")), ("int4(11)", ColumnType("int")),
        ("int4 unsigned", ColumnType("bigint")), ("int8", ColumnType("bigint")),
        ("int8 unsigned", decimal(20, 0)), ("float4", ColumnType("float")),
        ("float8", ColumnType("double")), ("long", ColumnType("string")),
        ("long varchar", ColumnType("string")), ("LONG", ColumnType("string")),
        ("LONG  VARBINARY", ColumnType("binary", "latin1")),
    ],
)  # fmt: skip
def test_mysql_types(text: str, kind: ColumnType) -> None:
    assert mysql_type(text) == kind


@pytest.mark.parametrize(
    ("text", "known"),
    [("int8", True), ("middleint", True), ("long varbinary", True), ("number", False),
     ("", False)],
)  # fmt: skip
def test_known_and_unknown_type_names(text: str, known: bool) -> None:
    assert is_known(text) is known
