"""A merge writes exactly the rows on which it decided, or the batch fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluice.errors import AuditFailedError
from spark_jobs.lake.writer import Writer
from spark_jobs.materialize import materialize
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
TABLE = {"format": "debezium", "tables": {"public.t": {"key": ["id"], "columns": {"id": "int"}}}}


def event(op: str, id: int, lsn: int) -> dict[str, Any]:
    row = {"id": id, "at": str(lsn)}
    return {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "op": op,
        "source": {"connector": "postgresql", "db": "d", "schema": "public", "table": "t",
                   "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'},
    }  # fmt: skip


@pytest.fixture
def sandbox(spark: SparkSession, tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(spark, tmp_path, TABLE)
    sandbox.load_records([event("c", 1, 10), event("c", 2, 20), event("c", 3, 30)])
    return sandbox


def test_kept_rows_do_not_follow_their_table(sandbox: Sandbox) -> None:
    table = "lake.shop.t"
    kept = materialize(sandbox.spark.table(table).select("id"))
    sandbox.spark.sql(f"DELETE FROM {table} WHERE id < 3").collect()
    sandbox.spark.catalog.refreshTable(table)
    assert sorted(row.id for row in kept.collect()) == [1, 2, 3]
    assert [row.id for row in sandbox.spark.table(table).collect()] == [3]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_merge_that_has_nothing_to_write_passes(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    table = TABLE["tables"]["public.t"] | {"write_mode": mode}  # type: ignore[index]
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"public.t": table}})
    sandbox.load_records([event("c", 1, 10), event("c", 2, 20)])
    before = sandbox.rows("t", metadata=True)
    sandbox.load_records([event("d", 7, 30)])
    sandbox.load_records([event("u", 1, 5), event("d", 8, 31)])
    assert sandbox.rows("t", metadata=True) == before


def test_the_tables_tell_how_a_merge_writes_and_not_the_configuration(sandbox: Sandbox) -> None:
    """Iceberg's own default is copy-on-write, and anybody may change the property."""
    sandbox.load_records([event("d", 3, 40)])
    change = "ALTER TABLE lake.shop{} TBLPROPERTIES ('write.merge.mode'{})"
    sandbox.spark.sql(change.format(".t UNSET", ""))
    sandbox.spark.sql(change.format("__cdc.t__tombstones SET", " = 'copy-on-write'"))
    sandbox.load_records([event("u", 1, 50), event("d", 2, 60), event("c", 3, 70)])
    assert sorted(row["at"] for row in sandbox.rows("t")) == ["50", "70"]


@pytest.mark.parametrize(
    ("lost", "late"), [("t", []), ("t__tombstones", [event("u", 2, 15)])], ids=["newer", "late"]
)
def test_a_merge_that_sees_no_rows_fails_the_batch(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, lost: str, late: list[Any]
) -> None:
    """As a query did that took an emptied cache for an empty batch."""
    sandbox.load_records([event("d", 2, 40)])
    before = sandbox.rows("t", metadata=True)
    merge = Writer.sql

    def blind(self: Writer, table: Any, source: DataFrame, statement: Any) -> None:
        merge(self, table, source.limit(0) if table.name == lost else source, statement)

    monkeypatch.setattr(Writer, "sql", blind)
    with pytest.raises(AuditFailedError, match=rf"{lost}: batch .* says 0.*sluice run p"):
        sandbox.load_records([event("u", 1, 50), event("d", 3, 51), *late])
    assert sandbox.rows("t", metadata=True) == before


@pytest.mark.long
def test_tables_that_rewrite_their_files(spark: SparkSession, tmp_path: Path) -> None:
    """With a key and with a history, and without a key."""
    rewritten = {"write_mode": "copy-on-write", "columns": {"id": "int"}}
    tables = {
        "public.t": {"key": ["id"], "modes": ["current", "history"], **rewritten},
        "public.log": {"key": [], **rewritten},
    }
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables})
    sandbox.load_records(
        [event("c", 1, 10), event("c", 2, 20)]
        + [event("c", 5, lsn) | _at(lsn) for lsn in (11, 12, 13)]
    )
    sandbox.load_records([event("u", 1, 30), event("d", 2, 40), event("d", 5, 41) | _at(41)])
    sandbox.load_records([event("u", 1, 25), event("c", 3, 50)])
    assert sorted((row["id"], row["at"]) for row in sandbox.rows("t")) == [(1, "30"), (3, "50")]
    assert len(sandbox.rows("log")) == 2
    versions = sandbox.rows("t__history", metadata=True)
    assert sorted((v["id"], v["at"], v["_is_current"]) for v in versions) == [
        (1, "10", False), (1, "25", False), (1, "30", True), (2, "20", False), (3, "50", True),
    ]  # fmt: skip


def _at(lsn: int) -> dict[str, Any]:
    """A row of the log, alike in each event but for where it stands."""
    row = {"id": 5, "at": "x"}
    source = {**event("c", 5, lsn)["source"], "table": "log"}
    return {"source": source} | ({"before": row} if lsn == 41 else {"after": row})
