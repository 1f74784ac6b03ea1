"""If file names give the order, nothing expires: a file of any name may still come."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.names import PROP_FLOOR
from sluice.operations import stages
from tests.spark.canal_messages import message, row
from tests.spark.shop import Shop

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_changes_that_go_by_arrival_are_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = {"tombstone_days": 30, "changelog_days": 30}
    shop = Shop(spark, tmp_path, {"format": "canal", "maintenance": days})
    shop.driven(monkeypatch)
    for number, name in enumerate(("b.jsonl", "a.jsonl"), 1):
        shop.write(name, [message("INSERT", row(str(number), "x"))])
        _, failure = stages.run(shop.context())
        assert failure is None
        shop.maintain()
    assert sorted(found["id"] for found in shop.rows("t")) == [1, 2]
    assert shop.quarantined() == []
    assert PROP_FLOOR not in shop.table("t").properties
