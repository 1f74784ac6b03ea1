"""Updates that send some columns, laid over the rest of their row."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_UPDATE, all_but
from spark_jobs.formats.common.envelope import any_repeats_column

_NO_TEXT: Final = "\ufffe"


def overlaid(row: Column, values: Column) -> Column:
    """`row` with `values` over it; NULL if either is NULL. Neither may name a column twice.

    The two may spell a column in different case.
    """
    names = F.map_keys(values)
    # Nearly always the row has all of these names exactly: the quick case.
    alike = F.size(F.array_except(names, F.map_keys(row))) == 0
    folded = F.transform(names, F.lower)
    others = F.map_filter(
        row, lambda n, _: F.array_contains(names, n) | ~F.array_contains(folded, F.lower(n))
    )
    joined = F.map_concat(F.when(alike, row).otherwise(others), values)
    return F.when(names == F.map_keys(row), values).otherwise(joined)


def with_row(records: DataFrame, old: str, sent: str) -> DataFrame:
    """Add `_row`: the values that a record sends, in an update laid over its old row.

    `_twice`: whether one of the two names a column twice, so that they cannot be combined.
    """
    before, after = F.col(old), F.col(sent)
    judged = records.withColumn("_twice", any_repeats_column(before, after))
    both = (F.col("op") == OP_UPDATE) & before.isNotNull() & ~F.col("_twice")
    return judged.withColumn("_row", F.when(both, overlaid(before, after)).otherwise(after))


def absent_but(changed: Column, row: Column) -> Column:
    """`absent` of an update that sends changed columns; `row` is these over the old row.

    A NULL in the old row may be a value that was not logged, so it does not show the value in the
    new row. Neither column may have the name of an envelope column: in the select that makes the
    envelope a lambda sees the new column of that name.
    """
    names = F.map_keys(changed)
    sent = F.map_filter(row, lambda name, v: v.isNotNull() | F.array_contains(names, name))
    # `array_contains` is NULL where the values have NULLs: cheaper than a look at each value.
    whole = ~F.coalesce(F.array_contains(F.map_values(row), _NO_TEXT), F.lit(True))
    carried = F.when(whole, F.map_keys(row)).otherwise(F.map_keys(sent))
    return all_but(carried)
