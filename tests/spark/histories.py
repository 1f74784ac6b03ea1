"""Micro histories for the property test: a source played step by step, and its log as Debezium's.

A step is three small numbers, so that Hypothesis can shrink what fails.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.reference import Change, Row, row

PLACEHOLDER = "__debezium_unavailable_value"
IDS = 5
TEXTS = ("", "a", "ü \u0000", None, "NULL", "z" * 40)
AMOUNTS = ("0", "1.10", "-0.01", None, "99999999.99")
Step = tuple[int, int, int]
STEPS = st.lists(st.tuples(*[st.integers(0, 11)] * 3), min_size=12, max_size=40)


@dataclass
class Source:
    """One table being changed; every change is logged at a place of its own."""

    name: str
    log: list[Change] = field(default_factory=list)
    clock: int = 0

    def write(self, op: str, **fields: Any) -> None:
        self.clock += 1
        self._at(op, self.clock, **fields)

    def _at(self, op: str, clock: int, **fields: Any) -> None:
        images = {k: row(v) for k, v in fields.items() if k != "absent"}
        absent = frozenset(fields.get("absent", ()))
        self.log.append(Change(self.name, op, (int(op != "r"), clock), **images, absent=absent))


@dataclass
class KeyedSource(Source):
    """A table with key `id`; some changes carry the whole old row, others its key at most.

    `partial`: some updates leave out the column `doc`.
    """

    partial: bool = False
    rows: dict[int, dict[str, object]] = field(default_factory=dict)
    whole: bool = False

    def step(self, number: int, step: Step) -> None:
        kind, pick, value = (step[0] + number) % 12, step[1], step[2]
        self.whole = (pick + value) % 2 == 0
        if number < 2 and len(self.rows) < IDS:
            return self._insert(pick, value, "r")
        if not self.rows or (kind in (0, 1, 2) and len(self.rows) < IDS):
            return self._insert(pick, value, "c")
        here = sorted(self.rows)[pick % len(self.rows)]
        if kind in (3, 4):
            return self._delete(here)
        if kind in (5, 6) and len(self.rows) < IDS:
            return self._move(here, value, together=kind == 5 and self.whole)
        if kind == 7 and value % 3 == 0:
            self.rows.clear()
            return self.write("t")
        return self._update(here, value, absent=self.partial and kind >= 9)

    def _new(self, ident: int, value: int) -> dict[str, object]:
        made = {"id": ident, "text": TEXTS[value % len(TEXTS)]}
        return made | {"amount": AMOUNTS[value % len(AMOUNTS)], "doc": f"doc {self.clock}"}

    def _free(self, pick: int) -> int:
        free = [n for n in range(IDS) if n not in self.rows]
        return free[pick % len(free)]

    def _insert(self, pick: int, value: int, op: str) -> None:
        ident = self._free(pick)
        self.rows[ident] = self._new(ident, value)
        self.write(op, after=self.rows[ident])

    def _old(self, ident: int) -> dict[str, object]:
        made_up = {"id": ident, "text": "made up", "amount": "0.00", "doc": None}
        return self.rows[ident] if self.whole else made_up

    def _delete(self, ident: int) -> None:
        self.write("d", before=self._old(ident))
        del self.rows[ident]

    def _update(self, ident: int, value: int, absent: bool) -> None:
        old = self._old(ident)
        new = self._new(ident, value)
        if absent:
            new["doc"] = self.rows[ident]["doc"]
        self.rows[ident] = new
        before = {"before": old} if self.whole else {}
        self.write("u", **before, after=new, absent=["doc"] if absent else [])

    def _move(self, ident: int, value: int, together: bool) -> None:
        """A change of the key: one update with both images, or a delete and a create."""
        old, new = self._old(ident), self._new(self._free(value), value)
        del self.rows[ident]
        self.rows[int(str(new["id"]))] = new
        if together:
            return self.write("u", before=old, after=new)
        self.write("d", before=old)
        return self._at("c", self.clock, after=new)


@dataclass
class KeylessSource(Source):
    """A table without a key, of which equal rows are the rule; the log has whole old rows."""

    rows: list[dict[str, object]] = field(default_factory=list)

    def step(self, number: int, step: Step) -> None:
        kind, pick, value = (step[0] + number) % 12, step[1], step[2]
        new = {"x": value % 3, "text": (None, "a")[value % 2]}
        if number < 2 or not self.rows or kind < 6:
            self.rows.append(new)
            return self.write("r" if number < 2 else "c", after=new)
        if kind == 6 and value % 3 == 0:
            self.rows.clear()
            return self.write("t")
        old = self.rows.pop(pick % len(self.rows))
        if kind < 10:
            return self.write("d", before=old)
        self.rows.append(new)
        return self.write("u", before=old, after=new)


def sources() -> list[KeyedSource | KeylessSource]:
    """The tables of one example."""
    return [KeyedSource("keyed"), KeyedSource("partial", partial=True), KeylessSource("keyless")]


def play(steps: list[list[Step]]) -> list[KeyedSource | KeylessSource]:
    """Play every table's steps; each source ends with its rows and its log."""
    played = sources()
    for source, mine in zip(played, steps, strict=True):
        for number, step in enumerate(mine):
            source.step(number, step)
    return played


