"""A real scheduler on PostgreSQL: a backfill over past hours beside an hourly run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import postgres
from tests.airflow.events import put_order
from tests.airflow.shopfiles import PIPELINE_YAML, PROJECT_YAML
from tests.airflow.waiting import last_words, wait_for
from tests.conftest import ROOT

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.scheduler,
    pytest.mark.spark,
    # Not every developer may install a server; in CI `make setup-tests` fails without one.
    pytest.mark.skipif(postgres.programs() is None, reason=postgres.MISSING),
]

DAG = "sluice_shop"
SERVICES = (["api-server"], ["dag-processor"], ["scheduler"])
PATIENCE = 1200.0
# The schedule's minute is now, so that no second hourly run begins while the test lasts.
NOW = datetime.now(UTC).replace(second=0, microsecond=0)


class Airflow:
    """The processes of one Airflow, and its command line."""

    def __init__(self, home: Path, project: Path, database: str) -> None:
        self.home = home
        self.environment = {**os.environ, **settings(home, project, database)}

    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            ["airflow", *arguments],
            env=self.environment, capture_output=True, text=True, check=False, timeout=180,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def runs(self) -> list[dict[str, Any]]:
        text = self.command("dags", "list-runs", DAG, "--output", "json")
        rows = [line for line in text.splitlines() if line.startswith("[{")]
        found: list[dict[str, Any]] = json.loads(rows[-1]) if rows else []
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        started = [self._start(words) for words in SERVICES]
        try:
            yield
        finally:
            for process in reversed(started):
                stop(process)

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with (self.home / f"{words[0]}.log").open("wb") as log:
            return subprocess.Popen(
                ["airflow", *words],
                env=self.environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def settings(home: Path, project: Path, database: str) -> dict[str, str]:
    port = postgres.free_port()
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.replace(
            "postgresql:", "postgresql+psycopg2:"
        ),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "3",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "include"), os.environ.get("PYTHONPATH", "")]),
        "SLUICE_PROJECT": str(project),
    }


@pytest.fixture
def project_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "landing").mkdir()
    (folder / "sluice.yaml").write_text(PROJECT_YAML)
    (folder / "pipelines" / "shop.yaml").write_text(
        f'{PIPELINE_YAML}schedule: "{NOW.minute} * * * *"\n'
    )
    return folder


@pytest.fixture
def airflow(tmp_path: Path, project_folder: Path) -> Iterator[Airflow]:
    home = tmp_path / "airflow"
    home.mkdir()
    with postgres.server() as database:
        found = Airflow(home, project_folder, database)
        found.command("db", "migrate")
        with found.running():
            yield found


def ledger(project: Path) -> Any:
    from sluice.catalog.client import open_catalog
    from sluice.config.project import load_project
    from sluice.ledger.ledger import Ledger

    return Ledger(open_catalog(load_project(project))).of("shop")


def rows(project: Path) -> list[int]:
    from sluice.catalog.client import open_catalog
    from sluice.config.project import load_project

    table = open_catalog(load_project(project)).load_table(("shop", "orders"))
    return sorted(table.scan(selected_fields=("id",)).to_arrow().column("id").to_pylist())


@pytest.mark.long
def test_a_backfill_takes_exactly_its_hours_beside_an_hourly_run(
    airflow: Airflow, project_folder: Path
) -> None:
    landing = project_folder / "landing"
    recent = put_order(landing, NOW - timedelta(hours=2), 1)
    wait_for(
        "the DAG is known", lambda: DAG in airflow.command("dags", "list"), airflow.home, PATIENCE
    )
    airflow.command("dags", "unpause", DAG)
    wait_for(
        "the hourly run landed", lambda: recent in known(project_folder), airflow.home, PATIENCE
    )

    # The hourly run is at its load now. Four older hours appear, three are asked for.
    hours = [NOW - timedelta(hours=n) for n in (13, 12, 11, 10)]
    late = {hour: put_order(landing, inside(hour), 10 + n) for n, hour in enumerate(hours)}
    first, last = hours[0].isoformat(), hours[2].isoformat()
    airflow.command("backfill", "create", "--dag-id", DAG, "--from-date", first, "--to-date", last)
    wait_for("all runs ended", lambda: ended(airflow.runs(), 4), airflow.home, PATIENCE)

    assert {run["state"] for run in airflow.runs()} == {"success"}, last_words(airflow.home)
    files = known(project_folder)
    assert set(files) == {recent, *(late[hour] for hour in hours[:3])}
    assert len({row.batch_id for row in files.values()}) == 4
    assert {row.state for row in files.values()} == {"loaded"}
    assert rows(project_folder) == [1, 10, 11, 12]


def inside(start: datetime) -> datetime:
    """The hour that begins in the interval that begins at `start`."""
    return (start + timedelta(minutes=59)).replace(minute=0)


def known(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = ledger(project).files.known()
    return found


def ended(runs: list[dict[str, Any]], number: int) -> bool:
    return len(runs) >= number and all(run["state"] in ("success", "failed") for run in runs)
