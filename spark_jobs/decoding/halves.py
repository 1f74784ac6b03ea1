"""Updates that become two changes, their halves: a delete of the old row, an upsert of the new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_DELETE, OP_UPDATE, OP_UPDATE_AFTER
from spark_jobs.decoding import whole_rows
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn

SPLIT: Final = "_sluice_split"
"""Whether a record became two changes."""
OWN: Final = ""
OTHER: Final = "_other"
"""Suffixes of the columns of a half's own row, and of the row of its other half."""


def splits(plan: TablePlan) -> bool:
    """Whether updates may become two changes: a delete of the old row and an upsert of the new."""
    return plan.summary.has_old_images and (plan.summary.may_move or not plan.keyed)


def split_key_changes(events: DataFrame, plan: TablePlan) -> DataFrame:
    """Split updates that change the key, and all updates of a table without one, into a delete of
    the old row and an upsert of the new."""
    if plan.summary.partial and not plan.keyed:
        events = whole_rows.completed(events)
    if not splits(plan):
        return _halved(events.withColumn(SPLIT, F.lit(False)), F.lit(False))
    updates = (F.col("op") == OP_UPDATE) & F.col("before").isNotNull()
    split = changes_key(plan.key_columns) if plan.keyed else F.coalesce(updates, F.lit(False))
    halves = F.when(F.col(SPLIT), F.array(F.lit(True), F.lit(False)))
    marked = events.withColumn(SPLIT, split)
    halved = marked.withColumn("old_half", F.explode(halves.otherwise(F.array(F.lit(False)))))
    return _halved(halved, F.col("old_half"))


def changes_key(key: Sequence[PlannedColumn]) -> Column:
    """Whether a record of the envelope is an update to another key; never NULL."""
    moved = F.lit(False)
    for column in key:
        old, new = column.text_in(F.col("before")), column.text_in(F.col("after"))
        moved |= old.isNotNull() & ~old.eqNullSafe(new)
    update = (F.col("op") == OP_UPDATE) & F.col("before").isNotNull() & moved
    return F.coalesce(update, F.lit(False))


def hides_key(key: Sequence[PlannedColumn]) -> Column:
    """Whether the key in the old row cannot be trusted: a key column has an unknown spelling, or is
    missing in a delete or a key change.

    Decoders may pass on known columns only, so a missing value may be NULL, not sent, or sent under
    another name.
    """
    before = F.col("before")
    lacking = otherwise = F.lit(False)
    for column in key:
        lacks = before.isNotNull() & column.text_in(before).isNull()
        lacking |= lacks
        otherwise |= lacks & _otherwise_spelled(before, column.spellings)
    names_row = (F.col("op") == OP_DELETE) | changes_key(key)
    return F.coalesce(otherwise | (lacking & names_row), F.lit(False))


def _otherwise_spelled(image: Column, known: Sequence[str]) -> Column:
    def alike(name: Column) -> Column:
        return (F.lower(name) == known[0].lower()) & ~name.isin(*known)

    return F.exists(F.map_keys(image), alike)


def _halved(events: DataFrame, old_half: Column) -> DataFrame:
    """Add to each half its own image and the image of its other half, if any."""
    deleted = old_half | (F.col("op") == OP_DELETE)
    other = F.when(old_half, F.col("after")).otherwise(F.col("before"))
    return events.withColumns(
        {
            "counted": ~old_half,
            "kind": _kind(deleted),
            f"deleted{OWN}": deleted,
            f"deleted{OTHER}": F.col(SPLIT) & ~old_half,
            f"image{OWN}": F.when(deleted, F.col("before")).otherwise(F.col("after")),
            f"image{OTHER}": F.when(F.col(SPLIT), other),
        }
    )


def _kind(deleted: Column) -> Column:
    second = F.col("op") == OP_UPDATE_AFTER
    kind = F.when(second, F.lit(OP_UPDATE)).otherwise(F.col("op"))
    return F.when(deleted, F.lit(OP_DELETE)).otherwise(kind)
