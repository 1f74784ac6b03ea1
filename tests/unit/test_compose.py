"""docker-compose.yaml against what it rests on: .env.example, Airflow's settings, our own code.

Where compose is installed it parses the file as well; nothing is started here, but by
`tests/airflow/test_compose_topology.py`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest
import yaml

from sluice import environment
from sluice.config.project import load_project

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yaml"
TEXT = COMPOSE.read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
ENVIRONMENTS = {name: service.get("environment", {}) for name, service in SERVICES.items()}
AIRFLOW_SERVICES = ["api-server", "scheduler", "dag-processor", "triggerer", "init"]
# One that runs to its end is waited for by `service_completed_successfully`, not by its health.
RUN_ONCE = {name for name, service in SERVICES.items() if service.get("restart") == "no"}
OURS = re.compile("SLUICE_|SCHEMA_REGISTRY_")
SECRET = re.compile(r"PASSWORD|SECRET|ACCESS_KEY|FERNET|TOKEN", re.IGNORECASE)
PINNED = re.compile(r"^[a-z0-9./-]+:v?\d+\.\d+[\w.-]*$")


def services() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", sorted(SERVICES))


def example_variables() -> dict[str, str]:
    lines = (ROOT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def airflow_settings() -> set[str]:
    """The environment variables of every core setting, from Airflow's own list of them."""
    spec = find_spec("airflow")  # without importing it, which takes seconds
    assert spec is not None
    assert spec.submodule_search_locations is not None
    places = [
        Path(place) / "config_templates/config.yml" for place in spec.submodule_search_locations
    ]
    sections = yaml.safe_load(next(place for place in places if place.is_file()).read_text())
    return {
        f"AIRFLOW__{section}__{option}".upper()
        for section, content in sections.items()
        for option in content["options"]
    }


@services()
def test_image_is_pinned(name: str) -> None:
    assert PINNED.match(SERVICES[name]["image"]), SERVICES[name]["image"]


@services()
def test_health_is_checked(name: str) -> None:
    check = SERVICES[name].get("healthcheck")
    if name in RUN_ONCE:
        assert check is None
        return
    assert check is not None
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= set(check)


@services()
def test_waits_only_for_what_exists_and_can_be_waited_for(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        finishes = other in RUN_ONCE
        expected = "service_completed_successfully" if finishes else "service_healthy"
        assert other in SERVICES
        assert wait["condition"] == expected


def test_ports_are_open_to_this_machine_alone() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@services()
def test_named_volumes_are_declared(name: str) -> None:
    declared = yaml.safe_load(TEXT)["volumes"]
    for volume in SERVICES[name].get("volumes", []):
        source = volume.split(":")[0]
        assert source in declared or (ROOT / source).exists(), volume


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_secrets_come_from_the_environment(name: str) -> None:
    for variable, value in ENVIRONMENTS[name].items():
        secret = SECRET.search(variable) and not variable.endswith("_FILE")
        if secret and value is not None:
            assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), variable
        assert not re.search(r"://[^/@\s]*:[^$/@\s][^/@\s]*@", str(value)), variable


def test_variables_are_in_the_example() -> None:
    assert set(re.findall(r"\$\{(\w+)", TEXT)) == set(example_variables())


def test_example_holds_no_secret() -> None:
    assert not [
        name for name, value in example_variables().items() if SECRET.search(name) and value
    ]


def without_a_value(name: str) -> set[str]:
    """The variables that compose passes on to a service where `.env` or the shell has them."""
    return {variable for variable, value in ENVIRONMENTS[name].items() if value is None}


