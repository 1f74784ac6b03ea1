"""The promise, in every format: rows follow from the set of events, and from nothing else.

One abstract history of a source is written in each format, delivered in an adversary's order, and
has to end as the plain-Python reference says. One example per format by default; `make prove`
(`SLUICE_PROVE=40`) draws more of both, and shrinks failures.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests import reference
from tests.spark.deliveries import DELIVERIES, Delivery, deliver, shown
from tests.spark.dialects import DIALECTS
from tests.spark.dialects.base import Dialect
from tests.spark.histories import (
    STEPS,
    TABLES,
    KeyedSource,
    drawn,
    meaning,
    play,
    spelled,
)
from tests.spark.proving import proved
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

EVERY_RUN = ("debezium",)
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """One lake for all examples; each has a database of its own in it."""
    return Sandbox(spark, tmp_path_factory.mktemp("promise"), {"format": "debezium"})


def _dialects() -> list[Any]:
    """Every dialect; the first three in every run, the others when asked for."""
    return [
        pytest.param(d, id=d.name, marks=() if d.name in EVERY_RUN else pytest.mark.formats)
        for d in DIALECTS
    ]


@pytest.mark.parametrize("dialect", _dialects())
@proved
@example(drawn(5), Delivery(seed=1, batches=2, given_up=0, retried_last=True))
@given(st.lists(STEPS, min_size=len(TABLES), max_size=len(TABLES)), DELIVERIES)
def test_rows_depend_on_the_set_of_events_alone(
    lake: Sandbox, dialect: Dialect, steps: list[Any], delivery: Delivery
) -> None:
    played = play(steps, dialect.truncates, dialect.only_rows)
    log = [change for source in played for change in source.log]
    database = f"db{next(NUMBERS)}"
    lake.configure(**dialect.pipeline(database, TABLES))
    deliver(lake, dialect, database, log, delivery)
    for source in played:
        wanted = meaning(log, source.name)
        assert wanted == sorted(map(reference.row, _rows_of(source)), key=repr)
        assert shown(lake, database, source.name, dialect.besides) == wanted, source.name


def _rows_of(source: Any) -> list[dict[str, Any]]:
    rows = list(source.rows.values()) if isinstance(source, KeyedSource) else source.rows
    return [spelled(row) for row in rows]
