"""Columns that are added, dropped and renamed, told in any batches: names resolve by position.

No Spark: rows are dicts, moved between columns as the planner says for each stretch of positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.column_renames import NOWHERE, Renames, dropped_since
from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.ledger.column_log import ColumnStatement
from sluice.types.columns import STRING
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.dropped import may_go
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.renames import _steps
from spark_jobs.planning.renames_known import following, known_renames, renames_from
from spark_jobs.planning.stretches import NO_ORIGINS, Origins, stretch_pairs, stretches_of
from spark_jobs.planning.table_summary import Source, TableSummary

Row = dict[str, str]
NOTES = Source("", "", "notes")
PIPELINE = Pipeline(name="p", format="maxwell", namespace="p", landing=Landing(url="landing"))
KEEPING = TableConfig(key=["id"])
DROPPING = TableConfig(key=["id"], on_dropped_column="drop")


def below(position: int) -> str:
    return f"0000.2.{position:02d}"


@dataclass(frozen=True)
class Event:
    """A row that was written at a position, with every column of that time.

    A row of a full load ranks below every change, whenever it was written.
    """

    position: int
    row: Row
    full_load: bool = False

    @property
    def at(self) -> str:
        return f"0000.{0 if self.full_load else 2}.{self.position:02d}.1"


def said(position: int, *columns: tuple[str | None, str | None]) -> ColumnStatement:
    return ColumnStatement("notes", below(position), columns, f"statement {position}")


def event(position: int, **row: str) -> Event:
    return Event(position, row)


Told = Event | ColumnStatement


def first(row: Row, columns: Iterable[str]) -> str | None:
    return next((row[name] for name in columns if name in row), None)


def value(one: Event, row: Row, origins: Origins) -> str | None:
    sure = [] if one.full_load else origins.sure
    return first(row, sure or origins.possible)


def with_values(row: Row, values: dict[str, str | None]) -> Row:
    return {name: text for name, text in (row | values).items() if text is not None}


def read(one: Event, renames: Renames, columns: Sequence[str]) -> Row:
    """An event's row under the names of now."""
    stretches = stretches_of(renames, columns)
    touched = {n for s in stretches for pair in s.renamed.items() for n in pair} - {NOWHERE}
    stretch = next((s for s in stretches if one.at < s.below), None)
    if stretch is None:
        return one.row
    return with_values(one.row, {name: value(one, one.row, stretch.of(name)) for name in touched})


def moved(
    one: Event, row: Row, old: ColumnHistory, now: ColumnHistory, columns: Sequence[str]
) -> Row:
    """A stored row, written under the names `old`, under those of now."""
    there = [*columns, *now.left]
    sides = stretch_pairs(old.renames, now.renames, there, now.arrived(old))
    steps = [(a.below, _steps(a, b)) for a, b in sides]
    step = next((step for at, step in steps if one.at < at), None)
    if step is None:
        return row
    return with_values(row, {name: value(one, row, step.get(name, NO_ORIGINS)) for name in columns})


@dataclass
class Table:
    """A table that takes events and statements batch by batch, as a load does.

    `changelog`: all columns that it ever had.
    """

    config: TableConfig = KEEPING
    columns: list[str] = field(default_factory=list)
    changelog: list[str] = field(default_factory=list)
    history: ColumnHistory = field(default_factory=ColumnHistory)
    statements: list[ColumnStatement] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)
    rebuilt: int = 0

    def load(self, batch: Sequence[Told]) -> None:
        events = [one for one in batch if isinstance(one, Event)]
        news = [one for one in batch if isinstance(one, ColumnStatement)]
        self.statements += news
        if not events and not self.events:
            return
        plan, now = self._planned(events, bool(news))
        columns, old = [column.name for column in plan.columns], self.history
        self.changelog = list(dict.fromkeys([*self.changelog, *columns]))
        self.events += events
        if now.clash(old, columns):  # such rows are folded again, from the changelog
            self.rows, events, self.rebuilt = {}, self.events, self.rebuilt + 1
        stored = {one.position: one for one in self.events}
        for position, row in self.rows.items():
            self.rows[position] = moved(stored[position], row, old, now, columns)
        self.rows |= {one.position: read(one, now.renames, self.changelog) for one in events}
        self._leave(columns, now)

    def _leave(self, columns: Sequence[str], now: ColumnHistory) -> None:
        """Let the columns go in which no event has a value."""
        aside = dropped_since(self.history.renames, now.renames)
        under = [read(one, now.renames, self.changelog) for one in self.events]
        found = may_go(self.statements, self.config, columns, aside)
        going = [name for name in found if not any(name in row for row in under)]
        self.columns = [name for name in columns if name not in going]
        for position, row in self.rows.items():
            self.rows[position] = {n: text for n, text in row.items() if n not in going}
        self.history = now.without(going)

    def _planned(self, events: list[Event], news: bool) -> tuple[TablePlan, ColumnHistory]:
        came = dict.fromkeys(name for one in events for name in one.row)
        stated = renames_from(self.statements, self.config)
        gone = {old for one in stated for old, new in one.columns if new == NOWHERE}
        returning = gone if news else gone.intersection(came)
        there = [*self.columns, *(name for name in self.changelog if name in returning)]
        columns = tuple(
            PlannedColumn(name, STRING, {None: STRING}) for name in dict.fromkeys([*there, *came])
        )
        summary = TableSummary(NOTES, images={1: tuple(came)})
        plan = TablePlan(NOTES, "p", "notes", columns, ("id",), self.config, summary)
        plan = following(PIPELINE, plan, stated, there)
        known = known_renames(plan, stated, self.history.renames)
        return plan, self.history.known({}, known, (), plan.types)