def test_variables_passed_on_without_a_value_are_in_the_example() -> None:
    listed = re.findall(r"^#([A-Z_]+)=$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert without_a_value("scheduler") == set(listed)


def test_airflow_settings_exist() -> None:
    used = {name for env in ENVIRONMENTS.values() for name in env if name.startswith("AIRFLOW__")}
    assert used
    assert used <= airflow_settings()


@pytest.mark.parametrize("name", AIRFLOW_SERVICES)
def test_airflow_processes_share_their_settings(name: str) -> None:
    reference = ENVIRONMENTS["api-server"]
    assert {key: ENVIRONMENTS[name].get(key) for key in reference} == reference


@pytest.mark.parametrize("name", ["api-server", "dag-processor", "triggerer", "spark-master"])
def test_what_runs_no_task_has_no_secret_of_the_lake(name: str) -> None:
    assert set(environment.SECRETS) & set(ENVIRONMENTS[name]) == set()


def test_dags_are_parsed_without_the_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in environment.SECRETS:
        monkeypatch.delenv(name, raising=False)
    assert load_project(ROOT / "docker" / "project").pipelines.keys() == {"shop"}


def test_what_asks_s3_has_its_keys() -> None:
    keys = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", environment.ENV_S3_ENDPOINT}
    for name in ("init", "scheduler", "spark-worker"):
        assert keys <= set(ENVIRONMENTS[name])


def test_no_request_of_one_service_to_another_goes_to_a_proxy() -> None:
    """Docker gives the one in its configuration to every container."""
    asked = set(re.findall(r"http://([\w.-]+)", TEXT))
    for name in {*SERVICES} - {"postgres", "s3"}:
        for variable in ("NO_PROXY", "no_proxy"):
            assert asked <= set(ENVIRONMENTS[name][variable].split(","))


def our_code() -> str:
    folders = ("include", "spark_jobs", "plugins", "dags")
    return "\n".join(
        path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))
    )


def test_our_settings_are_read_by_our_code() -> None:
    used = {name for env in ENVIRONMENTS.values() for name in env if OURS.match(name)}
    sources = our_code()
    assert {name for name in used if name not in sources} == set()


def test_what_our_code_reads_is_passed_to_the_drivers() -> None:
    """But for what the catalog's address has in it, what the S3 server here has not, and a fault
    for tests."""
    named = {value for name, value in vars(environment).items() if name.startswith("ENV_")}
    read = named | set(re.findall(r'environ\.get\("(\w+)"\)', our_code()))
    elsewhere = {"PGUSER", "PGPASSWORD", "AWS_SESSION_TOKEN", environment.ENV_FAULT}
    assert read - elsewhere <= set(ENVIRONMENTS["scheduler"])


def test_driver_and_executors_are_one_image() -> None:
    assert {SERVICES[name]["image"] for name in ["scheduler", "spark-master", "spark-worker"]} == {
        SERVICES["api-server"]["image"]
    }


def gigabytes(memory: str) -> int:
    assert memory.endswith("g"), memory
    return int(memory[:-1])


def test_a_worker_has_room_for_an_executor() -> None:
    """A driver without executors waits for them until its time limit."""
    project = yaml.safe_load((ROOT / "docker" / "project" / "sluice.yaml").read_text())
    needed = gigabytes(project["spark"]["conf"]["spark.executor.memory"])
    defaults = re.findall(r"\$\{SPARK_WORKER_MEMORY:-(\w+)\}", TEXT)
    assert defaults
    for given in [*defaults, example_variables()["SPARK_WORKER_MEMORY"]]:
        assert gigabytes(given) >= needed
    assert "spark.executor.memory" in (ROOT / ".env.example").read_text()


def test_built_from_stages_that_exist() -> None:
    stages = set(
        re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    )
    assert {
        service["build"]["target"] for service in SERVICES.values() if "build" in service
    } <= stages


def test_s3_server_is_the_one_of_the_tests() -> None:
    versions = {
        re.search(r"versitygw@v([\d.]+)", (ROOT / path).read_text())[1]  # type: ignore[index]
        for path in ("Dockerfile", "scripts/setup_tests.sh")
    }
    assert versions == {SERVICES["s3"]["image"].partition(":")[2]}


def test_base_images_are_pinned() -> None:
    images = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert images
    assert [image for image in images if not PINNED.match(image)] == []


def composer() -> list[str] | None:
    """Compose's own parser: Docker's plugin, or the program of its own that it was before."""
    known = (["docker", "compose"], ["docker-compose"])
    there = (command for command in known if shutil.which(command[0]))
    return next((c for c in there if not subprocess.call([*c, "version"], stdout=DEVNULL)), None)


def test_docker_compose_accepts_the_file(tmp_path: Path) -> None:
    # Only the parser needs to be installed; the other tests of this file read the file without.
    compose = composer()
    if compose is None:
        pytest.skip("no docker compose nor docker-compose on this machine")
    env = tmp_path / ".env"
    env.write_text("".join(f"{name}=x\n" for name in example_variables()))
    run = subprocess.run(
        [*compose, "--env-file", str(env), "-f", str(COMPOSE), "config", "--quiet"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
