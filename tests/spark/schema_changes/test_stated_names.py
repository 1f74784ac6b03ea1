"""Statements whose table is named as somebody typed it: they are of the table that has rows, in
whichever order the batches come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.ledger.column_log import recorded
from tests.spark.canal_messages import TYPES, message, row, statement
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

_INT8 = 20


def dts(number: int, operation: str, column: str, after: Any, name: str) -> dict[str, Any]:
    """A record of a PostgreSQL source, as printed."""
    fields = [{"name": name, "dataTypeNumber": _INT8} for name in ("id", column)]
    return {
        "id": number, "sourceTimestamp": 1772442000, "sourcePosition": "1@1", "sourceTxid": "0",
        "source": {"sourceType": "PostgreSQL", "version": "14"}, "operation": operation,
        "tags": {"pk_uk_info": '{"PRIMARY":["id"]}'}, "objectName": name,
        "fields": None if operation == "DDL" else fields, "beforeImages": None,
        "afterImages": after,
    }  # fmt: skip


def insert(number: int, column: str) -> dict[str, Any]:
    values = [{"Integer": {"precision": 8, "value": str(value)}} for value in (number, number * 10)]
    return dts(number, "INSERT", column, values, "pg.public.emp")


def alter(number: int, text: str) -> dict[str, Any]:
    return dts(number, "DDL", "", text, "pg")


OLD, RENAME, NEW = insert(1, "v"), alter(2, "alter table EMP rename column v to w"), insert(3, "w")


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([[OLD], [RENAME], [NEW]], id="as-it-happened", marks=pytest.mark.long),
        pytest.param([[RENAME], [NEW, OLD]], id="before-its-table"),
    ],
)
def test_dts_statement_that_names_only_its_database_is_followed(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batches: list[list[dict[str, Any]]],
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "dts_avro", "tables": {"public.emp": {}}})
    lake.driven(monkeypatch)
    lake.run_each(*batches)
    assert {r["id"]: (r["w"], r.get("v")) for r in lake.rows("emp")} == {
        1: (10, None),
        3: (30, None),
    }
    assert lake.agrees()


def test_canal_spells_a_table_as_its_statement_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = {"id": TYPES["id"], "w": TYPES["v"]}
    records = [
        {**statement("TRUNCATE", "TRUNCATE TABLE T"), "table": "T"},
        {**statement("ALTER", "ALTER TABLE T CHANGE v w varchar(50)"), "table": "T"},
        message("INSERT", {"id": "2", "w": "b"}, mysqlType=renamed),
    ]
    lake = Sandbox(spark, tmp_path, {"format": "canal", "tables": {"db.t": {}}}).driven(monkeypatch)
    lake.run_each([message("INSERT", row("1", "a"))], records)
    assert lake.rows("t") == [{"id": 2, "v": None, "w": "b"}]
    assert [one.source_table for one in recorded(lake.catalog, "p")] == ["db.t"]
    assert lake.agrees()
