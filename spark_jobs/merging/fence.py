"""The fence between a merge and retention, should the lease between them have lapsed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluice import names
from sluice.errors import TransientError
from spark_jobs.lake.tables import Lake, target_id
from spark_jobs.planning.plan import TablePlan


@contextmanager
def nothing_forgotten(lake: Lake, plan: TablePlan) -> Iterator[None]:
    """Raise TransientError where maintenance expired changes or tombstones of the table meanwhile.

    The reads before and after would not be of one state. The floor is raised before anything
    expires, so that an equal floor proves it did not happen.
    """
    floor = lake.property(target_id(plan), names.PROP_FLOOR)
    yield
    if lake.property(target_id(plan), names.PROP_FLOOR) != floor:
        raise TransientError(
            f"{plan.name}: maintenance forgot old changes while they were read; run again"
        )
