"""The promise where columns leave the target when the source drops them: rows, and which columns
there are, follow from events and statements alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.columns import Column, Row, Step, Table, Version, as_text, batches, delivered, seen
from tests.spark.proving import proved
from tests.spark.renamed import PLACEHOLDER as UNSENT
from tests.spark.sandbox import Sandbox, driven_here

pytestmark = [pytest.mark.spark, pytest.mark.long]

NUMBERS = itertools.count(1)
STEPS = st.lists(st.tuples(*[st.integers(0, 11)] * 3), min_size=15, max_size=40)


class Dropping(Table):
    """A table whose dropped columns are gone. Some of its columns are large, also under names that
    others had before, and an update leaves some of these out."""

    def add(self, name: str, default: int | None, large: bool = False) -> None:
        # MySQL's columns of text have no literal default.
        large = large or self.clock % 2 == 1
        super().add(name, None if large else default, large)

    def write(self, op: str, before: Row | None, after: Row | None, here: list[Column]) -> None:
        if op == "u" and after is not None:
            (_, was), (_, told) = filter(None, self.versions[after["id"]][-2:])
            for at, column in enumerate(here):
                if column.large and (self.clock + at) % 3:
                    told[id(column)], after[column.name] = was.get(id(column)), UNSENT
        super().write(op, before, after, here)

    def spelled(self, ident: int, version: Version) -> Row:
        at, told = version
        here = [column for column in self.columns if not column.dropped]
        shown: Row = {"id": ident}
        for column in here:
            lacks = at < column.added and column.default is not None
            shown[column.name] = told.get(id(column), column.default if lacks else None)
        return {name: value for name, value in shown.items() if name not in self.unsure()}

    def gone(self) -> set[str]:
        """The names that no column has since the last that had it was dropped."""
        last = {column.name: column for column in sorted(self.columns, key=lambda c: c.ended)}
        here = {column.name for column in self.columns if not column.dropped}
        ends = {name for name, column in last.items() if column.dropped}
        return ends - here - self.given_away()

    def given_away(self) -> set[str]:
        """The former names of renamed columns, which stay."""
        return {name for column in self.columns for name in column.had - {column.name}}

    def here(self) -> set[str]:
        """The names of columns that are there, and that some change has."""
        found = {c.name for c in self.columns if not c.dropped and c.first is not None}
        return found - self.unsure()


def pipeline() -> dict[str, Any]:
    table = {"key": ["id"], "columns": {"id": "int"}}
    return {"format": "debezium", "table_name": "{database}_{table}", "tables": {"orders": table},
            "on_dropped_column": "drop", "on_type_change": "string"}  # fmt: skip


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One lake for all examples, each with a database of its own; drivers run in here."""
    with driven_here(Sandbox(spark, tmp_path_factory.mktemp("dropped"), pipeline())) as sandbox:
        yield sandbox


def drawn(seed: int) -> list[Step]:
    """Many steps without Hypothesis, with more statements than it would draw."""
    rng = random.Random(seed)
    kinds = [0, 0, 1, 1, 1, 2, 3, 4, 4, 4, 4, 4]
    return [(rng.choice(kinds), rng.randrange(12), rng.randrange(12)) for _ in range(40)]


@proved
@example(drawn(4), 1, 3, True)
@example(drawn(2), 2, 3, False)
@example(drawn(5), 3, 4, False)
@given(STEPS, st.integers(0, 2**32), st.integers(1, 4), st.booleans())
def test_columns_that_go_depend_on_the_set_of_events_alone(
    lake: Sandbox, steps: list[Step], seed: int, count: int, newest_first: bool
) -> None:
    table = Dropping(f"db{next(NUMBERS)}")
    for step in steps:
        table.step(step)
    if not table.versions:
        return
    target = delivered(lake, table, batches(table.log, seed, count, newest_first))
    columns = lake.types(target).keys()
    assert as_text(seen(lake, target, table.unsure())) == as_text(table.rows())
    assert not lake.quarantined()
    assert table.here() <= columns
    assert not table.gone() & columns
    assert not {name for name in columns if name.endswith("__dropped")}
