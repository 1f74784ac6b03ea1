"""Senders of Canal JSON with ways of their own: Tencent's DTS, TiCDC and its storage sink."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.canal_messages import decode, message, row, rows_query, statement
from tests.spark.envelopes import at
from tests.spark.sandbox import Sandbox, total

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


def test_statements_beside_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Canal sends them if the server logs them, and MariaDB does so by default."""
    of_rows = {
        "replace": "REPLACE INTO t VALUES (1, 'a')", "update": " update t set v = 'add'",
        "delete": "/* app:1 */ -- x\nDELETE FROM t", "with": "WITH c AS (SELECT 1) DELETE FROM t",
        "load": "LOAD  DATA INFILE 'f' INTO TABLE t",
        "load_xml": "load xml infile 'f' into table t",
    }  # fmt: skip
    others = {
        "create": "CREATE TABLE u (id int)", "alter": "alter table t add c int",
        "named": "inserts", "empty": "",
    }  # fmt: skip
    records = {name: rows_query(sql) for name, sql in (of_rows | others).items()}
    records["unsaid"] = rows_query("INSERT INTO t VALUES (1, 'a')", isDdl=None)
    found = {name: many[0] for name, many in decode(spark, tmp_path, records).items()}
    assert {name: (r["outcome"], r["reason"], r["op"]) for name, r in found.items()} == {
        **dict.fromkeys([*of_rows, "unsaid"], ("ignore", "ROWS_QUERY", "ddl")),
        **dict.fromkeys(others, ("event", None, "ddl")),
    }


def test_more_statements_beside_their_rows_than_a_driver_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.decoding.ddl_comments._MOST", 1)
    monkeypatch.setattr("spark_jobs.decoding.ddl_columns._MOST", 1)
    sandbox = Sandbox(spark, tmp_path, {"format": "canal"})
    noted = [rows_query(f"INSERT INTO t (id, comment, `add`) VALUES ({n})") for n in range(2)]
    result = sandbox.load_records([*noted, message("INSERT", row("1", "a"))])
    assert [r["id"] for r in sandbox.rows("t")] == [1]
    assert total(result).ignored == len(noted)


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


def schema_file(version: int, query: str, **parts: Any) -> dict[str, Any]:
    """As TiCDC's storage sink writes a table's schema: after a statement with it, else without."""
    return {
        "Table": "t", "Schema": "db", "Version": 1, "TableVersion": version, "Query": query,
        "Type": 11 if query else 0, "TableColumnsTotal": 1,
        "TableColumns": [{"ColumnName": "id", "ColumnType": "BIGINT", "ColumnIsPk": "true"}],
        **parts,
    }  # fmt: skip


def test_schema_files_of_ticdc(spark: SparkSession, tmp_path: Path) -> None:
    version = 434919270523076621
    records = {
        "truncate": schema_file(version, "TRUNCATE TABLE `db`.`t`"),
        "rename": schema_file(version + 1, "ALTER TABLE t RENAME COLUMN v TO w"),
        "database": schema_file(version + 2, "CREATE DATABASE db", Table="", TableColumns=None),
        "definition": schema_file(version + 3, ""),
    }
    decoded = decode(spark, tmp_path, records, order="_tidb.commitTs")
    found = {name: many[0] for name, many in decoded.items()}
    assert {name: (r["outcome"], r["op"], r["reason"]) for name, r in found.items()} == {
        "truncate": ("event", "truncate", None), "rename": ("event", "ddl", None),
        "database": ("event", "ddl", None), "definition": ("ignore", None, "SCHEMA_FILE"),
    }  # fmt: skip
    truncate = found["truncate"]
    assert (truncate["database"], truncate["table"]) == ("db", "t")
    assert (truncate["position"], truncate["raw"]) == (at(version, 0), None)
    assert found["rename"]["ddl"] == "ALTER TABLE t RENAME COLUMN v TO w"
    # A timestamp of TiDB has milliseconds above 18 bits of a counter.
    assert truncate["source_ts"].timestamp() == (version // 2**18) / 1000
    for other in ("arrival", "offset"):
        (ignored,) = decode(spark, tmp_path, {"one": records["truncate"]}, order=other)["one"]
        assert (ignored["outcome"], ignored["reason"]) == ("ignore", "SCHEMA_FILE")


def test_rows_without_the_commit_that_orders_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """They would rank below every statement of a schema file."""
    records = {"without": message("INSERT", row("1", "a"))}
    (found,) = decode(spark, tmp_path, records, order="_tidb.commitTs")["without"]
    assert found["reason"] == "bad_order"


def test_rows_that_go_by_arrival_outlive_a_schema_file(spark: SparkSession, tmp_path: Path) -> None:
    """TiCDC's sink writes no commit by default: a TRUNCATE with one would be above all rows."""
    sandbox = Sandbox(spark, tmp_path, {"format": "canal"})
    sandbox.load_records([schema_file(200, "TRUNCATE TABLE t"), message("INSERT", row("1", "a"))])
    assert [r["id"] for r in sandbox.rows("t")] == [1]


@pytest.mark.parametrize("split", [False, True])
def test_rows_of_ticdcs_storage_sink(spark: SparkSession, tmp_path: Path, split: bool) -> None:
    """A TRUNCATE makes a version of the table: rows are in the folders of both versions."""
    landing = {"url": "landing", "pattern": "**/*.json"}
    options = {"format_options": {"order": "_tidb.commitTs"}, "landing": landing}
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", **options})
    folder = sandbox.landing / "db" / "t"

    def write(name: str, *records: dict[str, Any], indent: int | None = None) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        texts = [json.dumps(record, indent=indent) for record in records]
        (folder / name).write_bytes("\r\n".join(texts).encode())

    def inserted(commit: int, ident: str) -> dict[str, Any]:
        return message("INSERT", row(ident, "a"), _tidb={"commitTs": commit})

    write("meta/schema_100_0000000001.json", schema_file(100, ""), indent=4)
    write("meta/schema_200_0000000001.json", schema_file(200, "TRUNCATE TABLE t"), indent=4)
    write("200/CDC000001.json", inserted(201, "3"), inserted(300, "4"))
    if split:
        sandbox.load_landed()
    write("100/CDC000001.json", inserted(101, "1"), inserted(199, "2"))
    result = sandbox.load_landed()
    assert sorted(r["id"] for r in sandbox.rows("t")) == [3, 4]
    assert (sandbox.quarantined(), total(result).quarantined) == ([], 0)
