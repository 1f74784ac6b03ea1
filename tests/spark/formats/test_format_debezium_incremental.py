"""PostgreSQL's incremental snapshots: their rows stand among the changes that they were read of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.debezium_events import DEFAULT_PLACEHOLDER, event, source
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark


def row(ident: int, big: str) -> dict[str, Any]:
    return {"id": ident, "big": big}


def event_at(op: str, lsn: int, last: int = 0, **images: Any) -> dict[str, Any]:
    """A change, or a row of the first snapshot, which has no commit before it."""
    commit = "null" if op == "r" else f'"{last or lsn}"'
    kind = "true" if op == "r" else "false"
    place = {"lsn": lsn, "sequence": f'[{commit},"{lsn}"]', "snapshot": kind}
    return event(op, src=source("postgresql", **place), **images)


def read_again(lsn: int, after: dict[str, Any], last: int = 0) -> dict[str, Any]:
    place = {"lsn": None, "sequence": f'["{last or lsn}","{lsn}"]', "snapshot": "incremental"}
    return event("r", src=source("postgresql", **place), after=after, ts_ms=1704164645999)


def moved(lsn: int, old: int, new: int) -> list[dict[str, Any]]:
    """A change of key whose large value was not sent."""
    return [
        event_at("d", lsn, before=row(old, "")),
        event_at("c", lsn, after=row(new, DEFAULT_PLACEHOLDER)),
    ]


FIRST = [event_at("r", 10, after=row(1, "one")), event_at("r", 10, after=row(2, "two"))]
SWAPPED = [*moved(20, 1, -1), *moved(21, 2, 1), *moved(22, -1, 2)]
READ = [read_again(30, row(1, "two")), read_again(30, row(2, "one"))]
LATER = [event_at("u", 40, after=row(1, "three")), event_at("d", 41, before=row(2, ""))]

SWAPPED_ROWS = {"1": "two", "2": "one"}


@pytest.mark.parametrize(
    ("batches", "rows"),
    [
        pytest.param([FIRST + SWAPPED + READ], SWAPPED_ROWS, id="in order", marks=pytest.mark.long),
        pytest.param(
            [READ, SWAPPED, FIRST], SWAPPED_ROWS, id="newest first", marks=pytest.mark.long
        ),
        pytest.param([LATER + READ, SWAPPED + FIRST], {"1": "three"}, id="changed since"),
    ],
)
def test_a_row_that_is_read_after_a_swap_is_not_swapped_again(
    spark: SparkSession, tmp_path: Path, batches: list[list[Any]], rows: dict[str, str]
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    for batch in batches:
        assert total(lake.load_records(batch)).quarantined == 0
    assert {r["id"]: r["big"] for r in lake.rows("t")} == rows


def test_incremental_snapshot_row_repairs_values_without_an_event(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A column that was added with a DEFAULT which plain JSON does not tell."""
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    lake.load_records([read_again(30, {**row(1, "b"), "added": "new"})])
    lake.load_records([event_at("c", 10, after=row(1, "a")), event_at("u", 20, after=row(1, "b"))])
    assert lake.rows("t") == [{"id": "1", "big": "b", "added": "new"}]


def test_a_row_stands_before_the_change_whose_place_it_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The change that ends a window is sent after its rows; and all changes of which the last
    commit is the row's are, wherever they begin in the log."""
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    lake.load_records([event_at("c", 10, after=row(n, "a")) for n in range(1, 5)])
    lake.load_records([
        read_again(30, row(1, "a"), last=20), event_at("d", 30, last=20, before=row(1, "")),
        read_again(40, row(2, "a"), last=35), event_at("u", 40, last=35, after=row(2, "b")),
        read_again(50, row(3, "a")), event_at("u", 45, last=50, after=row(3, "b")),
        event_at("u", 60, last=55, after=row(4, "b")), read_again(64, row(4, "mended"), last=55),
    ])  # fmt: skip
    found = {r["id"]: r["big"] for r in lake.rows("t")}
    assert found == {"2": "b", "3": "b", "4": "mended"}
