"""Counts of misfit values that were set to NULL, for a table with `null_misfits`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice import names
from sluice.result import Nulled
from spark_jobs.decoding.decode import NULLED
from spark_jobs.planning.plan import TablePlan


def counts(plan: TablePlan, fits: Column) -> list[Column]:
    """Return one count of misfit values for each column of `null_misfits`; an update counts once.

    `fits`: whether the record is loaded.
    """
    counted = fits & F.col(names.COUNTED)
    return [
        F.count_if(counted & F.array_contains(NULLED, c.name)).alias(_alias(c.name))
        for c in plan.null_misfits
    ]


def found(plan: TablePlan, counted: Mapping[str, Any]) -> tuple[Nulled, ...]:
    """Return the results of `counts`, without columns in which every value fits."""
    each = (Nulled(c.name, int(counted[_alias(c.name)])) for c in plan.null_misfits)
    return tuple(one for one in each if one.values)


def _alias(column: str) -> str:
    return f"nulled_{column}"