def loaded(*batches: Sequence[Told], config: TableConfig = KEEPING) -> dict[int, Row]:
    table = Table(config)
    for batch in batches:
        table.load(batch)
    return table.rows


@dataclass
class Notes:
    """The table at its source: columns by an id that outlives their names."""

    names: dict[int, str] = field(default_factory=lambda: {0: "a", 1: "b"})
    told: list[Told] = field(default_factory=list)
    made: int = 2

    @property
    def free(self) -> list[str]:
        return sorted({*"abcd"} - set(self.names.values()))

    def write(self, *null: int, full_load: bool = False) -> None:
        position = len(self.told) + 1
        there = ((column, name) for column, name in self.names.items() if column not in null)
        row = {name: f"{column}@{position}" for column, name in there}
        self.told.append(Event(position, row, full_load))

    def alter(self, *columns: tuple[str | None, str | None]) -> None:
        self.told.append(said(len(self.told) + 1, *columns))

    def add(self, name: str) -> None:
        self.names[self.made], self.made = name, self.made + 1
        self.alter((None, name))

    def drop(self, column: int) -> None:
        self.alter((self.names.pop(column), None))

    def rename(self, column: int, name: str) -> None:
        self.alter((self.names[column], name))
        self.names[column] = name

    def swap(self, one: int, other: int, *dropped: int) -> None:
        a, b = self.names[one], self.names[other]
        self.alter((a, b), (b, a), *((self.names.pop(column), None) for column in dropped))
        self.names[one], self.names[other] = b, a

    def replace(self, column: int, name: str) -> None:
        """Move a column to a new one of another type, as migrations do."""
        self.add(name)
        self.write()
        self.swap(column, self.made - 1)
        self.write()
        self.drop(self.made - 1)


@st.composite
def histories(draw: st.DrawFn) -> Notes:
    notes = Notes()
    for _ in range(draw(st.integers(3, 12))):
        may = ["write", "load"] + ["add", "rename", "replace"] * bool(notes.free)
        may += ["drop", "swap"] * (len(notes.names) > 1) + ["both"] * (len(notes.names) > 2)
        done = draw(st.sampled_from(may))
        column = st.sampled_from(sorted(notes.names))
        if done in ("write", "load"):
            null = st.sets(column, max_size=1)
            notes.write(*draw(null), full_load=done == "load")
        elif done == "add":
            notes.add(draw(st.sampled_from(notes.free)))
        elif done in ("rename", "replace"):
            step = notes.rename if done == "rename" else notes.replace
            step(draw(column), draw(st.sampled_from(notes.free)))
        elif done == "both":
            three = draw(st.lists(column, min_size=3, max_size=3, unique=True))
            notes.swap(*three)
        else:
            one, other = draw(st.lists(column, min_size=2, max_size=2, unique=True))
            notes.drop(one) if done == "drop" else notes.swap(one, other)
    notes.write()
    return notes


either = pytest.mark.parametrize("config", [KEEPING, DROPPING], ids=["keep", "drop"])


@either
@given(histories(), st.data())
def test_rows_depend_on_the_statements_and_not_on_their_batches(
    config: TableConfig, notes: Notes, data: st.DataObject
) -> None:
    batches: list[list[Told]] = [[], [], []]
    for one in data.draw(st.permutations(notes.told)):
        batches[data.draw(st.integers(0, 2))].append(one)
    rows = loaded(notes.told, config=config)
    assert loaded(*batches, config=config) == rows
    for one in notes.told:
        if isinstance(one, Event) and not one.full_load:
            now = {
                name: f"{column}@{one.position}"
                for column, name in notes.names.items()
                if f"{column}@{one.position}" in one.row.values()
            }
            assert {name: rows[one.position].get(name) for name in notes.names.values()} == {
                name: now.get(name) for name in notes.names.values()
            }


