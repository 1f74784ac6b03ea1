"""The promise where the source changes its columns: rows follow from events and statements alone.

A table's columns are added, with defaults too, dropped, renamed and widened among the changes of
its rows; statements and rows land in any order and any batches. The reference knows each column as
itself, whatever it is called.
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

from sluice import names
from sluice.operations import stages
from tests.spark.proving import proved
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.long]

NUMBERS = itertools.count(1)
COLUMNS = ("a", "b", "c", "d")
IDS = 4
DEFAULT = 7
WIDE = 2**40
Row = dict[str, Any]
Step = tuple[int, int, int]
Version = tuple[int, dict[int, int]]
STEPS = st.lists(st.tuples(*[st.integers(0, 11)] * 3), min_size=15, max_size=40)


@dataclass
class Column:
    """One column of the source, with the default that it was added with.

    `replaced`: after its end another one got its name. `first`: the place of the first change that
    has it, from which on what it holds is told.
    """

    name: str
    default: int | None = None
    wide: bool = False
    dropped: bool = False
    replaced: bool = False
    first: int | None = None

    @property
    def described(self) -> Row:
        """As a Connect schema has it."""
        kind = {"field": self.name, "type": "int64" if self.wide else "int32", "optional": True}
        return kind if self.default is None else kind | {"default": self.default}

    def held(self, at: int, told: dict[int, int]) -> int | None:
        """What a version of a place holds in it."""
        untold = self.first is not None and at < self.first
        return told.get(id(self), self.default if untold else None)


@dataclass
class Table:
    """A table that changes, and what it logs: statements, and changes with the columns they had."""

    database: str
    columns: list[Column] = field(default_factory=lambda: [Column("a"), Column("b")])
    log: list[Row] = field(default_factory=list)
    versions: dict[int, list[Version | None]] = field(default_factory=dict)
    used: set[str] = field(default_factory=lambda: {"a", "b"})
    clock: int = 0

    def step(self, step: Step) -> None:
        kind, pick, value = step
        here = [column for column in self.columns if not column.dropped]
        free = sorted(set(COLUMNS) - {column.name for column in here})
        if kind == 0 and free:
            return self._add(free[pick % len(free)], DEFAULT if value % 2 else None)
        if kind == 1 and len(here) > 1:
            return self._drop(here[pick % len(here)])
        if kind == 2 and free and here:
            return self._rename(here[pick % len(here)], free[value % len(free)])
        if kind == 3 and here:
            return self._widen(here[pick % len(here)])
        return self._change(pick % IDS, value, here)

    def _widen(self, column: Column) -> None:
        column.wide = True
        self._tell(f"MODIFY COLUMN {column.name} bigint")

    def _take(self, taker: Column, name: str) -> None:
        """A default of a name that another column had is not always told (configuration.md)."""
        if name in self.used and taker.first is None:
            taker.default = None
        for column in self.columns:
            column.replaced |= column.dropped and column.name == name
        self.used.add(name)

    def _add(self, name: str, default: int | None) -> None:
        column = Column(name, default)
        self._take(column, name)
        self.columns.append(column)
        told = "" if column.default is None else f" DEFAULT {column.default}"
        self._tell(f"ADD COLUMN {name} int{told}")

    def _drop(self, column: Column) -> None:
        column.dropped = True
        self._tell(f"DROP COLUMN {column.name}")

    def _rename(self, column: Column, name: str) -> None:
        self._take(column, name)
        self._tell(f"RENAME COLUMN {column.name} TO {name}")
        column.name = name

    def _tell(self, what: str) -> None:
        about = {"databaseName": self.database, "tableChanges": []}
        self.log.append({"source": self._place(), **about, "ddl": f"ALTER TABLE orders {what}"})

    def _change(self, ident: int, value: int, here: list[Column]) -> None:
        for column in here:  # the schema of a delete has them, too
            column.first = column.first or self.clock + 1
        known = self.versions.setdefault(ident, [])
        alive = bool(known) and known[-1] is not None
        if alive and value < 2:
            known.append(None)
            return self._write("d", {"id": ident}, None, here)
        values = ((c, WIDE * c.wide + 100 * self.clock + at) for at, c in enumerate(here))
        told = {id(column): value for column, value in values}
        known.append((self.clock + 1, told))
        after = {"id": ident} | {column.name: told[id(column)] for column in here}
        return self._write("u" if alive else "c", None, after, here)

    def _write(self, op: str, before: Row | None, after: Row | None, here: list[Column]) -> None:
        fields = [{"field": "id", "type": "int32", "optional": False}]
        fields += [column.described for column in here]
        row = {"field": "after", "type": "struct", "optional": True, "fields": fields}
        payload = {"op": op, "source": self._place(), "before": before, "after": after}
        schema = {"type": "struct", "fields": [row]}
        self.log.append({"schema": schema, "payload": payload})

    def _place(self) -> Row:
        self.clock += 1
        return {"connector": "mysql", "db": self.database, "table": "orders", "row": 0,
                "file": "mysql-bin.000007", "pos": self.clock, "ts_ms": 10**12 + self.clock,
                "snapshot": "false"}  # fmt: skip

    def spelled(self, ident: int, version: Version) -> Row:
        """What the tables show of a version: each column under the name that it had last."""
        shown: Row = {"id": ident}
        for column in self.columns:
            name = f"{column.name}__dropped" if column.replaced else column.name
            value = column.held(*version)
            shown |= {name: value} if value is not None else {}
        return shown

    def rows(self) -> Counter[Any]:
        """The rows of now."""
        newest = {ident: known[-1] for ident, known in self.versions.items()}
        return counted(self.spelled(i, told) for i, told in newest.items() if told is not None)

    def history(self) -> Counter[Any]:
        """All versions that there ever were."""
        return counted(
            self.spelled(ident, told)
            for ident, known in self.versions.items()
            for told in known
            if told is not None
        )


def counted(rows: Any) -> Counter[Any]:
    """Rows by what they hold; a column that is NULL is as none."""
    return Counter(tuple(sorted((k, v) for k, v in row.items() if v is not None)) for row in rows)


def seen(lake: Sandbox, table: str) -> Counter[Any]:
    """The rows of a table of the lake, without Sluice's own columns."""
    return counted(
        {k: v for k, v in row.items() if k not in names.RESERVED_COLUMNS}
        for row in lake.rows(table)
    )


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One lake for all examples, each with a database of its own; drivers run in here."""
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": ["current", "history"]}
    about = {"format": "debezium", "table_name": "{database}_{table}", "tables": {"orders": table}}
    sandbox = Sandbox(spark, tmp_path_factory.mktemp("columns"), about)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "submit", sandbox.drive)
        yield sandbox


def batches(log: list[Row], seed: int, count: int, newest_first: bool) -> list[list[Row]]:
    """A log in batches: each record at least once, in any order within them."""
    rng = random.Random(seed)
    found: list[list[Row]] = [[] for _ in range(count)]
    for age, record in enumerate(reversed(log)):
        turn = age * count // len(log) if newest_first else rng.randrange(count)
        for at in {turn, *([rng.randrange(count)] if rng.random() < 0.2 else [])}:
            found[at].append(record)
    for batch in found:
        rng.shuffle(batch)
    return [batch for batch in found if batch]


def drawn(seed: int) -> list[Step]:
    """Many steps without Hypothesis, whose first ones are always the smallest."""
    rng = random.Random(seed)
    return [(rng.randrange(12), rng.randrange(12), rng.randrange(12)) for _ in range(40)]


@proved
@example(drawn(1), 1, 3, False)
@example(drawn(2), 2, 3, True)
@given(STEPS, st.integers(0, 2**32), st.integers(1, 4), st.booleans())
def test_columns_depend_on_the_set_of_events_alone(
    lake: Sandbox, steps: list[Step], seed: int, count: int, newest_first: bool
) -> None:
    table = Table(f"db{next(NUMBERS)}")
    for step in steps:
        table.step(step)
    if not table.versions:
        return
    for at, batch in enumerate(batches(table.log, seed, count, newest_first)):
        lake.write(f"{table.database}/{at}.jsonl", batch)
        lake.run()
    target = f"{table.database}_orders"
    assert seen(lake, target) == table.rows()
    assert seen(lake, f"{target}__history") == table.history()
