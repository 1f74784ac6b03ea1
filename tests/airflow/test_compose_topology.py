"""docker-compose.yaml as plain processes: its own commands, environment and health checks, with the
names of its machines as ports of this one, from a file in S3 to a published table.

What only containers have is not tested here: images, volumes, users.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import httpx
import psycopg2
import pytest
import yaml

from sluice.catalog.client import open_catalog
from sluice.config.project import load_project
from tests import postgres
from tests.airflow.events import event
from tests.airflow.waiting import last_words, wait_for
from tests.conftest import ROOT
from tests.s3_server import S3Server, s3_server

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.scheduler,
    pytest.mark.spark,
    pytest.mark.s3,
    pytest.mark.long,
    # Not every developer may install a server; in CI `make setup-tests` fails without one.
    pytest.mark.skipif(postgres.programs() is None, reason=postgres.MISSING),
]

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
# In the order in which compose starts them.
STARTED = (
    "spark-master", "spark-worker", "api-server", "scheduler", "dag-processor", "triggerer",
)  # fmt: skip
RUNS = "/api/v2/dags/sluice_shop/dagRuns"
PATIENCE = 600.0


@dataclass(frozen=True)
class Topology:
    """Where the machines of the compose file are on this one, the variables of `.env`, and those
    that every process gets in addition."""

    places: Mapping[str, str]
    variables: Mapping[str, str]
    environment: Mapping[str, str]

    @property
    def api(self) -> str:
        """Airflow's interface."""
        return self.places["http://localhost:8080"]

    def service(self, name: str) -> dict[str, Any]:
        text = json.dumps(COMPOSE["services"][name])
        text = re.sub(r"\$\{(\w+)(?::[?-][^}]*)?\}", lambda found: self.variables[found[1]], text)
        longest_first = sorted(self.places, key=len, reverse=True)
        names = "|".join(re.escape(place) for place in longest_first)
        placed: dict[str, Any] = json.loads(
            re.sub(names, lambda found: self.places[found[0]], text)
        )
        return placed

    def environment_of(self, name: str) -> dict[str, str]:
        own = self.service(name).get("environment", {})
        return {**self.environment, **{key: value for key, value in own.items() if value}}


@pytest.fixture
def topology(tmp_path: Path) -> Iterator[Topology]:
    with postgres.server() as database, s3_server(tmp_path / "s3") as s3:
        variables = variables_with(s3)
        create_databases(database, variables["CATALOG_PASSWORD"])
        yield Topology(places_of(tmp_path, database, s3), variables, environment_of_image(tmp_path))


def variables_with(s3: S3Server) -> dict[str, str]:
    """The variables that a person fills in in `.env`."""
    return {
        "POSTGRES_PASSWORD": secrets.token_hex(8),
        "CATALOG_PASSWORD": secrets.token_hex(8),
        "AIRFLOW_ADMIN_PASSWORD": secrets.token_hex(8),
        "AIRFLOW_JWT_SECRET": secrets.token_hex(64),
        "AIRFLOW_API_SECRET_KEY": secrets.token_hex(32),
        "AIRFLOW_FERNET_KEY": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        "S3_ACCESS_KEY": s3.access_key,
        "S3_SECRET_KEY": s3.secret_key,
        "SPARK_WORKER_CORES": "2",
        "SPARK_WORKER_MEMORY": "4g",
        "NO_PROXY": "localhost",
    }


def places_of(folder: Path, database: str, s3: S3Server) -> dict[str, str]:
    api, health, master, master_page, worker_page = (str(postgres.free_port()) for _ in range(5))
    return {
        "postgres:5432": database.split("@")[1].split("/")[0],
        "http://s3:7070": s3.endpoint,
        "http://api-server:8080": f"http://127.0.0.1:{api}",
        "http://localhost:8080": f"http://127.0.0.1:{api}",
        "http://127.0.0.1:8080": f"http://127.0.0.1:{api}",
        "http://127.0.0.1:8974": f"http://127.0.0.1:{health}",
        "spark-master:7077": f"127.0.0.1:{master}",
        "spark-master": "127.0.0.1",
        "spark-worker": "127.0.0.1",
        "7077": master,
        "8081": master_page,
        "8082": worker_page,
        "/opt/sluice": str(ROOT),
        "/opt/airflow": str(folder / "airflow"),
        "/tmp/spark": str(folder / "spark"),
    }


