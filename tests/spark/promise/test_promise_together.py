"""The promise if everything happens to one table: columns, keys, TRUNCATE, values not sent, undo.

A table of the source gets, loses, renames and widens columns; its rows change, move to other keys,
leave a large value out, and are truncated. Its log comes in any batches, some of it twice; batches
are undone in between, and their events come again. In the end target and history agree with the
source, in mode `current` or `soft_delete`.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sluice.operations import refolding, stages
from tests.spark.columns import (
    COLUMNS,
    DEFAULT,
    Column,
    Row,
    Table,
    Version,
    as_text,
    batches,
    counted,
    pipeline,
    seen,
)
from tests.spark.proving import proved
from tests.spark.sandbox import Sandbox, driven_here

pytestmark = [pytest.mark.spark, pytest.mark.long]

NUMBERS = itertools.count(1)
UNAVAILABLE = "__debezium_unavailable_value"
IDS = 5


@dataclass(frozen=True)
class Change:
    """A new version of a row as the source has it, and as it is sent."""

    told: dict[int, Any]
    sent: Row


class BusyTable(Table):
    """A table to which everything happens; without `defaults` no column is added with one."""

    def __init__(self, database: str, rng: random.Random, defaults: bool) -> None:
        super().__init__(database)
        self.rng, self.defaults = rng, defaults
        self.columns.append(Column("doc", large=True))

    def alive(self) -> list[int]:
        return [ident for ident, known in self.versions.items() if known and known[-1]]

    def go(self) -> None:
        """Do one thing of many; what cannot be done now is an insert or an update instead."""
        rng, here = self.rng, [column for column in self.columns if not column.dropped]
        free = sorted(set(COLUMNS) - {column.name for column in here})
        whole = [column for column in here if not column.large]
        kind = rng.randrange(24)
        if kind == 0 and free:
            default = DEFAULT if self.defaults and rng.random() < 0.5 else None
            return self.add(rng.choice(free), default)
        if kind == 1 and len(here) > 1:
            return self.drop(rng.choice(here))
        if kind == 2 and free:
            return self.rename(rng.choice(here), rng.choice(free))
        if kind == 3 and whole:
            return self.widen(rng.choice(whole))
        for column in here:  # the schema of any change has them
            column.first = column.first or self.clock + 1
        if kind == 4:
            return self._truncate(here)
        if kind < 9 and 0 < len(self.alive()) < IDS:
            return self._move(here)
        if kind < 12 and self.alive():
            return self._delete(rng.choice(self.alive()), here)
        return self._upsert(here)

    def _truncate(self, here: list[Column]) -> None:
        for ident in self.alive():
            self.versions[ident].append(None)
        self.write("t", None, None, here)

    def _delete(self, ident: int, here: list[Column]) -> None:
        self.versions[ident].append(None)
        self.write("d", {"id": ident}, None, here)

    def _upsert(self, here: list[Column]) -> None:
        ident = self.rng.randrange(IDS)
        known = self.versions.setdefault(ident, [])
        old = known[-1] if known else None
        change = self._changed(here, old)
        known.append((self.clock + 1, change.told))
        self.write("u" if old else "c", None, {"id": ident} | change.sent, here)

    def _move(self, here: list[Column]) -> None:
        ident = self.rng.choice(self.alive())
        to = self.rng.choice([other for other in range(IDS) if other not in self.alive()])
        change = self._changed(here, self.versions[ident][-1])
        self.versions[ident].append(None)
        self.versions.setdefault(to, []).append((self.clock + 1, change.told))
        self.write("u", {"id": ident}, {"id": to} | change.sent, here)

    def _changed(self, here: list[Column], old: Version | None) -> Change:
        """Of a row that was there a large value may stay, and is not sent then."""
        change = Change({}, {})
        for at, column in enumerate(here):
            if column.large and old and self.rng.random() < 0.5:
                change.told[id(column)] = old[1].get(id(column))
                change.sent[column.name] = UNAVAILABLE
                continue
            new = column.value(100 * self.clock + at)
            value = self.rng.choice([None, new if column.large else DEFAULT, new, new])
            change.told[id(column)] = change.sent[column.name] = value
        return change

    def last_versions(self) -> Counter[Any]:
        """The rows of now, and those that are gone as they last were."""
        newest = {i: [each for each in known if each] for i, known in self.versions.items()}
        return counted(self.spelled(i, known[-1]) for i, known in newest.items() if known)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One lake for all examples, each with a database of its own; drivers run in here."""
    with driven_here(
        Sandbox(spark, tmp_path_factory.mktemp("together"), pipeline("current"))
    ) as sandbox:
        yield sandbox


def load(lake: Sandbox) -> list[str]:
    """Load what has landed, if anything; the batches' names."""
    results, failure = stages.run(lake.context())
    assert failure is None
    return [result.batch_id for result in results]


def undo(lake: Sandbox, published: list[str], rng: random.Random) -> None:
    """Take one batch out again, so that its files come with the next one."""
    batch = published.pop(rng.randrange(len(published)))
    refolding.undo_or_refold(lake.context(), batch)
    stages.release(lake.context(), batch)


@proved
@example(0)
@given(st.integers(0, 2**32))
def test_all_that_happens_depends_on_the_set_of_events_alone(lake: Sandbox, seed: int) -> None:
    rng, database = random.Random(seed), f"db{next(NUMBERS)}"
    mode, undoes = rng.choice(["current", "soft_delete"]), rng.random() < 0.6
    # A default that was told by a batch undone beneath others may stay in rows.
    table = BusyTable(database, rng, defaults=not undoes)
    for _ in range(rng.randrange(8, 50)):
        table.go()
    lake.configure(**pipeline(mode))
    published: list[str] = []
    dealt = batches(table.log, seed, rng.randrange(1, 6), rng.random() < 0.5)
    for at, batch in enumerate(dealt):
        lake.write(f"{database}/{at}.jsonl", batch)
        published += load(lake)
        if undoes and published and rng.random() < 0.5:
            undo(lake, published, rng)
    load(lake)
    target = f"{database}_orders"
    wanted = table.rows() if mode == "current" else table.last_versions()
    unsure = table.unsure()
    assert as_text(seen(lake, target, unsure)) == as_text(wanted)
    assert as_text(seen(lake, f"{target}__history", unsure)) == as_text(table.history())
