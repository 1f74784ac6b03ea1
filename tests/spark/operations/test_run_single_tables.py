"""A run for some tables: of loaded files too, and without taking free ones from other runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import ConfigError, RollbackRefusedError
from sluice.operations import refolding, stages
from sluice.operations.read_ahead import read_ahead
from sluice.operations.selection import Selection
from sluice.result import BatchResult, Counts
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

ORDERS = {"s.orders": {"key": ["id"], "columns": {"id": "bigint"}}}
BOTH = {**ORDERS, "s.notes": {"key": ["id"], "columns": {"id": "bigint"}}}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A pipeline for one of two tables that the files tell of; drivers run in this process."""
    return Sandbox(spark, tmp_path, {"format": "debezium", "tables": ORDERS}).driven(monkeypatch)


def event(lsn: int, table: str, ident: int, text: str) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    return {"op": "u", "after": {"id": ident, "text": text}, "source": source, "ts_ms": 1}


def run(sandbox: Sandbox, *tables: str) -> list[BatchResult]:
    results, failure = stages.run(sandbox.context(), Selection(tables=tables))
    assert failure is None
    return results


def texts(sandbox: Sandbox, table: str) -> dict[int, str]:
    return {row["id"]: row["text"] for row in sandbox.rows(table)}


def test_a_table_that_is_added_later_is_filled_from_loaded_files(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, "orders", 1, "a"), event(11, "notes", 7, "x")])
    run(lake)
    orders = lake.catalog.load_table(("shop", "orders")).metadata.current_snapshot_id

    lake.configure(format="debezium", tables=BOTH)
    (filled,) = run(lake, "notes")
    assert total(filled) == Counts(read=2, applied=1, ignored=1)
    assert texts(lake, "notes") == {7: "x"}
    assert lake.catalog.load_table(("shop", "orders")).metadata.current_snapshot_id == orders
    row = lake.context().ledger.batches.get(filled.batch_id)
    assert row is not None
    assert row.details["tables"] == ["notes"]
    assert run(lake, "notes") == []
    assert run(lake) == []


def test_files_that_are_read_ahead_stay_free(lake: Sandbox) -> None:
    lake.configure(format="debezium", tables=BOTH)
    lake.write("a.jsonl", [event(10, "orders", 1, "a"), event(11, "notes", 7, "x")])
    run(lake, "s.notes")
    assert lake.context().ledger.files.known() == {}

    lake.write("b.jsonl", [event(12, "notes", 7, "y")])
    (whole,) = run(lake)
    assert total(whole) == Counts(read=3, applied=2, superseded=1)
    assert (texts(lake, "orders"), texts(lake, "notes")) == ({1: "a"}, {7: "y"})


def test_a_table_that_is_not_listed_is_refused(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, "orders", 1, "a")])
    with pytest.raises(ConfigError, match=r"no table 'notes'; its `tables:` are s\.orders"):
        stages.run(lake.context(), Selection(tables=("notes",)))


@pytest.mark.long
@pytest.mark.parametrize("undone", [False, True], ids=["as it is", "undone first"])
def test_of_rows_without_a_key_that_were_read_ahead_a_raised_epoch_makes_others(
    lake: Sandbox, undone: bool
) -> None:
    keyless = {"s.notes": {"key": [], "columns": {"id": "bigint"}}}
    lake.configure(format="debezium", tables=keyless)
    lake.write("a.jsonl", [event(11, "notes", 7, "x") | {"op": "c"}])
    (ahead,) = run(lake, "s.notes")
    lake.configure(format="debezium", tables=keyless, epoch=1)
    (told,) = read_ahead(lake.context())
    assert f"sluice rollback p --batch {ahead.batch_id}" in told
    if undone:
        refolding.undo_or_refold(lake.context(), ahead.batch_id)
    run(lake)
    assert [row["text"] for row in lake.rows("notes")] == (["x"] if undone else ["x", "x"])
    assert read_ahead(lake.context()) == []


@pytest.mark.long
def test_a_batch_is_not_undone_beneath_one_that_read_its_files_again(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, "orders", 1, "a")])
    (whole,) = run(lake)
    (again,) = run(lake, "s.orders")
    with pytest.raises(RollbackRefusedError, match=f"batch {again.batch_id} read files of"):
        refolding.undo_or_refold(lake.context(), whole.batch_id)
    refolding.undo_or_refold(lake.context(), again.batch_id)
    refolding.undo_or_refold(lake.context(), whole.batch_id)
    assert lake.rows("orders") == []