def debezium(change: Change, database: str, sent: int = 0) -> dict[str, Any]:
    """A change as Debezium's PostgreSQL connector writes it; `sent` differs between repeats.

    The own LSN goes back from transaction to transaction, as it does in a real log.
    """
    clock = change.place[1]
    source = {"connector": "postgresql", "db": database, "schema": "s", "table": change.table}
    if change.op == "r":
        place: dict[str, Any] = {"lsn": 5, "sequence": '[null,"5"]', "snapshot": "true"}
    else:
        commit, own = 98 + clock // 3, 10**6 - 300 * (clock // 3) + clock % 3
        place = {"lsn": own, "sequence": f'["{commit}","{own}"]'}
    when = {"ts_ns": 10**18 + clock} if change.op == "r" else {"ts_ms": 10**12 + sent}
    after = None if change.after is None else dict(change.after)
    after = after and after | dict.fromkeys(change.absent, PLACEHOLDER)
    before = None if change.before is None else dict(change.before)
    images = {"before": before, "after": after}
    return {"op": change.op, "source": source | place | {"ts_ms": 10**12 + clock}, **images, **when}


Part = list[list[dict[str, Any]]]


@dataclass(frozen=True)
class Delivery:
    """How a log comes: in how many batches; which of them is tried and given up at its turn.

    `retried_last`: the batch given up is loaded after all others, else at once.
    """

    seed: int
    batches: int
    given_up: int
    retried_last: bool

    def split(self, log: list[Change], database: str) -> list[Part]:
        """Batches of files: every change at least once, in any order, some in several batches."""
        rng = random.Random(self.seed)
        parts: Part = [[] for _ in range(self.batches)]
        for change in log:
            for sent in range(rng.choice((1, 1, 1, 2, 3))):
                rng.choice(parts).append(debezium(change, database, sent))
        for part in parts:
            rng.shuffle(part)
        return [list(_halves(part, rng)) for part in parts if part]

    def turns(self, batches: int) -> list[tuple[int, bool]]:
        """Which batch is loaded when, and whether it is published."""
        turns = [(at, True) for at in range(batches)]
        if self.given_up >= batches:
            return turns
        again = turns.pop(self.given_up)
        turns.insert(self.given_up, (self.given_up, False))
        turns.insert(len(turns) if self.retried_last else self.given_up + 1, again)
        return turns


def _halves(part: list[Any], rng: random.Random) -> Iterator[list[Any]]:
    cut = rng.randint(0, len(part))
    yield from (half for half in (part[:cut], part[cut:]) if half)


DELIVERIES = st.builds(
    Delivery, st.integers(0, 2**32), st.integers(1, 4), st.integers(0, 4), st.booleans()
)


def drawn(seed: int, delivery: Delivery) -> tuple[list[list[Step]], Delivery]:
    """A history of many steps without Hypothesis, whose first one is always the smallest."""
    rng = random.Random(seed)
    steps = [[(d(12), d(12), d(12)) for _ in range(40)] for d in [rng.randrange] * len(sources())]
    return steps, delivery


def of_table(log: list[Change], name: str) -> list[Change]:
    """The changes of one table."""
    return [replace(c) for c in log if c.table == name]


def as_rows(rows: list[dict[str, Any]]) -> list[Row]:
    """What a table shows, as the reference has it."""
    return sorted((row({k: _text(k, v) for k, v in r.items()}) for r in rows), key=repr)


def _text(name: str, value: Any) -> Any:
    """An amount is a decimal there and text here."""
    return value if name != "amount" or value is None else f"{value:f}"
