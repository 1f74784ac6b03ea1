"""Retention during the merge of a batch whose lease has lapsed although its driver is alive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import TransientError
from sluice.names import PROP_FLOOR
from spark_jobs.lake.tables import Lake, target_id
from spark_jobs.merging import load
from spark_jobs.merging.merge import Merged, merge_table
from spark_jobs.planning.plan import TablePlan
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


def test_a_floor_that_rises_while_changes_are_read_is_a_lost_race(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "rows", "tables": {"orders": {"key": ["id"]}}})

    def beside_retention(lake: Lake, plan: TablePlan, *rest: Any) -> Merged:
        merged = merge_table(lake, plan, *rest)
        lake.set_property(target_id(plan), PROP_FLOOR, "0000.2.9")
        return merged

    monkeypatch.setattr(load, "merge_table", beside_retention)
    file = shop.write("orders/1.jsonl", [{"id": 1}])
    with pytest.raises(TransientError, match=r"maintenance forgot old changes .* run again"):
        shop.stage(file)
    assert shop.stage(file).tables
