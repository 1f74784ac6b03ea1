"""Tables without a key whose events have ids: one id with two contents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox
from tests.spark.tuple_records import record

pytestmark = pytest.mark.spark

TWO = [record("I", "8", note="one"), record("I", "8", note="two")]
LAST = record("I", "9", note="last")


def notes(shop: Sandbox) -> list[Any]:
    return sorted(row["note"] for row in shop.rows("t"))


@pytest.fixture(scope="module")
def together(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What one batch of them all gives."""
    shop = shop_of(spark, tmp_path_factory.mktemp("together"))
    shop.load_records([*TWO, LAST])
    return notes(shop)


def shop_of(spark: SparkSession, root: Path) -> Sandbox:
    return Sandbox(spark, root, {"format": "datahub_tuple", "tables": {"t": {"key": []}}})


@pytest.mark.parametrize("first", [pytest.param(0, marks=pytest.mark.long), 1])
def test_of_two_contents_with_one_id_the_same_counts_in_every_order(
    spark: SparkSession, tmp_path: Path, together: list[Any], first: int
) -> None:
    shop = shop_of(spark, tmp_path)
    for number, event in enumerate((TWO[first], LAST, TWO[1 - first], TWO[first])):
        shop.load_records([event], f"{number}.jsonl")
    assert notes(shop) == together
    assert len(together) == 2
