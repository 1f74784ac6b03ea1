"""What a real engine wrote, loaded in any order, equals the tables of the database it came from."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.recordings import Recording
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

RECORDING = Recording("pg-pgbench")
TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history")
KEYS: dict[str, Any] = {
    "public.pgbench_accounts": {"key": ["aid"]},
    "public.pgbench_branches": {"key": ["bid"]},
    "public.pgbench_tellers": {"key": ["tid"]},
    "public.pgbench_history": {"key": []},
}


@pytest.fixture(scope="module", autouse=True)
def _recorded() -> None:
    RECORDING.require()


def events(variant: str) -> int:
    """How many records a variant holds."""
    files = RECORDING.read("manifest.jsonl")
    return sum(f["lines"] for f in files if f["file"].startswith(f"landing.{variant}/"))


def wanted(table: str) -> list[list[str | None]]:
    """The source's own rows, as its server spelled them."""
    rows = RECORDING.read(f"expected/{table}.jsonl")
    return sorted([[_stripped(v) for v in row.values()] for row in rows], key=repr)


def loaded(sandbox: Sandbox, table: str) -> list[list[str | None]]:
    """Our rows in the server's spelling and the dump's order of columns."""
    first = RECORDING.read(f"expected/{table}.jsonl")[0]
    rows = sandbox.rows(table)
    return sorted([[_spelled(row[name]) for name in first] for row in rows], key=repr)


def _spelled(value: Any) -> str | None:
    if isinstance(value, datetime):
        text = str(value)
        return text.rstrip("0") if "." in text else text
    return None if value is None else _stripped(str(value))


def _stripped(text: str | None) -> str | None:
    """Without the blanks that pad a char(n)."""
    return None if text is None else text.rstrip(" ")


def assert_equals_source(sandbox: Sandbox, tables: Iterable[str] = TABLES) -> None:
    for table in tables:
        ours, theirs = loaded(sandbox, table), wanted(table)
        assert len(ours) == len(theirs), table
        assert ours == theirs, table


def test_everything_in_one_batch(spark: SparkSession, tmp_path: Path) -> None:
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
