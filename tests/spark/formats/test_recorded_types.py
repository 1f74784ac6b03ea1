"""PostgreSQL's types, key changes and schema changes as Debezium recorded them: row for row."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.pg_types import RECORDING, assert_equals_source, tables
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module", autouse=True)
def _recorded() -> None:
    RECORDING.require()


@pytest.mark.parametrize("variant", ["schema", "plain.keyed"])
def test_random_batches_with_repeats(spark: SparkSession, tmp_path: Any, variant: str) -> None:
    """Three batches of random files, a tenth of them twice."""
    rng = random.Random(variant)
    typed, keyed = variant.startswith("schema"), variant.endswith("keyed")
    pipeline = {"format": "debezium", "tables": tables(keyed, typed)}
    sandbox = Sandbox(spark, tmp_path, pipeline)
    files = RECORDING.files_of(variant)
    rng.shuffle(files)
    for start in range(3):
        batch = dict.fromkeys([*files[start::3], *rng.sample(files, len(files) // 9)])
        sandbox.load(*batch)
        assert sandbox.quarantined() == []
    assert_equals_source(sandbox, variant.removesuffix(".keyed"))
