"""Connectors that write as Debezium does, but name no connector: DataArts, oracdc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import DebeziumOptions
from spark_jobs.formats.debezium.decoder import Debezium
from tests.spark.envelopes import jsonl, table_name
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark


def of_dataarts(table: str, op: str, **fields: Any) -> dict[str, Any]:
    """A change as in "Debezium-JSON" of the manual of Huawei's DataArts Studio."""
    key = "dlf_job_id" if table == "beats" else "id"
    source = {
        "name": "mysql_binlog_source", "db": "shop", "table": table, "pkNames": [key],
        "sqlType": {key: -5}, "mysqlType": {key: "BIGINT(20)"},
    }  # fmt: skip
    images = {"before": None, "after": None}
    return images | {"source": source, "op": op, "ts_ms": 1768987487616} | fields


def of_oracdc(owner: str, op: str, **images: Any) -> dict[str, Any]:
    """A change as in oracdc's samples of messages in Debezium's style."""
    source = {
        "instance_number": 1, "version": "12.1.0.2.0", "database_name": "EBSDB", "query": None,
        "owner": owner, "table": "DEPT", "scn": 12204753723754, "ts_ms": 1580464499942,
    }  # fmt: skip
    return {"op": op, "ts_ms": 1580465954805, "before": {"DEPTNO": 50}, "source": source} | images


def test_heartbeats_of_dataarts_are_no_changes_and_its_key_is_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In a second batch too, which is read as the first one told."""
    lake = Sandbox(spark, tmp_path, {"format": "debezium"})
    beat = of_dataarts("beats", "u", after={"dlf_job_id": "7"}, isHeartbeat=True)
    row, moved = {"id": 1, "v": "x"}, {"id": 2, "v": "y"}
    first = total(lake.load_records([beat, of_dataarts("t", "c", after=row)]))
    second = [
        of_dataarts("t", "u", before=row, after=moved),
        beat,
        of_dataarts("t", "d", before=row),
    ]
    assert (first.applied, first.ignored, first.quarantined) == (1, 1, 0)
    assert total(lake.load_records(second)).ignored == 1
    assert [(row["id"], row["v"]) for row in lake.rows("t")] == [("2", "y")]
    assert [table[-1] for table in lake.catalog.list_tables(("shop",))] == ["t"]


@pytest.mark.parametrize("first", [{"connector": None}, None])
def test_heartbeats_of_dataarts_are_none_whatever_comes_first(
    spark: SparkSession, tmp_path: Path, first: dict[str, Any] | None
) -> None:
    """A source that names its connector as null, or a hundred lines of which none is an event."""
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "max_bad_share": 1})
    row = of_dataarts("t", "c", after={"id": 1, "v": "x"})
    beat = of_dataarts("beats", "u", after={"dlf_job_id": "7"}, isHeartbeat=True)
    row["source"] |= first or {}
    before = [] if first else [{"no": "event"}] * 120
    lake.load_records([*before, row, beat])
    assert [table[-1] for table in lake.catalog.list_tables(("shop",))] == ["t"]


def test_tables_of_two_owners_are_two(spark: SparkSession, tmp_path: Path) -> None:
    records = [of_oracdc(owner, "c", after={"DEPTNO": 50}) for owner in ("SCOTT", "HR")]
    file = jsonl(tmp_path / "a.jsonl", records)
    rows = Debezium().read(spark, (file,), DebeziumOptions()).orderBy("ordinal").collect()
    assert [table_name(row) for row in rows] == ["SCOTT.DEPT", "HR.DEPT"]
