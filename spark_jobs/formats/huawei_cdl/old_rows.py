"""The row before a change of Huawei CDL: `before`, or the key alone, in `unique`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_DELETE, OP_UPDATE, all_but


def old_row() -> Column:
    """The old row of an update or delete, or its key; NULL if neither is known."""
    deleted, updated = (F.col("op") == op for op in (OP_DELETE, OP_UPDATE))
    moved = F.coalesce(_before(), _moved_key())
    return F.when(deleted, deleted_row()).when(updated, moved)


def deleted_row() -> Column:
    """The deleted row: `before`, or the key where that is empty."""
    return F.coalesce(_before(), _unique())


def all_but_key() -> Column:
    """`old_absent` of an old row in `_old_row` that is a key alone; NULL for any other."""
    alone = _before().isNull() & F.col("_old_row").isNotNull()
    return F.when(alone, all_but(F.map_keys("_old_row")))


def _before() -> Column:
    """`before`; NULL without columns."""
    before = F.col("payload")["before"]
    return F.when(F.size(before) > 0, before)


def _unique() -> Column:
    return F.col("payload")["unique"]


def _moved_key() -> Column:
    """`unique` of an update whose new row has another key, as the old key; else NULL."""
    after = F.col("_after")
    unlike = F.map_filter(_unique(), lambda n, v: ~F.try_element_at(after, n).eqNullSafe(v))
    moved = F.map_filter(unlike, lambda n, v: _has_another_value(after, n, v))
    # The search in any case of the names is costly, and nearly always `unlike` is empty.
    return F.when(F.size(unlike) > 0, F.when(F.size(moved) > 0, _unique()))


def _has_another_value(row: Column, name: Column, value: Column) -> Column:
    """Whether a row has a column, in any case of its name, with another value."""
    alike = F.map_filter(row, lambda other, _: F.lower(other) == F.lower(name))
    return F.exists(F.map_values(alike), lambda other: ~other.eqNullSafe(value))
