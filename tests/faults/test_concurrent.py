"""Runs of one pipeline at the same time: each event is loaded once, and the tables are the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.faults.lake import Lake, finish

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.long]
RUNS: Final = int(os.environ.get("SLUICE_RUNS", "25"))


def test_runs_at_the_same_time_load_every_batch_once(tmp_path: Path) -> None:
    lake = Lake.make(tmp_path / "shop")
    assert lake.command("run", "shop")[0] == 0
    lake.land_second_hour()
    lake.save("landed")
    assert lake.command("run", "shop")[0] == 0
    wanted = lake.contents()

    lake.restore("landed")
    told = [finish(run) for run in [lake.start("run", "shop") for _ in range(RUNS)]]
    assert [(code, said) for code, said in told if code != 0] == []
    assert sum("load: batch" in said for _, said in told) == 1, told
    assert lake.contents() == wanted
    assert lake.leftovers() == []
