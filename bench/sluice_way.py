"""The same batch by `sluice run`, as a user types it: everything from start to published."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.ways import read_result
from sluice.config.project import load_project
from spark_jobs.session import open_session

PROJECT_FOLDER = "project"
PROJECT = """lake:
  catalog: {type: jdbc, uri: "sqlite:///data/catalog.db"}
  warehouse: data/warehouse
spark: {master: "local[2]", conf: {spark.driver.memory: 6g, spark.sql.shuffle.partitions: "4"}}
"""
PIPELINE = """name: bench
format: debezium
landing: {url: landing, pattern: "**/*.txt"}
namespace: bench
tables:
  public.orders:
    key: [id]
    columns: {id: bigint, customer_id: bigint, amount: "decimal(18,2)", updated_at: bigint}
"""


def prepare(work: Path, out: Path) -> None:
    """A project whose target holds the initial rows, loaded by Sluice itself; the batch waits."""
    project = out / PROJECT_FOLDER
    (project / "pipelines").mkdir(parents=True)
    (project / "sluice.yaml").write_text(PROJECT)
    (project / "pipelines" / "bench.yaml").write_text(PIPELINE)
    _land(work / "snapshot", project / "landing" / "snapshot")
    apply(out)
    _land(work / "events", project / "landing" / "events")


def apply(out: Path) -> float:
    """`sluice run`, to its end; returns the seconds that its Spark driver took for the batch."""
    command = [str(Path(sys.executable).parent / "sluice"), "run", "bench", "--json"]
    done = subprocess.run(
        [*command, "--project", str(out / PROJECT_FOLDER)],
        stdout=subprocess.PIPE,
        check=True,
        env=os.environ,
    )
    return float(sum(batch["seconds"] for batch in json.loads(done.stdout)["batches"]))


def result(out: Path) -> tuple[int, int]:
    """Rows and hash of the published table."""
    spark = open_session(load_project(out / PROJECT_FOLDER), "bench")
    return read_result(spark, "lake.bench.orders")


def _land(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for file in sorted(source.glob("part-*.txt")):
        shutil.copy(file, target / file.name)
