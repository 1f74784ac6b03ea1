"""What a real engine wrote, loaded in any order, equals the tables of the database it came from."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pgbench import KEYS, RECORDING, assert_equals_source, events
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _recorded() -> None:
    RECORDING.require()


def test_recording_in_one_batch_equals_the_source(spark: SparkSession, tmp_path: Path) -> None:
    """With schemas: the types come from the events."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": KEYS})
    result = sandbox.load(*RECORDING.files_of("schema"))
    assert_equals_source(sandbox)
    assert total(result).read == events("schema")
    assert total(result).quarantined == 0
    assert sandbox.types("pgbench_history")["mtime"] == "timestamp"
    assert sandbox.types("pgbench_accounts")["abalance"] == "int"


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_random_batches_with_repeats(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """With keys and tombstones, newest batch first as likely as last; a third of files twice."""
    rng = random.Random(seed)
    untyped = {"key": [], "columns": {"mtime": "timestamp_ntz[us]"}}
    tables = {name: {} for name in KEYS} | {"public.pgbench_history": untyped}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables})
    files = RECORDING.files_of("plain.keyed")
    rng.shuffle(files)
    read = 0
    for start in range(3):
        again = rng.sample(files, len(files) // 9)
        batch = dict.fromkeys([*files[start::3], *again])
        read += total(sandbox.load(*batch)).read
    assert_equals_source(sandbox)
    assert read > events("plain.keyed")
