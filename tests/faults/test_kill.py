"""The Spark process killed in the middle of a merge: the retry ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.conftest import Shop, event

pytestmark = [pytest.mark.spark, pytest.mark.faults]
SLUICE = str(Path(sys.executable).parent / "sluice")
PATIENCE_SECONDS = 120


def run(shop: Shop) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [SLUICE, "run", "shop", "--project", str(shop.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    told, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, told.decode()


def children(pid: int) -> list[int]:
    """Everything below a process, the deepest last."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *children(int(child))]
    return found


def wait_for_branch(shop: Shop, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(ref.startswith("batch_") for ref in shop.refs()):
        assert process.poll() is None, finish(process)
        assert time.monotonic() < deadline, "the batch never reached its merge"
        time.sleep(0.02)


def test_a_driver_killed_in_its_merge_leaves_nothing_behind(shop: Shop) -> None:
    shop.put("1", [event("c", k, "new", 10 + k) for k in range(200)])
    code, told = finish(run(shop))
    assert code == 0, told
    before = shop.rows()

    shop.put(
        "2", [event("u", k, "paid", 1000 + k) for k in range(100)] + [event("d", 150, "", 2000)]
    )
    process = run(shop)
    wait_for_branch(shop, process)
    for child in reversed(children(process.pid)):
        os.kill(child, signal.SIGKILL)
    code, told = finish(process)
    assert code != 0
    assert shop.rows() == before

    code, told = finish(run(shop))
    assert code == 0, told
    assert shop.rows() == [(k, "paid" if k < 100 else "new") for k in range(200) if k != 150]
    assert not any(ref.startswith("batch_") for ref in shop.refs())
    assert shop.context().ledger.unfinished("shop") == []
