"""What can be judged of a table whose older changes are forgotten: what lies above its floor.

Above the floor every event is in the changelog still. A row at or below it stands for events that
are gone, and so do the columns that no event above the floor has carried.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import quoted
from spark_jobs.folding.refold import KNOWN


def above(frame: DataFrame, floor: str | None) -> DataFrame:
    """Events, rows or tombstones above the floor; all of them where there is none."""
    return frame if floor is None else frame.where(F.col(names.POSITION) > floor)


def judged_rows(
    found: DataFrame, refolded: DataFrame, key: Sequence[str], floor: str | None
) -> DataFrame:
    """The rows of a target that the refolded changes above the floor can judge.

    Those above it, and those of a key that has changes above it, wherever they say they are.
    """
    if floor is None:
        return found
    changed = refolded.select(*(quoted(k) for k in key))
    old = found.where(F.col(names.POSITION) <= floor).join(changed, list(key), "left_semi")
    columns = [quoted(c) for c in found.columns]
    either = above(found, floor).unionByName(old.select(*columns))
    unknown = refolded.where(~F.col(KNOWN)).select(*(quoted(k) for k in key))
    return either.join(unknown, list(key), "left_anti").select(*columns)


def judged_refold(refolded: DataFrame, floor: str | None) -> DataFrame:
    """The refolded rows whose every column is known."""
    return refolded if floor is None else refolded.where(KNOWN)
