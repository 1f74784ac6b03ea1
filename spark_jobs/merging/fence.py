"""The fence between a merge and retention, should the lease between them have lapsed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluice.errors import TransientError
from spark_jobs.lake.tables import Lake, target_id
from spark_jobs.planning.plan import TablePlan


@contextmanager
def nothing_forgotten(lake: Lake, plan: TablePlan) -> Iterator[None]:
    """Raise TransientError where maintenance expired changes or tombstones of the table meanwhile.

    The reads before and after would not be of one state. The floor is raised before anything
    expires, so that an equal floor proves it did not happen.
    """
    floor = lake.floor(target_id(plan))
    yield
    if lake.floor(target_id(plan)) != floor:
        raise TransientError(
            f"{plan.name}: maintenance forgot old changes while they were read; run again"
        )
