"""Processes killed at any time, any of them: reruns end as if nothing had happened.

`SLUICE_KILLS=200 make faults` tries harder; `SLUICE_FAULT_SEED` repeats what a run tried.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Final

import pytest

from tests.faults.lake import Lake, descendants, finish, kill

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.long]
KILLS: Final = int(os.environ.get("SLUICE_KILLS", "10"))
SEED: Final = os.environ.get("SLUICE_FAULT_SEED") or str(time.time_ns())
RERUNS_AT_MOST: Final = 3


def test_kills_at_random_times(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    lake = Lake.make(tmp_path / "shop")
    assert lake.command("run", "shop")[0] == 0
    lake.land_second_hour()
    lake.save("landed")
    began = time.monotonic()
    assert lake.command("run", "shop")[0] == 0
    whole = time.monotonic() - began
    wanted = lake.contents()

    for number in range(KILLS):
        lake.restore("landed")
        after, who = rng.uniform(0, whole), rng.choice(["all", "submitter", "driver"])
        tried = f"seed {SEED}, kill {number}: {who} after {after:.2f} of {whole:.2f} s"
        print(tried, flush=True)
        process = lake.start("run", "shop")
        time.sleep(after)
        below = descendants(process.pid)
        kill({"all": [process.pid, *below], "submitter": [process.pid], "driver": below}[who])
        finish(process)
        reruns = [lake.command("run", "shop")]
        while reruns[-1][0] != 0 and len(reruns) < RERUNS_AT_MOST:
            reruns.append(lake.command("run", "shop"))
        assert reruns[-1][0] == 0, (tried, reruns)
        assert lake.contents() == wanted, (tried, reruns)
        assert lake.leftovers() == [], (tried, reruns)
