"""`make up`, as the README says: Airflow on this machine, and a run that a person triggers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from sluice.catalog.client import open_catalog
from sluice.config.project import load_project
from tests import postgres
from tests.airflow.events import put_order
from tests.airflow.shopfiles import PIPELINE_YAML, PROJECT_YAML
from tests.conftest import ROOT

pytestmark = [pytest.mark.airflow, pytest.mark.scheduler, pytest.mark.spark]

RUNS = "/api/v2/dags/sluice_shop/dagRuns"
PATIENCE = 600.0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an Airflow of its own, apart from the developer's."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "airflow.sh", folder / "scripts")
    for name in (".venv", "dags", "plugins", "include"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "sluice.yaml").write_text(PROJECT_YAML)
    by_hand = f"{PIPELINE_YAML}schedule: null\n"
    (folder / "pipelines" / "shop.yaml").write_text(by_hand)
    put_order(folder / "landing", datetime.now(UTC) - timedelta(hours=2), 1)
    return folder


def test_a_run_that_is_triggered_in_the_airflow_of_make_up_publishes(
    checkout: Path, project: Path
) -> None:
    with up(checkout, project) as airflow:
        wait_for_the_dag(airflow)
        assert airflow.patch("/api/v2/dags/sluice_shop", json={"is_paused": False}).is_success
        asked = airflow.post(RUNS, json={"logical_date": None})
        assert asked.is_success, asked.text
        state = ended(airflow, asked.json()["dag_run_id"])

    assert state == "success", words_of_failed_tasks(checkout)
    orders = open_catalog(load_project(project)).load_table(("shop", "orders"))
    assert orders.scan(selected_fields=("id", "status")).to_arrow().to_pylist() == [
        {"id": 1, "status": "new"}
    ]


@contextmanager
def up(checkout: Path, project: Path) -> Iterator[httpx.Client]:
    """Start what `make up` starts; yield a logged-in client; stop as `make down` does."""
    script = str(checkout / "scripts" / "airflow.sh")
    # Of the environment nothing that says how Airflow is set up: all of that is the script's. And a
    # proxy that nobody reaches: no request of Airflow to itself goes there.
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AIRFLOW") and name.lower() != "no_proxy"
    }
    proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    environment = {**mine, **proxies, "SLUICE_PROJECT": str(project)}
    port = str(postgres.free_port())
    try:
        subprocess.run([script, "up", port], env=environment, check=True, timeout=300)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False
        ) as client:
            client.headers["Authorization"] = f"Bearer {token(client, checkout)}"
            yield client
    finally:
        subprocess.run([script, "down"], env=environment, check=True, timeout=60)


def token(client: httpx.Client, checkout: Path) -> str:
    passwords = checkout / ".airflow" / "simple_auth_manager_passwords.json.generated"
    admin = {"username": "admin", "password": json.loads(passwords.read_text())["admin"]}
    found: str = client.post("/auth/token", json=admin).json()["access_token"]
    return found


def wait_for_the_dag(airflow: httpx.Client) -> None:
    deadline = time.monotonic() + PATIENCE
    while airflow.get("/api/v2/dags/sluice_shop").status_code != httpx.codes.OK:
        assert time.monotonic() < deadline, airflow.get("/api/v2/importErrors").text
        time.sleep(2)


def ended(airflow: httpx.Client, run_id: str) -> str:
    """The state in which the run ends."""
    deadline = time.monotonic() + PATIENCE
    while True:
        state: str = airflow.get(f"{RUNS}/{run_id}").json()["state"]
        if state in ("success", "failed"):
            return state
        assert time.monotonic() < deadline, state
        time.sleep(2)


def words_of_failed_tasks(checkout: Path) -> str:
    logs = (checkout / ".airflow" / "logs").rglob("*.log")
    lines = [line for path in logs for line in path.read_text().splitlines()]
    return "\n".join(line[:500] for line in lines if '"level":"error"' in line)
