"""Runs of one pipeline at the same time: each event is loaded once, and the tables are the same."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from tests.faults.lake import PATIENCE_SECONDS, Lake, event, finish

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.long]
RUNS: Final = int(os.environ.get("SLUICE_RUNS", "25"))
HOURS: Final = int(os.environ.get("SLUICE_HOURS", "6"))
# Each hour is a batch of its own, and one after the other has the lease.
PATIENCE: Final = PATIENCE_SECONDS + 120.0 * HOURS


def test_runs_at_the_same_time_load_every_batch_once(tmp_path: Path) -> None:
    lake = Lake.make(tmp_path / "shop")
    assert lake.command("run", "shop")[0] == 0
    lake.land_second_hour()
    lake.save("landed")
    assert lake.command("run", "shop")[0] == 0
    wanted = lake.contents()

    lake.restore("landed")
    outcomes = [finish(run) for run in [lake.start("run", "shop") for _ in range(RUNS)]]
    assert [(code, output) for code, output in outcomes if code != 0] == []
    assert sum("load: batch" in output for _, output in outcomes) == 1, outcomes
    assert lake.contents() == wanted
    assert lake.leftovers() == []


def hours(count: int) -> list[list[str]]:
    """Events of hours that meet in the same keys, and are in another order than the hours."""
    return [
        [
            *(
                event("u", "orders", 1000 + 40 * (hour * 7 % count) + k, {"id": k, "total": hour})
                for k in range(hour % 5, 40, 5)
            ),
            event("u", "customers", 5000 + hour, {"id": hour % 8, "name": f"h{hour}"}),
            event("d", "customers", 6000 + hour, before={"id": (hour + 3) % 9, "name": ""}),
            event("c", "visits", 7000 + hour, {"at": hour % 3}),
        ]
        for hour in range(count)
    ]


def windows(count: int) -> list[list[str]]:
    """The options of a backfill's run for each of the hours after the first, and of the hourly."""
    day = datetime(2026, 3, 1, 1, tzinfo=UTC)
    starts = [day + timedelta(hours=hour) for hour in range(count)]
    asked = [(start, start + timedelta(hours=1)) for start in starts]
    return [[f"--from={a:%Y-%m-%dT%H:%M:%S}", f"--to={b:%Y-%m-%dT%H:%M:%S}"] for a, b in asked]


def test_a_backfill_of_many_hours_at_the_same_time_as_the_hourly_run(tmp_path: Path) -> None:
    lake = Lake.make(tmp_path / "shop", "max_files_per_batch: 1\n")
    assert lake.command("run", "shop")[0] == 0
    for hour, events in enumerate(hours(HOURS)):
        lake.land(f"dt=2026-03-{1 + (hour + 1) // 24:02}/hr={(hour + 1) % 24:02}/h.jsonl", events)
    lake.save("landed")
    assert finish(lake.start("run", "shop"), PATIENCE)[0] == 0
    wanted = lake.contents()

    lake.restore("landed")
    started = [lake.start("run", "shop", *window) for window in [*windows(HOURS - 1), []]]
    outcomes = [finish(run, PATIENCE) for run in started]
    assert [(code, output) for code, output in outcomes if code != 0] == []
    assert lake.contents() == wanted
    assert lake.leftovers() == []
