"""An Airflow of the tests' own: its home, its SQLite database, its DAGs; created
once per session."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.airflow.shopfiles import PIPELINE_YAML, PROJECT_YAML

if TYPE_CHECKING:
    from tests.airflow.fake_stages import Runs, Stages

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="sluice-airflow-"))
PROJECT = HOME / "project"

# Airflow reads these when it is imported first.
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "SLUICE_PROJECT": str(PROJECT),
    }
)


@pytest.fixture(scope="session")
def project() -> Path:
    """A Sluice project of one pipeline, `shop`."""
    (PROJECT / "pipelines").mkdir(parents=True, exist_ok=True)
    (PROJECT / "sluice.yaml").write_text(PROJECT_YAML)
    (PROJECT / "pipelines" / "shop.yaml").write_text(PIPELINE_YAML)
    return PROJECT


@pytest.fixture(scope="session")
def airflow_db(project: Path) -> None:
    """Airflow's tables in the session's own SQLite."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="session")
def parsed(airflow_db: None) -> Callable[[], dict[str, Any]]:
    """Return a function that reads every DAG of `dags/` again, as the DAG processor does."""

    def parse() -> dict[str, Any]:
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(str(ROOT / "dags"))
        assert bag.import_errors == {}
        return dict(bag.dags)

    return parse


@pytest.fixture(scope="session")
def dags(parsed: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The DAGs, for tests that do not change them."""
    return parsed()


@pytest.fixture
def states() -> Callable[[Any], dict[str, str]]:
    """Return a function for the states of a run's tasks, by task id and map index."""

    def of(run: Any) -> dict[str, str]:
        return {
            ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": str(ti.state)
            for ti in run.get_task_instances()
        }

    return of


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    """What the tasks of the DAGs do, replaced."""
    from tests.airflow.fake_stages import stand_in  # it imports Airflow

    return stand_in(monkeypatch)


@pytest.fixture
def run(parsed: Callable[[], dict[str, Any]], states: Callable[[Any], dict[str, str]]) -> Runs:
    """Run a DAG in this process (which keeps the parameters given); no waiting between tries.

    `longest`: the time limit of its loads.
    """

    def once(
        name: str = "sluice_shop", longest: timedelta | None = None, **given: Any
    ) -> tuple[Any, dict[str, str]]:
        dag = parsed()[name]
        if longest is not None:
            dag.get_task("batch.load").execution_timeout = longest
        for task in dag.tasks:
            task.retry_delay = timedelta(0)
            task.retry_exponential_backoff = 0
        given.setdefault("logical_date", None)
        finished = dag.test(**given)
        return finished, states(finished)

    return once


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore warnings of Airflow and its providers about their own libraries; only
    Sluice's are errors."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
