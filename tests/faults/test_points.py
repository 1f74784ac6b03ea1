"""A process that dies at any named point, and a rerun: the same tables, nothing left over.

Every run tries one of the points, `SLUICE_FAULT_SEED` another one; `make faults` tries all of them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

import pytest

from sluice.faults import Point
from tests.faults.lake import Contents, Lake

pytestmark = [pytest.mark.spark, pytest.mark.faults]
OFTEN: Final = {
    Point.LOAD_EVOLVED: 4, Point.LOAD_PLANNED: 3, Point.LOAD_BRANCHED: 3, Point.LOAD_WRITTEN: 2,
    Point.LOAD_MERGED: 2, Point.PUBLISH_TABLE: 4, Point.ROLLBACK_TABLE: 3,
}  # fmt: skip
"""Points that a batch comes to more than once: how many times each is tried."""
CREATING: Final = [f"{Point.LOAD_CREATED}:{n}" for n in (1, 2, 3)]
RUN: Final = [
    p for p in Point if not p.startswith(("rollback.", "maintain.")) and p is not Point.LOAD_CREATED
]
FAULTS: Final = [f"{point}:{n}" for point in RUN for n in range(1, OFTEN.get(point, 1) + 1)]
UNDO: Final = [
    f"{point}:{n}"
    for point in Point
    if point.startswith("rollback.")
    for n in range(1, OFTEN.get(point, 1) + 1)
]
TRIED: Final = 1


def sample(faults: list[str]) -> list[object]:
    """All faults; those that the seed does not choose are marked for `make faults`."""
    chosen = random.Random(os.environ.get("SLUICE_FAULT_SEED", "0")).sample(faults, TRIED)
    return [f if f in chosen else pytest.param(f, marks=pytest.mark.long) for f in faults]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake at three moments: `empty`; `landed`, with its second hour not loaded; and `loaded`."""
    lake = Lake.make(tmp_path_factory.mktemp("faults") / "shop")
    lake.save("empty")
    code, output = lake.command("run", "shop")
    assert code == 0, output
    lake.land_second_hour()
    lake.save("landed")
    code, output = lake.command("run", "shop")
    assert code == 0, output
    assert lake.leftovers() == []
    lake.save("loaded")
    return lake


@pytest.mark.parametrize("fault", sample(FAULTS))
def test_a_rerun_ends_as_if_nothing_had_happened(lake: Lake, wanted: Contents, fault: str) -> None:
    lake.restore("landed")
    before = lake.contents()
    code, output = lake.command("run", "shop", fault=fault)
    assert code != 0, f"{fault} was never reached: {output}"
    if not fault.startswith("publish."):
        assert _targets(lake.contents()) == _targets(before)

    code, output = lake.command("run", "shop")
    assert code == 0, output
    assert lake.contents() == wanted
    assert lake.leftovers() == []


@pytest.mark.long
@pytest.mark.parametrize("fault", CREATING)
def test_tables_that_are_half_made_are_made_whole(lake: Lake, fault: str) -> None:
    lake.restore("landed")
    wanted = lake.contents()
    lake.restore("empty")
    code, output = lake.command("run", "shop", fault=fault)
    assert code != 0, f"{fault} was never reached: {output}"

    code, output = lake.command("run", "shop")
    assert code == 0, output
    assert lake.contents() == wanted
    assert wanted.keys["shop.orders"] == {"id"}


@pytest.mark.long
@pytest.mark.parametrize("fault", UNDO)
def test_a_rollback_that_dies_is_completed_by_the_next(
    lake: Lake, wanted: Contents, fault: str
) -> None:
    lake.restore("landed")
    before = lake.contents()
    lake.restore("loaded")
    (batch,) = wanted.states.keys() - before.states.keys()
    undo = ("rollback", "shop", "--batch", batch)
    code, output = lake.command(*undo, fault=fault)
    assert code != 0, f"{fault} was never reached: {output}"

    code, output = lake.command(*undo)
    assert code == 0, output
    found = lake.contents()
    assert _targets(found) == _targets(before)
    assert found.states[batch] == "rolled_back"

    assert lake.command("release", "shop", "--batch", batch)[0] == 0
    code, output = lake.command("run", "shop")
    assert code == 0, output
    assert _targets(lake.contents()) == _targets(wanted)


def _targets(contents: Contents) -> dict[str, list[str]]:
    """The content without what is written before a batch is published: its changes,
    its quarantine."""
    return {
        name: rows
        for name, rows in contents.rows.items()
        if name != "quarantine" and not name.endswith("__changes")
    }


def test_the_points_are_those_of_the_code() -> None:
    code = "".join(
        path.read_text()
        for folder in ("include/sluice", "spark_jobs")
        for path in Path(folder).rglob("*.py")
        if path.name != "faults.py"
    )
    assert [p for p in Point if f"reach(Point.{p.name})" not in code] == []
