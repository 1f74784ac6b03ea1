"""Large values that Huawei CDL did not send: by LOB_COLUMNS, and by Debezium's placeholder."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_DELETE, OP_UPDATE
from spark_jobs.formats.common.envelope import spelled_as
from spark_jobs.formats.common.unsent import unsent


def left_out(placeholders: Sequence[str]) -> Column:
    """The columns that a row does not carry.

    They are large columns that an update lists without a value (a new row has no value to keep),
    columns with Debezium's placeholder, and columns that only the image before the update has.
    """
    after, before = F.col("_after"), F.col("payload")["before"]
    listed = F.when(F.col("op") == OP_UPDATE, _without_value(after))
    names = F.map_keys(before)
    only_before = F.when(names != F.map_keys(after), F.array_except(names, F.map_keys(after)))
    return _together(listed, unsent(after, placeholders), only_before)


def old_left_out(placeholders: Sequence[str]) -> Column:
    """The columns that the image before a change does not carry; NULL for none.

    A large value that was not sent looks like NULL there.
    """
    before = F.col("payload")["before"]
    missing = _together(_without_value(before), unsent(before, placeholders))
    has_old = F.col("op").isin(OP_UPDATE, OP_DELETE) & (F.size(before) > 0)
    return F.when(has_old & (F.size(missing) > 0), missing)


def lob_columns() -> Column:
    """The names in LOB_COLUMNS, a JSON list or comma-separated; NULL if it is unreadable."""
    text = F.trim(F.col("payload")["LOB_COLUMNS"])
    listed = F.from_json(text, "array<string>")
    names = F.when(text.startswith("["), listed).otherwise(F.split(text, r"\s*,\s*"))
    return F.filter(names, lambda name: name != "")


def _without_value(image: Column) -> Column:
    """The large columns that an image lists without a value."""
    large = spelled_as(lob_columns(), F.map_keys(image))
    return F.filter(large, lambda name: F.try_element_at(image, name).isNull())


def _together(*lists: Column) -> Column:
    """The union of lists that may be NULL; NULL if all are."""
    none = F.array().cast("array<string>")
    first, *others = (F.coalesce(names, none) for names in lists)
    for more in others:
        first = F.array_union(first, more)
    return F.when(F.coalesce(*lists).isNotNull(), first)
