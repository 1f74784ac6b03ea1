"""Defaults of added columns in changes that list what they carry, and do not carry these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox
from tests.spark.shareplex_records import change

pytestmark = pytest.mark.spark

ITEM = {"key": ["ID"], "columns": {"ID": "int", "C": "int"}}
BEFORE: list[Any] = [
    change(1, "ins", {"ID": "1", "STATE": "a"}),
    change(5, "upd", {"STATE": "b"}, {"ID": "1"}),
    change(6, "upd", {"STATE": "b"}, {"ID": "9"}),  # of a row whose insert never landed
    change(7, "upd", {"STATE": "b"}, {"ID": "8"}),
]
SINCE: list[Any] = [
    change(10, "ddl") | {"ddl": "ALTER TABLE O.ITEM ADD (C number(3) DEFAULT 5)"},
    change(12, "ins", {"ID": "2", "STATE": "a", "C": "7"}),
    change(13, "upd", {"STATE": "c"}, {"ID": "9"}),
    change(14, "upd", {"C": None}, {"ID": "8"}),
]


@pytest.mark.parametrize(
    "batches",
    [[BEFORE, SINCE], pytest.param([SINCE, BEFORE], marks=pytest.mark.long)],
    ids=["in order", "the statement first"],
)
def test_rows_hold_the_default_and_events_their_own_values(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[list[Any]]
) -> None:
    table = ITEM | {"modes": ["current", "history", "append"]}
    pipeline = {"format": "shareplex", "tables": {"O.ITEM": table}}
    shop = Sandbox(spark, tmp_path, pipeline).driven(monkeypatch)
    shop.run_each(*batches)
    assert {r["ID"]: r["C"] for r in shop.rows("ITEM")} == {1: 5, 2: 7, 8: None, 9: 5}
    places = sorted(shop.rows("ITEM__events", metadata=True), key=lambda r: r["_position"])
    assert [r["C"] for r in places] == [5, None, None, None, 7, None, None]
    past = sorted(shop.rows("ITEM__history", metadata=True), key=lambda r: r["_position"])
    assert [r["C"] for r in past] == [5, 5, 5, 5, 7, 5, None]
    assert shop.agrees()
