"""Rows in the form of others, and whether two frames have the same rows.

Values compare as by SQL's `<=>`: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from spark_jobs.quoting import by_name, quoted

_SIDE: Final = "_sluice_side"


def alike(frame: DataFrame, like: DataFrame, columns: Sequence[str] | None = None) -> DataFrame:
    """Return a frame with `columns`, or all columns, of `like`, cast to their types there.

    A column that the frame lacks is NULL, and so is a value that does not fit.
    """
    types = {f.name: f.dataType for f in like.schema}
    return frame.select(*(_as(frame, c, types[c]) for c in columns or like.columns))


def _as(frame: DataFrame, column: str, kind: DataType) -> Column:
    if column not in frame.columns:
        return F.lit(None).cast(kind).alias(column)
    value = F.col(quoted(column))
    return (value if frame.schema[column].dataType == kind else value.try_cast(kind)).alias(column)


def same_rows(one: DataFrame, two: DataFrame) -> bool:
    """Whether both frames have every row equally often."""
    signed = one.withColumn(_SIDE, F.lit(1)).unionByName(two.withColumn(_SIDE, F.lit(-1)))
    counted = signed.groupBy(*by_name(one.columns)).agg(F.sum(_SIDE).alias(_SIDE))
    return counted.where(F.col(_SIDE) != 0).isEmpty()
