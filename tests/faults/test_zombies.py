"""A process that is suspended and given up, and continues when another one has done its work.

Its machine stood still, or its network was gone: it is alive, and does not know what happened
since.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from sluice.errors import TransientError
from sluice.faults import Point
from sluice.operations import stages
from tests.all_readable import land
from tests.faults.lake import Contents, Lake, descendants, event, finish, kill

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.long]
PATIENCE_SECONDS: Final = 600
LEASE_SECONDS: Final = 10
SUSPENSIONS: Final = 5
_BATCH: Final = re.compile(r"'_batch_id': '[^']*'")
DRIVER: Final = [
    Point.LOAD_PLANNED, Point.LOAD_DECODED, Point.LOAD_BRANCHED, Point.LOAD_MERGED,
    Point.LOAD_RESULT,
]  # fmt: skip
PUBLISHER: Final = [
    Point.PUBLISH_HELD, Point.PUBLISH_INTENT, Point.PUBLISH_MARKED, Point.PUBLISH_TABLE,
    Point.PUBLISH_RECORDED, Point.PUBLISH_FILES,
]  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose second hour is landed, and its content after that is loaded."""
    lake = Lake.make(tmp_path_factory.mktemp("zombies") / "shop")
    with (lake.root / "pipelines" / "shop.yaml").open("a") as pipeline:
        pipeline.write(f"lease_seconds: {LEASE_SECONDS}\n")
    assert lake.command("run", "shop")[0] == 0
    lake.land_second_hour()
    lake.save("landed")
    assert lake.command("run", "shop")[0] == 0
    lake.save("loaded")
    return lake


def suspended(lake: Lake, point: Point) -> tuple[subprocess.Popen[str], int]:
    """Return a run, and that of its processes that is suspended at the point, in the lake as it was
    landed.

    Its thread that renews the lease may be suspended while it reads or commits: it then keeps
    SQLite's lock until it continues, and no other process can commit. Such a run is ended, and
    tried again.
    """
    for _ in range(SUSPENSIONS):
        lake.restore("landed")
        run, pid = _stopped(lake, point)
        if is_free(lake.root / "data" / "catalog.db"):
            return run, pid
        kill([run.pid, *descendants(run.pid)])
        finish(run)
    raise AssertionError(f"every process that was stopped at {point} held SQLite's lock")


def _stopped(lake: Lake, point: Point) -> tuple[subprocess.Popen[str], int]:
    run = lake.start("run", "shop", fault=f"{point}:1:stop")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for pid in (run.pid, *descendants(run.pid)):
            if state(pid) == "T":
                return run, pid
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.2)
    raise AssertionError(f"{point} was never reached")


def is_free(catalog: Path) -> bool:
    """Whether no process reads or writes the catalog at the moment, so that others can."""
    with closing(sqlite3.connect(catalog, timeout=1, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.parametrize("point", [*DRIVER, *PUBLISHER])
def test_process_that_wakes_up_late_changes_nothing(
    lake: Lake, wanted: Contents, point: Point
) -> None:
    run, pid = suspended(lake, point)
    try:
        code, output = lake.command("run", "shop")
        assert code == 0, output
        assert lake.contents() == wanted
    finally:
        os.kill(pid, signal.SIGCONT)
    finish(run)
    assert lake.contents() == wanted
    assert lake.command("reconcile", "shop")[0] == 0
    assert lake.leftovers() == []


@pytest.mark.parametrize("point", [Point.LOAD_PLANNED, Point.PUBLISH_TABLE, Point.PUBLISH_RECORDED])
def test_batch_that_was_rolled_back_meanwhile_stays_rolled_back(
    lake: Lake, wanted: Contents, point: Point
) -> None:
    lake.restore("landed")
    before = lake.contents()
    run, pid = suspended(lake, point)
    (batch,) = wanted.states.keys() - before.states.keys()
    try:
        assert lake.command("run", "shop")[0] == 0
        code, output = lake.command("rollback", "shop", "--batch", batch)
        assert code == 0, output
        undone = lake.contents()
    finally:
        os.kill(pid, signal.SIGCONT)
    finish(run)
    assert lake.contents() == undone
    assert undone.states[batch] == "rolled_back"
    assert lake.context().ledger.files.known().keys() >= {"dt=2026-03-01/hr=01/b.jsonl"}
    held = {f.state for f in lake.context().ledger.files.of_batch(batch)}
    assert held == {"held"}


def test_a_load_beside_which_another_batch_was_published_begins_anew(lake: Lake) -> None:
    """What it read when it took the lease does not count that batch."""
    run, pid = suspended(lake, Point.LOAD_BRANCHED)
    try:
        lake.land("dt=2026-03-01/hr=02/d.jsonl", third_hour())
        ctx = lake.context()
        (key,) = land(ctx)
        stages.load(ctx, key)
        stages.publish(ctx, key)
    finally:
        os.kill(pid, signal.SIGCONT)
    code, output = finish(run)
    assert code == TransientError.exit_code
    # Its next step says so, or the renewal of its lease, whichever comes first.
    assert "was taken over or undone meanwhile" in output or "its lease lapsed" in output
    assert lake.command("run", "shop")[0] == 0
    found = lake.contents()
    lake.restore("landed")
    lake.land("dt=2026-03-01/hr=02/d.jsonl", third_hour())
    assert lake.command("run", "shop")[0] == 0
    assert without_batches(found) == without_batches(lake.contents())


def third_hour() -> list[str]:
    return [
        event("u", "orders", 200, {"id": 5, "total": "7.00"}),
        *(event("c", "visits", 210 + k, {"at": 7}) for k in range(3)),
    ]


def without_batches(contents: Contents) -> dict[str, list[str]]:
    """The rows of targets, whichever batch brought them."""
    tables = {name: rows for name, rows in contents.rows.items() if name.startswith("shop.")}
    return {name: [_BATCH.sub("", row) for row in rows] for name, rows in tables.items()}
