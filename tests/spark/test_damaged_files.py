"""Containers that are whole by their frames, with a value in them that nobody can read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sluice import stages
from sluice.leases import this_holder
from spark_jobs.driver import drive
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

TABLES = {"t": {"key": ["id"], "columns": {"id": "int"}}}
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": "string"}],
}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Plain rows; loads are driven as `spark-submit` would."""
    options = {"table": "t"}
    sandbox = Sandbox(
        spark, tmp_path, {"format": "rows", "format_options": options, "tables": TABLES}
    )

    def submit(project: Any, _: Path, *arguments: str, small: bool = False) -> str:
        key = arguments[arguments.index("--manifest") + 1]
        return drive(sandbox.project, key, lambda: sandbox.spark, this_holder()).to_json()

    monkeypatch.setattr(stages, "submit", submit)
    return sandbox


def container(*ids: int, codec: str = "null") -> bytes:
    """A block for each of the ids."""
    made = io.BytesIO()
    rows = [{"id": i, "note": f"note {i}"} for i in ids]
    fastavro.writer(made, SCHEMA, rows, codec=codec, sync_interval=1)
    return made.getvalue()


def test_a_bad_block_costs_its_own_records(lake: Sandbox) -> None:
    """The length of a text in it is beyond the block's end."""
    content = container(1, 2, 3)
    at = content.index(b"note 2") - 1
    (lake.landing / "bad.avro").write_bytes(content[:at] + b"\x7e" + content[at + 1 :])
    (lake.landing / "good.avro").write_bytes(container(4))
    counts = lake.run().unassigned
    assert sorted(row["id"] for row in lake.rows("t")) == [1, 3, 4]
    (bad,) = lake.quarantined()
    assert (bad["file"], bad["reason"]) == ("bad.avro", "damaged_avro")
    assert b"note 2" in bad["raw"]
    assert counts.quarantined == 1


def test_a_parquet_file_that_cannot_be_decoded_is_one_reject(lake: Sandbox) -> None:
    made = io.BytesIO()
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "note": ["a" * 500, "b" * 500]})
    pq.write_table(table, made, compression="gzip", use_dictionary=False)
    content = bytearray(made.getvalue())
    page = content.index(b"\x1f\x8b")
    content[page : page + 4] = b"\0\0\0\0"
    (lake.landing / "bad.parquet").write_bytes(bytes(content))
    (lake.landing / "good.avro").write_bytes(container(4))
    lake.run()
    assert [row["id"] for row in lake.rows("t")] == [4]
    (bad,) = lake.quarantined()
    assert (bad["file"], bad["reason"]) == ("bad.parquet", "damaged_parquet")
