"""Conditions on the stored rows of events: their batch, and what they do to a row."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import OP_DELETE, OP_TRUNCATE
from spark_jobs.quoting import literal


def in_batch(batch_id: str) -> Column:
    """Whether a row belongs to the batch."""
    return F.col(names.BATCH_ID) == batch_id


def of_batches(batches: Iterable[str], column: str = names.BATCH_ID) -> Column:
    """Whether a row belongs to one of the batches.

    Built as SQL text: a pipeline has thousands of batches, and each value of `isin` is a call to
    the JVM.
    """
    listed = ", ".join(map(literal, sorted(batches)))
    return F.expr(f"{column} IN ({listed})") if listed else F.lit(False)


def is_delete() -> Column:
    """Whether a changelog's row is a delete."""
    return F.col(names.OP) == OP_DELETE


def is_truncate() -> Column:
    """Whether a changelog's row is a TRUNCATE."""
    return F.col(names.OP) == OP_TRUNCATE


def is_partial() -> Column:
    """Whether a changelog's row leaves columns out."""
    return F.col(names.ABSENT).isNotNull()
