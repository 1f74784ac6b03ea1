"""The real DAG with the real stages and a real spark-submit, on the embedded lake."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.spark_submit.submit import LOAD_BATCH
from tests.airflow.events import event, put, put_order
from tests.faults.lake import descendants, kill

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

HOUR = datetime(2026, 3, 1, 5, tzinfo=UTC)
Run = Callable[..., tuple[Any, dict[str, str]]]


@pytest.fixture(scope="module")
def lake(project: Path) -> Path:
    """The project without tables and files."""
    for folder in ("data", "landing"):
        shutil.rmtree(project / folder, ignore_errors=True)
    (project / "landing").mkdir()
    return project


@pytest.fixture
def run(parsed: Callable[[], dict[str, Any]], states: Callable[[Any], dict[str, str]]) -> Run:
    def once(**given: Any) -> tuple[Any, dict[str, str]]:
        dag = parsed()["sluice_shop"]
        for task in dag.tasks:
            task.retry_delay, task.retry_exponential_backoff = timedelta(0), 0
        finished = dag.test(**{"logical_date": None, **given})
        return finished, states(finished)

    return once


def orders(project: Path, table_name: str = "orders") -> list[tuple[Any, ...]]:
    """The rows of a table, in order of their key."""
    table = _catalog(project).load_table(("shop", table_name))
    rows = table.scan(selected_fields=("id", "status")).to_arrow().to_pylist()
    return sorted((row["id"], row["status"]) for row in rows)


def refs(project: Path) -> set[str]:
    return set(_catalog(project).load_table(("shop", "orders")).metadata.refs)


def _catalog(project: Path) -> Any:
    from sluice.catalog.client import open_catalog
    from sluice.config.project import load_project

    return open_catalog(load_project(project))


def test_hours_load_fail_and_load_again(lake: Path, run: Run) -> None:
    landing = lake / "landing"
    put_order(landing, HOUR, 1)
    second = put_order(landing, HOUR + timedelta(hours=1), 2)
    put_order(landing, HOUR + timedelta(hours=7), 8)
    # A window takes its hour and no other.
    window = {
        "window_start": HOUR.isoformat(),
        "window_end": (HOUR + timedelta(hours=1)).isoformat(),
    }
    finished, _ = run(run_conf=window)
    assert finished.state == "success"
    assert orders(lake) == [(1, "new")]
    # Nothing new before that hour: skipped, and the table is where it was.
    finished, states = run(logical_date=HOUR + timedelta(hours=1))
    assert states["land"] == "skipped"
    # A run of a past hour takes everything before its end. Bad records above the limit: red, and
    # every table as it was.
    before = refs(lake), orders(lake)
    broken = put(landing, HOUR + timedelta(hours=2), "broken", ["not json"] * 3)
    set_policy(lake, "fail")
    finished, states = run(run_conf={"files": None}, logical_date=HOUR + timedelta(hours=3))
    assert finished.state == "failed"
    assert states["batch.load[0]"] == "failed"
    assert (refs(lake), orders(lake)) == before
    # The failed batch holds nobody up; with the policy changed it is loaded by its file's name.
    set_policy(lake, "quarantine")
    deleted = event(2000, "d", {"id": 1, "status": "new"}, 1)
    put(landing, HOUR + timedelta(hours=3), "deleted", [deleted])
    finished, _ = run()
    assert finished.state == "success"
    assert orders(lake) == [(8, "new")]
    finished, states = run(run_conf={"files": [second, broken]})
    assert finished.state == "success"
    assert states["batch.publish[0]"] == "success"
    assert orders(lake) == [(2, "new"), (8, "new")]
    assert len(quarantine(lake)) == 3


@pytest.mark.long
def test_a_driver_that_is_killed_is_tried_again(lake: Path, run: Run) -> None:
    put_order(lake / "landing", HOUR + timedelta(hours=20), 100)
    finished, _ = run()
    assert finished.state == "success"
    before = orders(lake)
    put_order(lake / "landing", HOUR + timedelta(hours=21), 101)
    with killed_in_its_merge(lake) as killed:
        finished, _ = run()
    assert killed
    assert finished.state == "success"
    (load,) = (ti for ti in finished.get_task_instances() if ti.task_id == "batch.load")
    assert load.try_number == 2
    assert orders(lake) == [*before, (101, "new")]
    assert not any(ref.startswith("batch_") for ref in refs(lake))


@pytest.mark.long
def test_a_table_that_is_left_out_makes_its_run_red_and_the_next_one_green(
    lake: Path, run: Run
) -> None:
    """Which table has no key is known once the pipeline says it: until then it is left out."""
    set_line(lake, "consistency", "table")
    set_table(lake, "public.notes", "{}")
    hour = HOUR + timedelta(hours=30)
    put_order(lake / "landing", hour, 199)
    finished, _ = run()
    before = orders(lake)
    put_order(lake / "landing", hour, 200)
    put(lake / "landing", hour, "notes", [event(5000, "c", {"id": 1, "status": "x"}, 1, "notes")])
    finished, states = run()
    assert finished.state == "failed"
    assert orders(lake) == [*before, (200, "new")]
    of_batches = {task: state for task, state in states.items() if task.startswith("batch.")}
    assert of_batches == {
        "batch.load[0]": "success", "batch.publish[0]": "success",
        "batch.left_out[0]": "failed", "batch.rollback[0]": "success",
    }  # fmt: skip
    set_table(lake, "public.notes", "{key: [id]}")
    # Of its own accord a run takes a batch up half an hour after it failed.
    ends = (hour + timedelta(hours=1)).isoformat()
    finished, states = run(run_conf={"window_start": hour.isoformat(), "window_end": ends})
    assert finished.state == "success", states
    assert orders(lake) == [*before, (200, "new")]
    assert orders(lake, "notes") == [(1, "x")]


@contextmanager
def killed_in_its_merge(project: Path) -> Iterator[list[int]]:
    """The driver is killed once, with its JVM, when it creates a branch."""
    killed: list[int] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            if any(ref.startswith("batch_") for ref in refs(project)):
                killed.extend(p for p in descendants(os.getpid()) if LOAD_BATCH.name in words(p))
                kill(reversed(killed))
                return
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()


def words(pid: int) -> str:
    """A process's command line; empty if the process has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def quarantine(project: Path) -> list[Any]:
    return list(_catalog(project).load_table("sluice.quarantine").scan().to_arrow().to_pylist())


def set_policy(project: Path, policy: str) -> None:
    set_line(project, "on_bad_record", policy)


def set_line(project: Path, name: str, value: str) -> None:
    """Set one of the pipeline's own settings."""
    path = project / "pipelines" / "shop.yaml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}:")]
    path.write_text("\n".join([*kept, f"{name}: {value}", ""]))


def set_table(project: Path, name: str, config: str) -> None:
    """Configure a table in the pipeline's file."""
    path = project / "pipelines" / "shop.yaml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith(f"  {name}:")]
    kept.insert(kept.index("tables:") + 1, f"  {name}: {config}")
    path.write_text("\n".join([*kept, ""]))
