"""The part of a table with a floor that `verify` can check: what lies above the floor.

Above the floor the changelog has every event. Rows at or below it are the result of expired events,
and so are columns that no event above the floor carries.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.quoting import by_name
from spark_jobs.verifying.recompute import KNOWN


def above(frame: DataFrame, floor: str | None) -> DataFrame:
    """Return the events, rows or tombstones above the floor; all of them if there is no floor."""
    return frame if floor is None else frame.where(F.col(names.POSITION) > floor)


def comparable_rows(
    found: DataFrame, recomputed: DataFrame, key: Sequence[str], floor: str | None
) -> DataFrame:
    """Return the target's rows that can be compared with the recomputed changes above the floor.

    These are the rows above it, and the rows of keys with changes above it. Keys with an unknown
    column are left out.
    """
    if floor is None:
        return found
    changed = recomputed.select(*by_name(key))
    old = found.where(F.col(names.POSITION) <= floor).join(changed, list(key), "left_semi")
    columns = by_name(found.columns)
    either = above(found, floor).unionByName(old.select(*columns))
    unknown = recomputed.where(~F.col(KNOWN)).select(*by_name(key))
    return either.join(unknown, list(key), "left_anti").select(*columns)


def comparable_recomputed(recomputed: DataFrame, floor: str | None) -> DataFrame:
    """Return the recomputed rows with all columns known."""
    return recomputed if floor is None else recomputed.where(KNOWN)
