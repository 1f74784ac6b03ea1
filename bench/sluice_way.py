"""The same batch by `sluice run`, as a user types it: everything from start to published."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench.ways import HASH, Timing
from sluice.config import load_project
from spark_jobs.session import open_session

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


def prepare(work: Path, out: Path) -> Path:
    """A project whose target holds the initial rows, loaded by Sluice itself."""
    project = out / "project"
    (project / "pipelines").mkdir(parents=True)
    (project / "sluice.yaml").write_text(PROJECT)
    (project / "pipelines" / "bench.yaml").write_text(PIPELINE)
    _land(work / "snapshot", project / "landing" / "snapshot")
    _run(project)
    return project


def timed(work: Path, project: Path) -> Timing:
    """Land the events and load them; the seconds include starting Python, Spark and the JVM."""
    _land(work / "events", project / "landing" / "events")
    started = time.perf_counter()
    report = _run(project)
    seconds = time.perf_counter() - started
    driver = sum(batch["seconds"] for batch in report["batches"])
    spark = open_session(load_project(project), "bench")
    row = spark.sql(HASH + "lake.bench.orders").first()
    if row is None:
        raise RuntimeError("sluice run left no table")
    return Timing("sluice run", seconds, row[0], row[1], startup=seconds - driver)


def _land(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for file in sorted(source.glob("part-*.txt")):
        shutil.copy(file, target / file.name)


def _run(project: Path) -> dict[str, list[dict[str, float]]]:
    command = [str(Path(sys.executable).parent / "sluice"), "run", "bench", "--json"]
    done = subprocess.run(
        [*command, "--project", str(project)], stdout=subprocess.PIPE, check=True, env=os.environ
    )
    report: dict[str, list[dict[str, float]]] = json.loads(done.stdout)
    return report
