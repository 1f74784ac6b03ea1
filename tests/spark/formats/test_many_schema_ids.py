"""Messages that name more schemas than a batch may have."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluice.errors import PlanError
from spark_jobs.formats.debezium import confluent

pytestmark = pytest.mark.spark

MOST = 5000


def messages(spark: SparkSession, keys: int, values: int) -> DataFrame:
    """As many ids of schemas of keys and of values, each in the head of a message."""
    rows = [
        (*(b"\0" + (i % of + 1).to_bytes(4, "big") for of in (keys, values)), "", None, "f", 1)
        for i in range(max(keys, values))
    ]
    schema = "key binary, value binary, text string, broken string, file string, ordinal bigint"
    return spark.createDataFrame(rows, schema)


@pytest.mark.parametrize(("keys", "values"), [(1, MOST), (MOST // 2, MOST // 2 + 1)])
def test_no_schema_is_asked_for(spark: SparkSession, keys: int, values: int) -> None:
    asked: list[int] = []

    def schemas(ident: int) -> list[Any] | None:
        asked.append(ident)
        return None

    with pytest.raises(PlanError, match=r"more than 5000 schema ids: .*sluice release"):
        confluent.records(messages(spark, keys, values), schemas)
    assert asked == []


@pytest.mark.parametrize(
    ("keys", "values"), [(1, MOST - 1), (1000, 1000)], ids=["most", "500 tables, all altered"]
)
def test_as_many_as_may_be(spark: SparkSession, keys: int, values: int) -> None:
    asked: list[int] = []
    confluent.records(messages(spark, keys, values), asked.append)
    assert len(asked) == keys + values
