"""The promise where the source changes its columns: rows follow from events and statements alone.

A table's columns are added, with defaults too, dropped, renamed and widened among the changes of
its rows; statements and rows land in any order and any batches. The reference knows each column as
itself, whatever it is called.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.columns import Step, Table, batches, delivered, pipeline, seen
from tests.spark.proving import proved
from tests.spark.sandbox import Sandbox, driven_here

pytestmark = [pytest.mark.spark, pytest.mark.long]

NUMBERS = itertools.count(1)
STEPS = st.lists(st.tuples(*[st.integers(0, 11)] * 3), min_size=15, max_size=40)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One lake for all examples, each with a database of its own; drivers run in here."""
    with driven_here(
        Sandbox(spark, tmp_path_factory.mktemp("columns"), pipeline("current", "append"))
    ) as sandbox:
        yield sandbox


def drawn(seed: int) -> list[Step]:
    """Many steps without Hypothesis, whose own first example is always the smallest."""
    rng = random.Random(seed)
    return [(rng.randrange(12), rng.randrange(12), rng.randrange(12)) for _ in range(40)]


@proved
@example(drawn(1), 1, 3, True)
@example(drawn(2), 2, 3, False)
@given(STEPS, st.integers(0, 2**32), st.integers(1, 4), st.booleans())
def test_columns_depend_on_the_set_of_events_alone(
    lake: Sandbox, steps: list[Step], seed: int, count: int, newest_first: bool
) -> None:
    table = Table(f"db{next(NUMBERS)}")
    for step in steps:
        table.step(step)
    if not table.versions:
        return
    target = delivered(lake, table, batches(table.log, seed, count, newest_first))
    assert seen(lake, target, table.unsure()) == table.rows()
    for versions in (f"{target}__history", f"{target}__events"):
        assert seen(lake, versions, table.unsure()) == table.history()
