"""Write the archive of JVM classes that a load needs (see `sluice.spark_submit.startup`).

Two small batches are loaded into a lake of their own; the JVM of the second one, which takes the
longest way through the driver, records what it loaded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sluice.config.project import Project
from sluice.operations import stages
from sluice.operations.context import open_context
from sluice.operations.selection import EVERYTHING
from sluice.operations.unreadable_files import UnreadableFiles
from sluice.spark_submit import startup
from sluice.spark_submit.submit import JAVA_OPTIONS, LOAD_BATCH, driver_environment, submit_command

PROJECT = """lake:
  catalog: {type: jdbc, uri: "sqlite:///data/catalog.db"}
  warehouse: data/warehouse
spark: {master: "local[2]"}
"""
PIPELINE = """name: rehearsal
format: debezium
landing: {url: landing}
namespace: rehearsal
tables: {s.t: {key: [id], columns: {id: bigint, amount: "decimal(18,2)", at: timestamp}}}
"""
Row = dict[str, Any]


def main() -> int:
    """Record the archive; without one the load just starts slower, so nothing here is fatal."""
    startup.ARCHIVE.unlink(missing_ok=True)
    startup.NO_CONF.mkdir(exist_ok=True)
    if not startup.possible():
        print("Spark's settings are not the set-up's own: no archive of classes", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory(prefix="sluice-rehearsal-") as folder:
        return _record(Path(folder))


def _record(project: Path) -> int:
    (project / "pipelines").mkdir()
    (project / "landing").mkdir()
    (project / "sluice.yaml").write_text(PROJECT)
    (project / "pipelines" / "rehearsal.yaml").write_text(PIPELINE)
    rows = [_row(n) for n in range(200)]
    _land(project, "1", [_event(n, None, row) for n, row in enumerate(rows)])
    ctx = open_context(project, "rehearsal")
    _, failure = stages.run(ctx)
    if failure:
        raise failure
    changed = [_event(1000 + n, row, row | {"new": n}) for n, row in enumerate(rows[:100])]
    deleted = [_event(2000 + n, row, None) for n, row in enumerate(rows[100:])]
    _land(project, "2", [*changed, *deleted, {"op": "unknown"}])
    (manifest,) = stages.land(ctx, EVERYTHING, UnreadableFiles())
    return _load_recording(ctx.project, manifest)


def _load_recording(project: Project, manifest: str) -> int:
    conf = {**project.spark.conf, JAVA_OPTIONS: startup.recording_options()}
    recorded = project.model_copy(update={"spark": project.spark.model_copy(update={"conf": conf})})
    command = submit_command(recorded, LOAD_BATCH, "--manifest", manifest)
    command[1:1] = ["--properties-file", str(startup.defaults_file())]
    environment = {**driver_environment(), **startup.environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode


def _row(number: int) -> Row:
    at = f"2026-01-01T00:{number % 60:02}:00Z"
    return {"id": number, "name": f"n{number}", "amount": f"{number}.50", "at": at}


def _event(lsn: int, before: Row | None, after: Row | None) -> Row:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": lsn}
    op = "d" if after is None else "c" if before is None else "u"
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": lsn}


def _land(project: Path, name: str, records: list[Row]) -> None:
    lines = "".join(f"{json.dumps(record)}\n" for record in records)
    (project / "landing" / f"{name}.jsonl").write_text(lines)


if __name__ == "__main__":
    sys.exit(main())
