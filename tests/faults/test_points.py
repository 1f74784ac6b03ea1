"""A process that dies at any named point, and a rerun: the same tables, nothing left over.

Every run tries one of the points, `SLUICE_FAULT_SEED` another one; `make faults` tries all of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from sluice.faults import Point
from tests.faults.lake import Contents, Lake

pytestmark = [pytest.mark.spark, pytest.mark.faults]
OFTEN: Final = {
    Point.LOAD_STATEMENTS: 2, Point.LOAD_CREATED: 3, Point.LOAD_IDENTIFIED: 2, Point.LOAD_ADDED: 4,
    Point.LOAD_PROMOTED: 2, Point.LOAD_WIDER: 3, Point.LOAD_EVOLVED: 4, Point.LOAD_PLANNED: 3,
    Point.LOAD_CHANGES: 4, Point.LOAD_BRANCHED: 3, Point.LOAD_WRITTEN: 6, Point.LOAD_MERGED: 2,
    Point.PUBLISH_TABLE: 4, Point.ROLLBACK_TABLE: 3, Point.TABLE_PROPERTY: 2,
    Point.TABLE_CHANGES: 2,
}  # fmt: skip
"""Points that a batch comes to more than once: how many times each is tried."""
NEW_LAKE: Final = (
    Point.LAKE_LEDGER, Point.LAKE_MARKED, Point.LOAD_NAMESPACES, Point.LOAD_CREATED,
    Point.LOAD_IDENTIFIED,
)  # fmt: skip
UNDONE: Final = (*(p for p in Point if p.startswith("rollback.")), Point.TABLE_CHANGES)
ELSEWHERE: Final = {
    Point.LOAD_RESTORED, Point.LOAD_FAILED, Point.PUBLISH_SHARE, Point.PUBLISH_UNDOING,
    Point.PUBLISH_UNTAGGED, Point.RECONCILE_TAKEN, Point.RECONCILE_TABLE, Point.MAINTAIN_FLOOR,
    Point.MAINTAIN_FORGOTTEN, Point.MAINTAIN_STEP, Point.TABLE_BRANCH, Point.LEDGER_REWRITTEN,
}  # fmt: skip
"""Points of reruns, which are below, of operators' commands, and of tables that are left out."""
TWICE: Final = [
    ("landed", f"{Point.LOAD_WIDER}:3", f"{Point.LOAD_WIDER}:1"),
    ("landed", f"{Point.LOAD_MERGED}:1", f"{Point.RECONCILE_TAKEN}:1"),
    ("landed", f"{Point.PUBLISH_HELD}:1", f"{Point.TABLE_BRANCH}:2"),
    ("empty", f"{Point.LOAD_CREATED}:5", f"{Point.RECONCILE_TABLE}:1"),
    ("empty", f"{Point.LOAD_DECODED}:1", f"{Point.RECONCILE_TABLE}:2"),
]
TRIED: Final = 1


def faults(points: Iterable[Point]) -> list[str]:
    """Each point as often as it is tried."""
    return [f"{point}:{n}" for point in points for n in range(1, OFTEN.get(point, 1) + 1)]


RUN: Final = faults(p for p in Point if p not in ELSEWHERE.union(NEW_LAKE, UNDONE))


def sample(every: list[str]) -> list[object]:
    """All faults; those that the seed does not choose are marked for `make faults`."""
    chosen = random.Random(os.environ.get("SLUICE_FAULT_SEED", "0")).sample(every, TRIED)
    return [f if f in chosen else pytest.param(f, marks=pytest.mark.long) for f in every]


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


@pytest.mark.parametrize("fault", sample(RUN))
def test_a_rerun_ends_as_if_nothing_had_happened(lake: Lake, wanted: Contents, fault: str) -> None:
    lake.restore("landed")
    before = lake.contents()
    code, output = lake.command("run", "shop", fault=fault)
    assert code != 0, f"{fault} was never reached: {output}"
    if not fault.startswith(("publish.", Point.TABLE_COMMENTS)):
        assert _targets(lake.contents()) == _targets(before)

    code, output = lake.command("run", "shop")
    assert code == 0, output
    assert lake.contents() == wanted
    assert lake.leftovers() == []


@pytest.mark.long
@pytest.mark.parametrize("fault", faults(NEW_LAKE))
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
@pytest.mark.parametrize(("state", "first", "second"), TWICE)
def test_a_rerun_that_dies_too_is_completed_by_the_next(
    lake: Lake, wanted: Contents, state: str, first: str, second: str
) -> None:
    lake.restore("landed")
    complete = wanted if state == "landed" else lake.contents()
    lake.restore(state)
    for fault in (first, second):
        code, output = lake.command("run", "shop", fault=fault)
        assert code != 0, f"{fault} was never reached: {output}"

    code, output = lake.command("run", "shop")
    assert code == 0, output
    assert lake.contents() == complete
    assert lake.leftovers() == []


@pytest.mark.long
@pytest.mark.parametrize("fault", faults(UNDONE))
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
