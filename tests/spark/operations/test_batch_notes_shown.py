"""What a load and a look say of names that are nobody's, and of a wrong format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.operations import preview as preview_module
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.preview import preview
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


def event(lsn: int, table: str, **after: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    return {"op": "c", "after": after, "source": source, "ts_ms": 1}


def notes_of_plan_and_run(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[str]]:
    """What a look says and what the run says, of what has landed."""
    monkeypatch.setattr("sluice.operations.load.submit", lake.drive)
    monkeypatch.setattr(preview_module, "submit", lake.look)
    messages: list[str] = []
    ctx = lake.context()
    looked = preview(ctx).forecast.notes
    ran = Context(ctx.project, ctx.pipeline, ctx.catalog, ctx.ledger, ctx.files, messages.append)
    _, failure = stages.run(ran)
    assert failure is None
    prefix = "load: "
    lines = [line.removeprefix(prefix) for line in messages if line.startswith(prefix)]
    return list(looked), [line for line in lines if not line.startswith("batch ")]


def test_unlisted_tables_and_unknown_columns_are_reported_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"key": ["id"], "columns": {"id": "bigint", "idd": "bigint"}}
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"s.order": table}})
    lake.write("a.jsonl", [event(1, "order", id=1), event(2, "orders", id=1)])
    looked, ran = notes_of_plan_and_run(lake, monkeypatch)
    assert ran == looked
    assert [line.partition(";")[0] for line in ran] == [
        "1 records are of d.s.orders, which `tables:` does not list",
        "columns of d.s.order that no event of the batch has: idd",
    ]
    lake.write("b.jsonl", [event(3, "order", id=2)])
    assert notes_of_plan_and_run(lake, monkeypatch) == ([], [])


def test_batch_without_one_readable_record_is_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "datastream"})
    lake.write("a.jsonl", [event(n, "orders", id=n) for n in range(4)])
    looked, ran = notes_of_plan_and_run(lake, monkeypatch)
    reason = {row["reason"] for row in lake.quarantined()}
    assert (
        looked
        == ran
        == [
            f"none of 4 records could be read as datastream ({', '.join(reason)}); "
            "is `format:` right?"
        ]
    )