@given(histories(), st.data())
def test_so_do_rows_of_which_not_all_is_told(notes: Notes, data: st.DataObject) -> None:
    """Of a history some events and statements never land."""
    batches: list[list[Told]] = [[], [], []]
    for one in data.draw(st.permutations(notes.told)):
        if data.draw(st.integers(0, 3)):
            batches[data.draw(st.integers(0, 2))].append(one)
    assert loaded(*batches) == loaded([one for batch in batches for one in batch])


@either
@given(histories())
def test_what_is_told_in_its_order_needs_no_second_look(config: TableConfig, notes: Notes) -> None:
    table = Table(config)
    for one in notes.told:
        table.load([one])
    assert table.rebuilt == 0


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(
            [[Event(9, {"c": "c9", "b": "b9", "d": "d9"}, full_load=True), event(1, a="a1")],
             [said(8, ("a", "c"))], [said(2, ("a", "d")), said(4, ("d", "a"))]],
            id="a full load with a name that a column had for a while",
        ),
        pytest.param(
            [[event(5, a="dropped"), said(20, ("b", "a"))], [event(15, b="b15")],
             [event(25, a="a25")]],
            id="a name that is taken over, without a drop, by a column that comes later",
        ),
        pytest.param(
            [[event(2, a="a2"), event(6, d="d6"), said(8, ("d", "a"))], [said(5, ("c", "d"))],
             [said(3, ("a", "c"))]],
            id="a column has its first name back, told newest first",
        ),
        pytest.param(
            [[event(7, a="a7", b="b7"), said(11, ("b", "a"), ("a", "b"))],
             [event(3, a="a3", c="c3"), said(2, ("b", "c")), said(6, ("c", "b")),
              said(10, ("d", "b"))],
             [said(9, ("b", "c"))]],
            id="a swap, and what gave the name to another column, told later",
        ),
        pytest.param(
            [[event(1, id="1", a="a1"), said(3, (None, "b")), said(4, ("a", "b"), ("b", "c"))],
             [event(9, id="9")]],
            id="a statement of two renames, one of a column that no event has",
        ),
        pytest.param(
            [[event(1, a="a1"), event(2, a="a2"), said(7, ("a", None)), said(8, ("d", "a")),
              said(11, ("c", "a"))],
             [said(3, (None, "d")), said(9, ("a", None)), event(10, b="b10")], [event(5, d="d5")]],
            id="a name is dropped twice",
        ),
        pytest.param(
            [[event(1, a="a1", b="b1", d="d1"),
              said(2, ("b", "c"), ("a", "b"), ("d", None)), event(3, b="b3", c="c3")],
             [said(4, (None, "d")), event(5, b="b5", c="c5", d="d5")]],
            id="a statement shifts names and drops one that is used again later",
        ),
    ],
)  # fmt: skip
def test_rows_depend_on_the_statements_in_fixed_batches(
    batches: list[list[Told]],
) -> None:
    assert loaded(*batches) == loaded([one for batch in batches for one in batch])


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(
            [[event(1, price="old1"), said(2, (None, "price_new")),
              event(3, price="old1", price_new="new1"),
              said(4, ("price", "price_new"), ("price_new", "price")),
              event(5, price="new2", price_new="old2"), said(6, ("price_new", None)),
              event(7, price="new3")],
             [said(8, (None, "note"))]],
            id="two columns change places, and the old one goes",
        ),
        pytest.param(
            [[event(1, a="a1"), said(2, ("a", "c")), said(3, (None, "a")), said(4, ("a", None)),
              event(5, c="c5")],
             [event(0, a="a0")]],
            id="an event has a name that went",
        ),
        pytest.param(
            [[said(1, ("a", None)), event(2, b="b2"), said(3, ("d", None)), said(4, ("b", "d")),
              said(5, (None, "b")), said(6, ("b", None)), event(7, d="d7")],
             [event(0, a="a0")]],
            id="an event has another name than the one that went",
        ),
    ],
)  # fmt: skip
def test_a_column_that_went_was_there(batches: list[list[Told]]) -> None:
    rows = loaded([one for batch in batches for one in batch], config=DROPPING)
    assert loaded(*batches, config=DROPPING) == rows
