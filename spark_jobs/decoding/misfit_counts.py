"""What did not fit in one table's records, counted while they are decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice import names
from sluice.result import Nulled
from spark_jobs.decoding import null_misfits, time_units
from spark_jobs.planning.plan import TablePlan
from spark_jobs.row_conditions import is_truncate


@dataclass(frozen=True)
class Misfits:
    """What did not fit in a table's records.

    `bad`: number of counted records that did not fit, `unread`: the same if no record with a row
    fits, else 0; `nulled`: the values of the others that NULL replaces; `odd_times`: notes on their
    times.
    """

    bad: int
    unread: int
    nulled: tuple[Nulled, ...]
    odd_times: tuple[str, ...]


def misfit_counts(plan: TablePlan, fits: Column) -> list[Column]:
    """Return the counts that `misfits_found` reads; `fits`: whether the record is loaded."""
    counted = F.col(names.COUNTED)
    return [
        F.count_if(~fits & counted).alias("bad"),
        F.count_if(counted & ~is_truncate()).alias("rows"),
        *null_misfits.counts(plan, fits),
        *time_units.counts(plan, fits),
    ]


def misfits_found(plan: TablePlan, counted: Mapping[str, Any]) -> Misfits:
    """Return the results of `misfit_counts`."""
    bad = counted["bad"]
    unread = bad if bad == counted["rows"] else 0
    return Misfits(bad, unread, null_misfits.found(plan, counted), time_units.found(plan, counted))
