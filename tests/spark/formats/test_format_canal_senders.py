"""Senders of Canal JSON with ways of their own: Tencent's DTS, TiCDC and its storage sink."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.canal_messages import decode, message, statement
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.formats]
BYTES = {"id": "bigint(20)", "fixed": "binary(4)", "vary": "varbinary(3)", "at": "timestamp"}


def in_hex(ident: str, fixed: str, vary: str) -> dict[str, Any]:
    return {"id": ident, "fixed": fixed, "vary": vary, "at": "2021-05-17 07:22:42 +00:00"}


def of_dts(*data: dict[str, Any]) -> dict[str, Any]:
    """As Tencent's page on Canal JSON has it: bytes in hexadecimal, no `sqlType`."""
    return message("INSERT", *data, mysqlType=BYTES, sqlType={})


def test_bytes_of_tencent_dts(spark: SparkSession, tmp_path: Path) -> None:
    hints = {"fixed": "binary[hex]", "vary": "binary[hex]"}
    pipeline = {"format": "canal", "tables": {"db.t": {"columns": hints}}}
    sandbox = Sandbox(spark, tmp_path, pipeline)
    sandbox.load_records([of_dts(in_hex("1", "00ff", "616263"), in_hex("2", "01020304", ""))])
    rows = {r["id"]: (r["fixed"], r["vary"], r["at"]) for r in sandbox.rows("t")}
    moment = datetime(2021, 5, 17, 7, 22, 42)
    assert rows == {
        1: (b"\x00\xff\x00\x00", b"abc", moment),
        2: (b"\x01\x02\x03\x04", b"", moment),
    }


def test_bytes_that_no_column_of_the_source_holds(spark: SparkSession, tmp_path: Path) -> None:
    """Hexadecimal digits without a hint, as one character a byte: more than the column may have."""
    sandbox = Sandbox(spark, tmp_path, {"format": "canal"})
    sandbox.load_records([of_dts(
        in_hex("1", "a0a1a2a3", "abc"), in_hex("2", "abcd", "616263"), in_hex("3", "abcd", "abc"),
    )])  # fmt: skip
    assert [r["id"] for r in sandbox.rows("t")] == [3]
    assert sorted((d["reason"], d["detail"]) for d in sandbox.quarantined()) == [
        ("does_not_fit", "fixed: 'a0a1a2a3' does not fit binary(4)[latin1]"),
        ("does_not_fit", "vary: '616263' does not fit binary(3)[latin1]"),
    ]


def test_statements_of_dts_that_empty_the_table_of_the_message(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = {
        "other": statement("DDL", "TRUNCATE TABLE u"),
        "two": statement("DDL", "TRUNCATE TABLE t, u"),
        "commented": statement("DDL", "/* c */ TRUNCATE TABLE db.`t` -- all\n;"),
        "unnamed": {**statement("DDL", "TRUNCATE TABLE t"), "table": ""},
    }
    found = {name: many[0] for name, many in decode(spark, tmp_path, records).items()}
    assert {name: (r["op"], r["reason"]) for name, r in found.items()} == {
        "other": ("ddl", None), "two": ("ddl", None), "commented": ("truncate", None),
        "unnamed": ("ddl", None),
    }  # fmt: skip


def test_a_message_that_ticdc_stored_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    elsewhere = {"commitTs": 5, "claimCheckLocation": "s3://b/o"}
    records = {
        "stored": {"_tidb": {"claimCheckLocation": "s3://b/o"}},
        "named": message("INSERT", _tidb=elsewhere),
        "nowhere": {"_tidb": {"claimCheckLocation": ""}},
    }
    found = decode(spark, tmp_path, records)
    assert {name: many[0]["reason"] for name, many in found.items()} == {
        "stored": "row_not_sent", "named": "row_not_sent", "nowhere": "not_an_envelope",
    }  # fmt: skip
