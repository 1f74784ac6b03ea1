"""Rows under a name, for SQL statements that read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from pyspark.sql import DataFrame


@contextmanager
def view_of(rows: DataFrame) -> Iterator[str]:
    """Give the name of a view of the rows, which no other thread has, and drop the view after."""
    name = f"rows_{uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        rows.sparkSession.catalog.dropTempView(name)
