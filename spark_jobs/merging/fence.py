"""The fence between a merge and retention, whatever became of the lease that keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluice import names
from sluice.errors import TransientError
from spark_jobs.lake.tables import Lake, target_id
from spark_jobs.planning.plan import TablePlan


@contextmanager
def nothing_forgotten(lake: Lake, plan: TablePlan) -> Iterator[None]:
    """Raise TransientError where maintenance forgot changes or tombstones of the table meanwhile:
    what was read of them before and after is not of one state.

    The floor goes up before anything is forgotten. Below it nothing of them is read.
    """
    floor = lake.property(target_id(plan), names.PROP_FLOOR)
    yield
    if lake.property(target_id(plan), names.PROP_FLOOR) != floor:
        raise TransientError(
            f"{plan.name}: maintenance forgot old changes while they were read; run again"
        )
