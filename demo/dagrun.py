"""One run of a pipeline's real DAG through `dag.test()`: no scheduler, no server.

A process of its own, for Airflow reads its settings when it is imported:
`python -m demo.dagrun prepare` makes Airflow's SQLite, `python -m demo.dagrun DAG HOUR` runs.
Airflow's own log goes to standard output; the outcome to the file that SLUICE_DEMO_OUTCOME names.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
OUTCOME: Final = "SLUICE_DEMO_OUTCOME"


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


def prepare() -> None:
    """Make Airflow's tables."""
    from airflow.utils.db import initdb

    initdb()


def run(dag_id: str, at: datetime) -> dict[str, object]:
    """Run the DAG for the hour that ends at `at`; returns the states of the run and its tasks."""
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(str(ROOT / "dags")).dags[dag_id]
    finished = dag.test(logical_date=at)
    states = {
        ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": str(ti.state)
        for ti in finished.get_task_instances()
    }
    return {"state": str(finished.state), "tasks": states}


def main(arguments: list[str]) -> None:
    """See the module."""
    if arguments == ["prepare"]:
        prepare()
        return
    outcome = run(arguments[0], datetime.fromisoformat(arguments[1]))
    Path(os.environ[OUTCOME]).write_text(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1:])
