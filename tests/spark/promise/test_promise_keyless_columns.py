"""The promise for a table without a key whose source changes its columns.

Rows are counted by all their values, so that a delete has to find its row whatever columns were
added, renamed or widened in between. The log comes in any batches, some of it twice; the table of
the changelog (`append`) must say the same as after one batch with everything.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.columns import DEFAULT, WIDE, Column, Row, Table, batches, counted, seen
from tests.spark.proving import proved
from tests.spark.sandbox import Sandbox, driven_here

pytestmark = [pytest.mark.spark, pytest.mark.long]

NUMBERS = itertools.count(1)
FREE = ("c", "d", "e")


def pipeline() -> dict[str, Any]:
    table = {"key": [], "modes": ["current", "append"]}
    return {"format": "debezium", "table_name": "{database}_{table}", "tables": {"orders": table}}


@dataclass
class Stored(Table):
    """A table in which equal rows are common. Every image in its log has the columns of then."""

    held: list[dict[int, int | None]] = field(default_factory=list)

    def go(self, rng: random.Random) -> None:
        used = {name for column in self.columns for name in column.had}
        kind, free = rng.randrange(20), sorted(set(FREE) - used)
        if kind == 0 and free:
            return self._add_filled(free[0], rng.choice([None, DEFAULT]))
        if kind == 1 and free:
            return self.rename(rng.choice(self.columns), free[0])
        if kind == 2:
            return self.widen(rng.choice(self.columns))
        for column in self.columns:
            column.first = column.first or self.clock + 1
        if kind == 3 and rng.random() < 0.3:
            self.held.clear()
            return self.write("t", None, None, self.columns)
        return self._change_row(rng)

    def _add_filled(self, name: str, default: int | None) -> None:
        self.add(name, default)
        for values in self.held:
            values[id(self.columns[-1])] = default

    def _change_row(self, rng: random.Random) -> None:
        old = self.held.pop(rng.randrange(len(self.held))) if self.held else None
        kind = rng.choice("ccud") if old else "c"
        if old and kind == "c":
            self.held.append(old)
        before = None if kind == "c" or old is None else self._image(old)
        new = None if kind == "d" else {id(c): self._value(rng, c) for c in self.columns}
        self.held += [new] if new else []
        self.write(kind, before, self._image(new) if new else None, self.columns)

    def _value(self, rng: random.Random, column: Column) -> int | None:
        return rng.choice([None, 1, 2, WIDE if column.wide else DEFAULT])

    def _image(self, values: dict[int, int | None]) -> Row:
        return {column.name: values[id(column)] for column in self.columns}

    def rows(self) -> Counter[Any]:
        return counted(self._image(values) for values in self.held)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One lake for all examples, each with two databases of its own; drivers run in here."""
    with driven_here(Sandbox(spark, tmp_path_factory.mktemp("keyless"), pipeline())) as sandbox:
        yield sandbox


def history(database: str, seed: int) -> Stored:
    rng, table = random.Random(seed), Stored(database)
    for _ in range(60):
        table.go(rng)
    return table


@proved
@example(21)
@example(28)
@given(st.integers(0, 2**32))
def test_rows_without_a_key_depend_on_the_set_of_events_alone(lake: Sandbox, seed: int) -> None:
    rng, number = random.Random(seed), next(NUMBERS)
    once, dealt = (history(f"{how}{number}", seed) for how in ("once", "dealt"))
    lake.write(f"{once.database}/all.jsonl", once.log)
    lake.run()
    for at, batch in enumerate(batches(dealt.log, seed, rng.randrange(2, 5), rng.random() < 0.5)):
        lake.write(f"{dealt.database}/{at}.jsonl", batch)
        lake.run()
    assert seen(lake, f"{once.database}_orders") == once.rows()
    assert seen(lake, f"{dealt.database}_orders") == dealt.rows()
    logged = seen(lake, f"{once.database}_orders__events")
    assert logged
    assert seen(lake, f"{dealt.database}_orders__events") == logged
