"""Keys that are equal by value and not by their text, and rows that change their partition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.shop import Shop, event

pytestmark = pytest.mark.spark


def shop_of(spark: SparkSession, root: Path, **table: Any) -> Shop:
    return Shop(spark, root, {"format": "debezium", "tables": {"orders": {"key": ["id"], **table}}})


def moved(lsn: int, before: dict[str, Any], **row: Any) -> str:
    """An update that tells its old row."""
    return json.dumps(json.loads(event("u", "orders", lsn, **row)) | {"before": before})


@pytest.mark.parametrize(
    ("kind", "one", "other", "third"),
    [
        ("double", "NaN", "nan", 1.5),
        pytest.param("double", 0.0, -0.0, 1.5, marks=pytest.mark.long),
        pytest.param("float", -0.0, "0", "NaN", marks=pytest.mark.long),
        pytest.param("decimal(9,2)", "1", "1.00", "1.01", marks=pytest.mark.long),
        pytest.param("binary[base64]", "AP8=", "AP8=", "AP8A", marks=pytest.mark.long),
    ],
)
def test_keys_are_equal_where_their_values_are(
    spark: SparkSession, tmp_path: Path, kind: str, one: Any, other: Any, third: Any
) -> None:
    shop = shop_of(spark, tmp_path, columns={"id": kind})
    shop.run(event("u", "orders", 30, id=other, text="newest"))
    shop.run(event("u", "orders", 20, id=one, text="late"))
    shop.run(event("c", "orders", 10, id=one, text="first"), event("c", "orders", 11, id=third))
    assert sorted(str(row["text"]) for row in shop.rows("orders")) == ["None", "newest"]
    shop.run(moved(40, {"id": one}, id=third, text="moved"))
    assert [row["text"] for row in shop.rows("orders")] == ["moved"]
    assert shop.agrees()


@pytest.mark.long
def test_rows_follow_their_values_into_other_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Late, moved and deleted ones too, with a version for each, and maintenance in between."""
    shop = shop_of(
        spark, tmp_path, columns={"id": "bigint"}, modes=["current", "history"],
        partition_by=["bucket(4, id)", "truncate(1, text)"],
    )  # fmt: skip
    shop.run(*(event("c", "orders", n, id=n, text="ax") for n in range(1, 7)))
    shop.run(event("u", "orders", 30, id=1, text="cz"), event("u", "orders", 31, id=2, text="cz"))
    shop.maintain()
    shop.run(event("u", "orders", 20, id=1, text="by"), event("d", "orders", 40, id=3))
    shop.run(moved(50, {"id": 4}, id=104, text="dw"), moved(51, {"id": 5}, id=4, text="ev"))
    rows = {row["id"]: row["text"] for row in shop.rows("orders")}
    assert rows == {1: "cz", 2: "cz", 4: "ev", 6: "ax", 104: "dw"}
    versions = [row["text"] for row in shop.rows("orders__history") if row["id"] == 1]
    assert sorted(versions) == ["ax", "by", "cz"]
    assert shop.agrees()
