"""What one driver works on, and how it does several tables at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession

from sluice.config import Pipeline
from sluice.manifest import Manifest
from spark_jobs.lake import Lake
from spark_jobs.merge import Attempt

S = TypeVar("S")
T = TypeVar("T")
TABLES_AT_ONCE = 4


@dataclass(frozen=True)
class Job:
    """What one driver works on; `scratch` is a URL for files that only it reads."""

    spark: SparkSession
    lake: Lake
    pipeline: Pipeline
    manifest: Manifest
    attempt: Attempt
    attempt_id: str
    scratch: str


def side_by_side(tables: Iterable[S], work: Callable[[S], T]) -> list[T]:
    """Do the work for every table, a few of them at once; the first error ends it."""
    with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
        return list(pool.map(work, tables))