def environment_of_image(folder: Path) -> dict[str, str]:
    """The environment in the Dockerfile, and what a process needs that shares its
    machine with others."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return mine | {
        "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def create_databases(address: str, catalog_password: str) -> None:
    """As the image of PostgreSQL does at its first start."""
    with closing(psycopg2.connect(address)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE airflow")
    port = address.rsplit(":", 1)[1].split("/")[0]
    subprocess.run(
        [ROOT / "docker" / "create-catalog.sh"], check=True,
        env=os.environ | {
            "PATH": f"{postgres.programs()}:{os.environ['PATH']}", "PGHOST": "127.0.0.1",
            "PGPORT": port, "POSTGRES_USER": postgres.USER, "POSTGRES_DB": "airflow",
            "CATALOG_PASSWORD": catalog_password,
        },
    )  # fmt: skip


def test_a_file_in_s3_becomes_a_published_table(
    topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "airflow").mkdir()
    subprocess.run(
        topology.service("init")["command"], env=topology.environment_of("init"), check=True
    )
    put_order(topology)
    with all_running(topology, tmp_path), client_of(topology, tmp_path) as airflow:
        state = triggered(airflow)
    assert state == "success", last_words(tmp_path)

    for name, value in topology.environment_of("scheduler").items():
        monkeypatch.setenv(name, value)
    table = open_catalog(load_project(ROOT / "docker" / "project")).load_table(("shop", "orders"))
    assert table.location().startswith("s3://lake/warehouse/")
    assert table.scan(selected_fields=("id", "status")).to_arrow().to_pylist() == [
        {"id": 1, "status": "new"}
    ]
    executors = [path.name for path in (tmp_path / "spark").glob("app-*/*")]
    assert executors, "nothing ran on the cluster"


def put_order(topology: Topology) -> None:
    environment = topology.environment_of("scheduler")
    s3 = boto3.client(
        "s3",
        endpoint_url=environment["SLUICE_S3_ENDPOINT"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    )
    hour = datetime.now(UTC) - timedelta(hours=2)
    line = event(1001, "c", {"id": 1, "status": "new"}, int(hour.timestamp() * 1000))
    key = f"shop/dt={hour:%Y-%m-%d}/hr={hour:%H}/order.jsonl"
    s3.put_object(Bucket="landing", Key=key, Body=f"{line}\n".encode())


@contextmanager
def all_running(topology: Topology, folder: Path) -> Iterator[None]:
    started = []
    try:
        for name in STARTED:
            with (folder / f"{name}.log").open("wb") as log:
                process = subprocess.Popen(
                    topology.service(name)["command"], env=environment(topology, name),
                    stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            started.append(process)
            wait_for(f"{name} is healthy", partial(is_healthy, topology, name), folder, PATIENCE)
        yield
    finally:
        for process in reversed(started):
            stop(process)


def environment(topology: Topology, name: str) -> dict[str, str]:
    """The environment of a service, with ports of this machine in place of the container's."""
    health = topology.places["http://127.0.0.1:8974"].rpartition(":")[2]
    return topology.environment_of(name) | {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": topology.api.rpartition(":")[2],
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": "127.0.0.1",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": health,
    }


def is_healthy(topology: Topology, name: str) -> bool:
    check = topology.service(name)["healthcheck"]["test"][1:]
    return not subprocess.run(
        check, env=environment(topology, name), capture_output=True, check=False
    ).returncode


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started."""
    os.killpg(process.pid, 15)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait(10)


@contextmanager
def client_of(topology: Topology, folder: Path) -> Iterator[httpx.Client]:
    """A client for Airflow's interface, logged in as the admin that the init service created."""
    admin = {"username": "admin", "password": topology.variables["AIRFLOW_ADMIN_PASSWORD"]}
    with httpx.Client(base_url=topology.api, timeout=60, trust_env=False) as client:
        found = client.post("/auth/token", json=admin).json()["access_token"]
        client.headers["Authorization"] = f"Bearer {found}"
        known = "/api/v2/dags/sluice_shop"
        wait_for("the DAG is known", lambda: client.get(known).is_success, folder, PATIENCE)
        yield client


def triggered(airflow: httpx.Client) -> str:
    """The states in which the DAG's runs end: one by hand, and that of its schedule, which begins
    as it is switched on and may be the one that has the file."""
    assert airflow.patch("/api/v2/dags/sluice_shop", json={"is_paused": False}).is_success
    asked = airflow.post(RUNS, json={"logical_date": None})
    assert asked.is_success, asked.text
    deadline = time.monotonic() + PATIENCE
    while (states := states_of_runs(airflow)) & {"queued", "running"}:
        assert time.monotonic() < deadline, states
        time.sleep(2)
    return ", ".join(sorted(states))


def states_of_runs(airflow: httpx.Client) -> set[str]:
    return {run["state"] for run in airflow.get(RUNS).json()["dag_runs"]}
