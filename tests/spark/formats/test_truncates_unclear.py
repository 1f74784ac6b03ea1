"""A TRUNCATE that came as a statement whose table nobody can tell changes nothing, and is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.cdl_messages import BARE, v1
from tests.spark.sandbox import Sandbox, total
from tests.spark.shareplex_records import record

pytestmark = pytest.mark.spark


def statement(number: int, text: str, source: str, **tags: str) -> dict[str, Any]:
    """A record of DTS, as printed."""
    return {
        "id": number, "sourceTimestamp": 1772442000, "sourcePosition": "1@1", "sourceTxid": "0",
        "source": {"sourceType": source, "version": "19"}, "operation": "DDL", "tags": tags,
        "objectName": "db", "fields": None, "beforeImages": None, "afterImages": text,
    }  # fmt: skip


def test_dts_truncate_without_a_certain_table_is_ignored_and_reported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "dts_avro"})
    result = lake.load_records([
        statement(1, "-- nightly\n truncate table S.T", "Oracle"),
        statement(2, "TRUNCATE TABLE t_3", "DRDS", l_db_name="db", l_tb_name="t"),
        statement(3, "ALTER TABLE t TRUNCATE PARTITION p0", "MySQL"),
    ])  # fmt: skip
    assert total(result).ignored == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if "TRUNCATE" in line]
    assert [line.partition(": a TRUNCATE")[0] for line in lines] == ["db", "db.t"]


def test_canal_truncate_of_a_partition_or_without_a_table_is_ignored_and_reported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "canal"})
    named = {"database": "db", "table": "t"}
    result = lake.load_records([
        {"type": "ALTER", "sql": "ALTER TABLE t TRUNCATE PARTITION p0", **named},
        {"type": "QUERY", "sql": "TRUNCATE TABLE t NOWAIT", "database": "", "table": ""},
    ])  # fmt: skip
    assert total(result).ignored == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "TRUNCATE" in line]
    reported = [line.partition(": a TRUNCATE")[0] for line in lines]
    assert reported == ["an event without a table", "db.t"]


@pytest.mark.formats
def test_cdl_truncate_of_several_tables_or_of_a_partition_is_ignored_and_reported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "huawei_cdl"})
    result = lake.load_records([
        v1("DDL", **BARE, ddl="TRUNCATE TABLE t, u"),
        v1("DDL", **BARE, ddl="ALTER TABLE a TRUNCATE PARTITION p", TABLE_NAME="a"),
    ])  # fmt: skip
    assert total(result).ignored == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "TRUNCATE" in line]
    reported = [line.partition(": a TRUNCATE")[0] for line in lines]
    assert reported == ["public.a", "public.t"]


def test_shareplex_truncate_of_a_part_or_a_cluster_is_ignored_and_reported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "shareplex"})
    result = lake.load_records([
        record("ddl") | {"ddl": "alter table O.T truncate partition P"},
        record("ddl", table="O.U") | {"ddl": "truncate cluster O.C"},
    ])  # fmt: skip
    assert total(result).ignored == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "TRUNCATE" in line]
    assert [line.partition(": a TRUNCATE")[0] for line in lines] == ["O.T", "O.U"]


def test_tables_are_named_however_many_unclear_truncates_others_have(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "canal"})
    partition = {"type": "ALTER", "sql": "ALTER TABLE t TRUNCATE PARTITION p0", "database": "db"}
    lake.load_records(
        [*({**partition, "table": "a"} for _ in range(300)), {**partition, "table": "b"}]
    )
    lines = [line for line in capsys.readouterr().err.splitlines() if "TRUNCATE" in line]
    assert [line.partition(": a TRUNCATE")[0] for line in lines] == ["db.a", "db.b"]
