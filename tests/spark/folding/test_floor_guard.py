"""Retention during the merge of a batch whose lease has lapsed although its driver is alive."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.errors import TransientError
from sluice.names import PROP_FLOOR
from spark_jobs.lake.table_id import target_id
from spark_jobs.lake.writer import Writer
from spark_jobs.merging import load
from spark_jobs.merging.merge import Merged, merge_table
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


def test_a_floor_that_rises_while_changes_are_read_is_a_lost_race(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "rows", "tables": {"orders": {"key": ["id"]}}})

    def beside_retention(writer: Writer, accepts_late: bool) -> Merged:
        merged = merge_table(writer, accepts_late)
        writer.lake.set_property(target_id(writer.plan), PROP_FLOOR, "0000.2.9")
        return merged

    monkeypatch.setattr(load, "merge_table", beside_retention)
    file = shop.write("orders/1.jsonl", [{"id": 1}])
    with pytest.raises(TransientError, match=r"maintenance forgot old changes .* run again"):
        shop.stage(file)
    assert shop.stage(file).tables
