"""Against expressions that Spark evaluates again and again.

A column is an expression, not a value. Each reference to it contains the whole expression, and the
optimizer makes more of them: it merges projections, and moves a condition below the step that
computes its columns. Code generation finds some of the copies again, few of those in conditions.
What one of these functions holds together is computed once:

- `bound`, a value to which one expression refers several times;
- `in_own_projection`, a column of which later steps name parts or which they filter by, most of all
  a struct with a record's fields;
- `optimizer_barrier`, all columns of a frame that a later condition is about.

The first two cost a little for each row, the last a count of the rows; a plain column needs none.
Rows that several queries read are another matter: `spark_jobs/materialize.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F


def bound(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return `use(value)`, with `value` computed once however often `use` refers to it.

    Otherwise an expression grows by the number of references at each step: with three steps of a
    dozen references each, one column's plan would have a hundred thousand nodes.
    """
    return F.get(F.transform(F.array(value), use), F.lit(0))


def in_own_projection(value: Column) -> Column:
    """Return `value` with a harmless non-deterministic term, which keeps it in its own projection.

    Otherwise Spark repeats it wherever a later step names a part of it, even in filters.
    """
    return F.when(F.monotonically_increasing_id() >= 0, value)


def optimizer_barrier(rows: DataFrame) -> DataFrame:
    """Return the rows unchanged, but keep Spark from moving later conditions below this point.

    Otherwise a condition repeats the expressions of its columns at each reference: a decimal in
    base64 is then computed hundreds of times per row, and planning takes minutes. Spark moves no
    condition below an observation.
    """
    return rows.observe(Observation(), F.count(F.lit(1)).alias("rows"))
