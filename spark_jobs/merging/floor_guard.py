"""A guard against retention during a merge, in case the lease between them has lapsed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluice.errors import TransientError
from spark_jobs.lake.table_id import target_id
from spark_jobs.lake.tables import Lake
from spark_jobs.planning.plan import TablePlan


@contextmanager
def floor_unchanged(lake: Lake, plan: TablePlan) -> Iterator[None]:
    """Raise TransientError if maintenance expired changes or tombstones of the table meanwhile.

    Reads from before and after would not be of one state. The floor is raised before anything
    expires, so an unchanged floor proves that nothing did.
    """
    floor = lake.floor(target_id(plan))
    yield
    if lake.floor(target_id(plan)) != floor:
        raise TransientError(
            f"{plan.name}: maintenance forgot old changes while they were read; run again"
        )
