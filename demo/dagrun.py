"""Runs of the pipelines' real DAGs through `dag.test()`: no scheduler, no server.

A process of its own, for Airflow reads its settings when it is imported, and one for all runs,
for that takes seconds. It is asked and answers over a socket, a line of JSON each; Airflow's own
log is its standard output.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]


def environment(project: Path, home: Path) -> dict[str, str]:
    """What makes Airflow this checkout's, with its state in `home`."""
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "SLUICE_PROJECT": str(project),
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = os.pathsep.join(str(p) for p in (ROOT, ROOT / "include", ROOT / "plugins"))
    return {**os.environ, **settings, "PATH": path, "PYTHONPATH": found}


class Airflow:
    """The process that runs DAGs; use it in a `with`."""

    def __init__(self, project: Path) -> None:
        home = project / "airflow"
        home.mkdir()
        self.log = home / "demo.log"
        mine, theirs = socket.socketpair()
        with self.log.open("w") as log, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "demo.dagrun", str(theirs.fileno())],
                cwd=ROOT, env=environment(project, home), pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        with mine:
            self._lines = mine.makefile("rw")

    def __enter__(self) -> Airflow:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._process.wait()

    def run(self, dag_id: str, at: datetime) -> dict[str, Any]:
        """Run a DAG for the hour that ends at `at`; returns the states of the run and its tasks."""
        self._lines.write(json.dumps([dag_id, at.isoformat()]) + "\n")
        self._lines.flush()
        found: dict[str, Any] = json.loads(self._lines.readline() or "{}")
        return found


def _run(dag_id: str, at: datetime) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    finished = DagBag(str(ROOT / "dags")).dags[dag_id].test(logical_date=at)
    states = {
        ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": str(ti.state)
        for ti in finished.get_task_instances()
    }
    return {"state": str(finished.state), "tasks": states}


def _serve(descriptor: int) -> None:
    from airflow.utils.db import initdb

    initdb()
    with socket.socket(fileno=descriptor) as mine, mine.makefile("rw") as lines:
        for line in iter(lines.readline, ""):
            dag_id, at = json.loads(line)
            lines.write(json.dumps(_run(dag_id, datetime.fromisoformat(at))) + "\n")
            lines.flush()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
