"""After a first batch that failed, a wrong hint or key can be corrected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import AuditFailedError, PlanError
from sluice.operations import stages
from sluice.operations.held_files import release
from sluice.operations.undo import undo_batch
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

WRONG = {"key": ["amount"], "columns": {"id": "string", "amount": "int"}}
RIGHT = {"key": ["id"], "columns": {"id": "bigint", "amount": "decimal(10,2)"}}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A pipeline with a wrong hint and a wrong key; drivers run in this process."""
    return Sandbox(spark, tmp_path, project(WRONG)).driven(monkeypatch)


def project(table: dict[str, Any]) -> dict[str, Any]:
    return {"format": "debezium", "tables": {"s.orders": table}, "on_bad_record": "fail"}


def event(lsn: int, ident: int, amount: str) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "orders", "lsn": lsn}
    return {"op": "c", "after": {"id": ident, "amount": amount}, "source": source, "ts_ms": 1}


@pytest.mark.long
def test_a_mended_hint_and_key_are_taken_after_a_batch_that_failed(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "1.50"), event(11, 2, "2")])
    _, failure = stages.run(lake.context())
    assert isinstance(failure, AuditFailedError)
    assert lake.types("orders") == {"id": "string", "amount": "int"}

    lake.configure(**project(RIGHT))
    results, failure = stages.run(lake.context())
    assert failure is None
    assert len(results) == 1
    assert lake.types("orders") == {"id": "long", "amount": "decimal(10, 2)"}
    assert sorted(str(row["amount"]) for row in lake.rows("orders")) == ["1.50", "2.00"]


@pytest.mark.long
def test_a_first_batch_that_is_rolled_back_can_be_loaded_with_other_types(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "7"), event(11, 2, "2")])
    (published,), _ = stages.run(lake.context())
    undo_batch(lake.context(), published.batch_id)
    assert lake.rows("orders") == []

    lake.configure(**project(RIGHT))
    release(lake.context(), published.batch_id)
    (_,), failure = stages.run(lake.context())
    assert failure is None
    assert {(row["id"], str(row["amount"])) for row in lake.rows("orders")} == {
        (1, "7.00"), (2, "2.00"),
    }  # fmt: skip


def truncate(lsn: int) -> dict[str, Any]:
    return {**event(lsn, 0, ""), "op": "t", "after": None}


def test_truncate_may_be_a_tables_first_event(lake: Sandbox) -> None:
    lake.configure(**project({"key": ["id"]}))
    lake.write("a.jsonl", [truncate(10)])
    _, failure = stages.run(lake.context())
    assert "key columns ['id'] have no type, and no row has come yet" in str(failure)

    lake.configure(**project({"key": ["id"], "columns": {"id": "bigint"}}))
    (first,), _ = stages.run(lake.context())
    assert (total(first).read, total(first).applied) == (1, 1)
    lake.write("b.jsonl", [event(9, 1, "gone"), event(11, 2, "here")])
    (second,), _ = stages.run(lake.context())
    assert (total(second).late, total(second).applied) == (1, 1)
    assert [(row["id"], row["amount"]) for row in lake.rows("orders")] == [(2, "here")]


def test_a_truncate_that_is_ignored_needs_no_table(lake: Sandbox) -> None:
    lake.configure(**project({"key": ["id"]}), on_truncate="ignore")
    lake.write("a.jsonl", [truncate(10)])
    (result,), failure = stages.run(lake.context())
    assert failure is None
    assert (total(result).read, total(result).ignored) == (1, 1)


def test_partitions_by_a_column_that_is_none_are_refused_by_name(lake: Sandbox) -> None:
    lake.configure(**project({**RIGHT, "partition_by": ["bucket(4, id)", "days(placd_at)"]}))
    lake.write("a.jsonl", [event(10, 1, "7")])
    with pytest.raises(PlanError) as caught:
        lake.load_landed()
    assert "table d.s.orders: partition_by names ['placd_at']" in str(caught.value)
    assert "its columns are ['amount', 'id']" in str(caught.value)


def test_partitions_by_a_column_in_another_case(lake: Sandbox) -> None:
    """Spark and Iceberg know a column in any case, and its spelling is that of the events."""
    lake.configure(**project({**RIGHT, "partition_by": ["bucket(4, ID)", "AMOUNT"]}))
    lake.write("a.jsonl", [event(10, 1, "7")])
    lake.load_landed()
    fields = lake.catalog.load_table("shop.orders").spec().fields
    assert [field.name for field in fields] == ["id_bucket", "amount"]


BY_DAY = {
    "key": ["id"], "columns": {"id": "bigint", "at": "date"}, "partition_by": ["days(at)"],
}  # fmt: skip


def dated(lsn: int, **more: str) -> dict[str, Any]:
    made = event(lsn, 1, "7")
    return {**made, "after": {**made["after"], "at": "2026-01-01", **more}}


def test_a_column_that_is_called_as_a_partition_field_is_refused_by_name(lake: Sandbox) -> None:
    lake.configure(**project(BY_DAY))
    lake.write("a.jsonl", [dated(10, at_day="Thu")])
    with pytest.raises(PlanError, match="which Iceberg calls at_day, and so is a column"):
        lake.load_landed()


def test_a_new_column_may_not_be_called_as_a_partition_field_either(lake: Sandbox) -> None:
    lake.configure(**project(BY_DAY))
    lake.write("a.jsonl", [dated(10)])
    lake.run()
    lake.write("b.jsonl", [dated(11, at_day="Thu")])
    with pytest.raises(PlanError, match=r"new columns \['at_day'\] are called as partition fields"):
        lake.run()
