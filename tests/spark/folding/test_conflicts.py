"""Different events of one key at one position: decided, the same in every order, and reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from sluice.output.report import show_batch
from sluice.positions import ROLE_NEW
from sluice.result import BatchResult, Conflicts
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
Row = dict[str, Any]
KEYED = {"format": "debezium", "tables": {"s.t": {"key": ["id"]}}}


def event(lsn: int, row: Row, op: str = "c") -> Row:
    """A change of `s.t`; a delete has its row in `before`."""
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": lsn}
    before, after = (row, None) if op == "d" else (None, row)
    return {"op": op, "before": before, "after": after, "source": source}


A, B = event(10, {"id": 1, "v": "a"}), event(10, {"id": 1, "v": "b"})
OTHER_KEY = event(10, {"id": 2, "v": "c"})
UPDATE = A | {"op": "u"}
DELETE = event(10, A["after"], "d")
BEFORE, LATER = event(5, {"id": 1, "v": "o"}), event(20, {"id": 1, "v": "z"})


def conflicts(result: BatchResult) -> Conflicts:
    (table,) = result.tables
    return table.conflicts


@pytest.mark.parametrize(
    ("batches", "counts"),
    [
        pytest.param([[A, B]], [1], marks=pytest.mark.long),
        ([[A, B, A, B, OTHER_KEY]], [1]),
        pytest.param([[A], [B]], [0, 1], marks=pytest.mark.long),
        ([[B], [A]], [0, 1]),
        pytest.param([[B, LATER], [A, B]], [0, 1], marks=pytest.mark.long),
        ([[LATER], [A, B]], [0, 1]),
        pytest.param([[A], [A, OTHER_KEY]], [0, 0], marks=pytest.mark.long),
        ([[A, A, OTHER_KEY, BEFORE, LATER]], [0]),
        ([[A, UPDATE]], [0]),
        pytest.param([[A, DELETE], [A, DELETE]], [0, 0], marks=pytest.mark.long),
    ],
)
def test_different_events_at_one_position_are_counted_as_conflicts(
    spark: SparkSession, tmp_path: Path, batches: Sequence[Sequence[Row]], counts: Sequence[int]
) -> None:
    lake = Sandbox(spark, tmp_path, KEYED)
    found = [conflicts(lake.load_records(batch)) for batch in batches]
    assert [one.records for one in found] == counts
    for one in found:
        assert (one.at is not None) == (one.records > 0)


def test_a_conflict_is_shown_with_where_to_look(spark: SparkSession, tmp_path: Path) -> None:
    lake = Sandbox(spark, tmp_path, KEYED)
    result = lake.load_records([A, B])
    console = Console(record=True, width=300)
    show_batch(console, result)
    shown = console.export_text()
    (line,) = (line for line in shown.splitlines() if "at the same position" in line)
    assert line.startswith("shop.t: records that say something else")
    asked = line.partition('look: sluice sql "')[2].rstrip('"')
    rows = lake.spark.sql(asked.replace("shop__cdc", "lake.shop__cdc")).collect()
    assert {row["v"] for row in rows} == {"a", "b"}
    assert asked.endswith(f".{ROLE_NEW}'")


def test_row_with_more_values_than_its_own_event_is_no_conflict(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Sandbox(spark, tmp_path, KEYED)
    unsent = "__debezium_unavailable_value"
    first = event(10, {"id": 1, "v": "a", "doc": "big"})
    second = event(20, {"id": 1, "v": "b", "doc": unsent})
    lake.load_records([first, second])
    result = lake.load_records([first, second])
    assert lake.rows("t") == [{"id": "1", "v": "b", "doc": "big"}]
    assert conflicts(result) == Conflicts()


def test_a_new_half_without_its_old_one_is_no_conflict(spark: SparkSession, tmp_path: Path) -> None:
    """Where both come in one batch it takes from the old half what it does not carry."""
    lake = Sandbox(spark, tmp_path, {"format": "shareplex", "tables": {"S.T": {"key": ["ID"]}}})
    place = {"table": "S.T", "scn": "9", "trans": "1.2.3", "seq": 2}
    old = {"meta": {"op": "upd before", **place}, "data": {"ID": "1", "V": "a", "W": "w"}}
    new = {"meta": {"op": "upd after", **place}, "data": {"ID": "1", "V": "b"}}
    lake.load_records([old, new])
    result = lake.load_records([new])
    assert lake.rows("T") == [{"ID": "1", "V": "b", "W": "w"}]
    assert conflicts(result) == Conflicts()
