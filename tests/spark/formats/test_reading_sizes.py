"""Expressions that read values: none grows by repeating its steps."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.types.columns import ENCODINGS, UNSCALED, ColumnType, parse_type
from spark_jobs.values import decode

pytestmark = pytest.mark.spark

READINGS = [
    *(parse_type(f"{name}[{encoding}]" if encoding else name)
      for name, encodings in ENCODINGS.items() for encoding in encodings),
    ColumnType("string", encoding=f"{UNSCALED}2"),
]  # fmt: skip


@pytest.mark.parametrize("kind", READINGS, ids=str)
def test_no_reading_repeats_its_steps(spark: SparkSession, kind: ColumnType) -> None:
    """A row may have hundreds of columns, and Spark repeats what is not bound at each reference."""
    assert len(str(decode(F.col("text"), kind))) < 6_000
