"""Small histories for the property tests: sources that are changed step by step, and their logs.

A step is three small numbers, so that Hypothesis can shrink failures.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests import reference
from tests.reference import Change, Row, row

IDS = 10
TEXTS = ("", "a", "ü \u0000", None, "NULL", '"z", z\r\n' + "z" * 40)
AMOUNTS = ("0", "1.10", "-0.01", None, "99999999.99")
KEYED: dict[str, Any] = {"key": ["id"], "columns": {"id": "int", "amount": "decimal(10,2)"}}
TABLES: dict[str, dict[str, Any]] = {
    "keyed": KEYED,
    "partial": KEYED | {"partition_by": ["bucket(2, amount)"]},
    "keyless": {"key": [], "columns": {"x": "int"}, "write_mode": "copy-on-write"},
}
Step = tuple[int, int, int]
STEPS = st.lists(st.tuples(*[st.integers(0, 11)] * 3), min_size=30, max_size=60)


@dataclass
class Source:
    """One table that is changed; every change is logged at a place of its own.

    `only_rows`: only whole rows are logged, each replacing the one with its key.
    """

    name: str
    truncates: bool = True
    only_rows: bool = False
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
    """A table with key `id`; some changes carry the whole old row, others at most its key.

    `partial`: some updates leave out the column `doc`, and so do some changes of the key.
    """

    partial: bool = False
    rows: dict[int, dict[str, object]] = field(default_factory=dict)
    whole: bool = False

    def step(self, number: int, step: Step) -> None:
        kind, pick, value = (step[0] + number) % 12, step[1], step[2]
        self.whole = (pick + value) % 2 == 0
        if self.only_rows:
            return self._put(pick % IDS, value)
        if number < 2 and len(self.rows) < IDS:
            return self._insert(pick, value, "r")
        if not self.rows or (kind in (0, 1, 2) and len(self.rows) < IDS):
            return self._insert(pick, value, "c")
        here = sorted(self.rows)[pick % len(self.rows)]
        if kind in (3, 4):
            return self._delete(here)
        if kind in (5, 6) and len(self.rows) < IDS:
            return self._move(here, value, together=kind == 5 and self.whole)
        if kind == 7 and value % 3 == 0 and self.truncates:
            self.rows.clear()
            return self.write("t")
        return self._update(here, value, absent=self.partial and kind >= 9)

    def _new(self, ident: int, value: int) -> dict[str, object]:
        made: dict[str, object] = {"id": ident, "text": TEXTS[value % len(TEXTS)]}
        return made | {"amount": AMOUNTS[value % len(AMOUNTS)], "doc": f"doc {self.clock}"}

    def _free(self, pick: int) -> int:
        free = [n for n in range(IDS) if n not in self.rows]
        return free[pick % len(free)]

    def _insert(self, pick: int, value: int, op: str) -> None:
        self._put(self._free(pick), value, op)

    def _put(self, ident: int, value: int, op: str = "c") -> None:
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
        absent = ["doc"] if self.partial and value % 3 else []
        new |= {name: self.rows[ident][name] for name in absent}
        del self.rows[ident]
        self.rows[int(str(new["id"]))] = new
        if together:
            return self.write("u", before=old, after=new, absent=absent)
        self.write("d", before=old)
        return self._at("c", self.clock, after=new, absent=absent)


@dataclass
class KeylessSource(Source):
    """A table without a key, in which equal rows are common; the log has whole old rows."""

    rows: list[dict[str, object]] = field(default_factory=list)

    def step(self, number: int, step: Step) -> None:
        kind, pick, value = (step[0] + number) % 12, step[1], step[2]
        new: dict[str, object] = {"x": value % 3, "text": (None, "a")[value % 2]}
        if self.only_rows or number < 2 or not self.rows or kind < 6:
            self.rows.append(new)
            return self.write("r" if number < 2 else "c", after=new)
        if kind == 6 and value % 3 == 0 and self.truncates:
            self.rows.clear()
            return self.write("t")
        old = self.rows.pop(pick % len(self.rows))
        if kind < 10:
            return self.write("d", before=old)
        self.rows.append(new)
        return self.write("u", before=old, after=new)


def sources(truncates: bool = True, only_rows: bool = False) -> list[KeyedSource | KeylessSource]:
    """The tables of one example."""
    return [
        KeyedSource("keyed", truncates, only_rows),
        KeyedSource("partial", truncates, only_rows, partial=True),
        KeylessSource("keyless", truncates, only_rows),
    ]


def play(
    steps: list[list[Step]], truncates: bool = True, only_rows: bool = False
) -> list[KeyedSource | KeylessSource]:
    """Play every table's steps; each source ends with its rows and its log."""
    played = sources(truncates, only_rows)
    for source, mine in zip(played, steps, strict=True):
        for number, step in enumerate(mine):
            source.step(number, step)
    return played


def drawn(seed: int) -> list[list[Step]]:
    """A history of many steps without Hypothesis, whose own first example is always
    the smallest."""
    rng = random.Random(seed)
    return [[(d(12), d(12), d(12)) for _ in range(60)] for d in [rng.randrange] * len(sources())]


def history(seed: int, parts: int) -> tuple[list[Change], list[list[Change]]]:
    """Changes of every table, with key changes and TRUNCATEs, dealt out to `parts` in
    random order."""
    log = [change for source in play(drawn(seed)) for change in source.log]
    rng = random.Random(seed)
    dealt: list[list[Change]] = [[] for _ in range(parts)]
    for change in log:
        rng.choice(dealt).append(change)
    return log, dealt


def meaning(log: list[Change], table: str) -> list[Row]:
    """What the reference makes of a table's changes."""
    mine = of_table(log, table)
    rows = reference.keyed(mine, "id") if TABLES[table]["key"] else reference.keyless(mine)
    return sorted((row(spelled(dict(each))) for each in rows), key=repr)


def spelled(values: dict[str, Any]) -> dict[str, Any]:
    """Amounts with the two places that their column has."""
    amount = values.get("amount")
    return values if amount is None else values | {"amount": f"{Decimal(str(amount)):.2f}"}


def of_table(log: list[Change], name: str) -> list[Change]:
    """The changes of one table."""
    return [replace(c) for c in log if c.table == name]


def as_rows(rows: list[dict[str, Any]]) -> list[Row]:
    """What a table shows, as the reference has it."""
    return sorted((row({k: _text(k, v) for k, v in r.items()}) for r in rows), key=repr)


def _text(name: str, value: Any) -> Any:
    """An amount is a decimal there and text here."""
    return value if name != "amount" or value is None else f"{value:f}"
